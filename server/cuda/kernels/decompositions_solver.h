// The operators of ops/defs/decompositions.cc on the GPU.
#ifndef CHX_SERVER_CUDA_KERNELS_DECOMPOSITIONS_SOLVER_H_
#define CHX_SERVER_CUDA_KERNELS_DECOMPOSITIONS_SOLVER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/cuda/vendor/solver.h"
#include "server/engine/kernel.h"

namespace chx::server::cuda {

// Whether cuSOLVER has what the operator needs.
bool Factorizes(absl::string_view op);
// Of such an operator: whether these matrices are worth it, each by itself or all at once.
bool IsWorthIt(absl::string_view op, const KernelTensor& a, const Solver& solver);

// Of an operator that it factorizes. Inputs and outputs are dense and of one dtype, float32 or
// float64; the inputs have elements. Waits for the stream: the outcome is an error of this call.
absl::Status Factorize(const KernelArgs& args, Solver* solver);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNELS_DECOMPOSITIONS_SOLVER_H_
