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

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_LOOPS_CONTIGUOUS_H_
