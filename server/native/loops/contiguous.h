// Dense inputs for kernels that need them.
#ifndef CHX_SERVER_NATIVE_LOOPS_CONTIGUOUS_H_
#define CHX_SERVER_NATIVE_LOOPS_CONTIGUOUS_H_

#include "absl/status/statusor.h"
#include "server/engine/kernel.h"

namespace chx::server::native {

// `in` cast to `dtype` and C-contiguous: a copy in scratch memory, or `in` itself if it is so
// already.
absl::StatusOr<KernelTensor> Contiguous(const KernelArgs& args, const KernelTensor& in,
                                        Dtype dtype);

// A copy of a matrix, cast to `dtype`, with dense rows that are not a power of two apart, which
// suits products: such rows would share sets of the cache.
absl::StatusOr<KernelTensor> RowsApart(const KernelArgs& args, const KernelTensor& matrix,
                                       Dtype dtype);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_LOOPS_CONTIGUOUS_H_
