// Temporary arrays of kernels.
#ifndef CHX_SERVER_NATIVE_RUNTIME_SCRATCH_H_
#define CHX_SERVER_NATIVE_RUNTIME_SCRATCH_H_

#include "absl/status/statusor.h"
#include "server/engine/kernel.h"

namespace chx::server::native {

// A C-contiguous array with unspecified values.
absl::StatusOr<KernelTensor> NewTensor(const KernelArgs& args, Dtype dtype, const Shape& shape);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_RUNTIME_SCRATCH_H_
