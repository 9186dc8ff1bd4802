// Copies, casts and temporary arrays, for all kernels.
#ifndef CHX_SERVER_CUDA_LOOPS_COPY_H_
#define CHX_SERVER_CUDA_LOOPS_COPY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ops/error.h"
#include "server/engine/kernel.h"

namespace chx::server::cuda {

// `in` cast to `out`'s dtype and broadcast to its shape.
absl::Status Copy(const KernelArgs& args, const KernelTensor& in, const KernelTensor& out);
absl::Status Fill(const KernelArgs& args, const Scalar& value, const KernelTensor& out);
// A C-contiguous array with unspecified values, in scratch memory.
absl::StatusOr<KernelTensor> NewTensor(const KernelArgs& args, Dtype dtype, const Shape& shape);
// `in` cast to `dtype` and C-contiguous; `in` itself if it is that already.
absl::StatusOr<KernelTensor> Contiguous(const KernelArgs& args, const KernelTensor& in,
                                        Dtype dtype);
// As above, with its own dtype.
absl::StatusOr<KernelTensor> Contiguous(const KernelArgs& args, const KernelTensor& in);

// `size` elements of scratch memory with unspecified values.
template <typename T>
absl::StatusOr<T*> NewScratch(const KernelArgs& args, int64_t size) {
  CHX_ASSIGN_OR_RETURN(void* const memory, args.scratch.Allocate(size * sizeof(T)));
  return static_cast<T*>(memory);
}

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_LOOPS_COPY_H_
