// Temporary arrays of kernels.
#ifndef CHX_SERVER_NATIVE_SCRATCH_H_
#define CHX_SERVER_NATIVE_SCRATCH_H_

#include "absl/status/statusor.h"
#include "server/engine/kernel.h"

namespace chx::server::native {

// A C-contiguous array with unspecified values.
absl::StatusOr<KernelTensor> NewTensor(const KernelArgs& args, Dtype dtype, const Shape& shape);

// `in` cast to `dtype` and C-contiguous; `in` itself if it is that already.
absl::StatusOr<KernelTensor> Contiguous(const KernelArgs& args, const KernelTensor& in,
                                        Dtype dtype);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_SCRATCH_H_
