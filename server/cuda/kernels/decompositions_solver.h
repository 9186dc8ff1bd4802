// The operators of ops/defs/decompositions.cc on the GPU.
#ifndef CHX_SERVER_CUDA_KERNELS_DECOMPOSITIONS_SOLVER_H_
#define CHX_SERVER_CUDA_KERNELS_DECOMPOSITIONS_SOLVER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/cuda/vendor/solver.h"
#include "server/engine/kernel.h"

namespace chx::server::cuda {

// Whether cuSOLVER has the operator.
bool Factorizes(absl::string_view op);
// Whether cuSOLVER is expected to be faster than the host for these matrices, one by one or all at
// once.
bool IsWorthIt(absl::string_view op, const KernelTensor& a, const Solver& solver);

// Runs an operator that Factorizes. Inputs and outputs are dense and of one dtype, float32 or
// float64. The inputs have elements. Waits for the stream, because the outcome is this call's
// status.
absl::Status Factorize(const KernelArgs& args, Solver* solver);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNELS_DECOMPOSITIONS_SOLVER_H_
