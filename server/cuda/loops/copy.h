// Copies, casts and temporary arrays, for kernels of several groups.
#ifndef CHX_SERVER_CUDA_COPY_H_
#define CHX_SERVER_CUDA_COPY_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/kernel.h"

namespace chx::server::cuda {

// `in` cast to `out`'s dtype and broadcast to its shape.
absl::Status Copy(const KernelArgs& args, const KernelTensor& in, const KernelTensor& out);
absl::Status Fill(const KernelArgs& args, const Scalar& value, const KernelTensor& out);
// A C-contiguous array with unspecified values, for the time of the call.
absl::StatusOr<KernelTensor> NewTensor(const KernelArgs& args, Dtype dtype, const Shape& shape);
// `in` in C order; `in` itself if it is that already.
absl::StatusOr<KernelTensor> Contiguous(const KernelArgs& args, const KernelTensor& in);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_COPY_H_
