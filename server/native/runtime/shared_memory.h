// Slabs in anonymous files (memfd), which are shared with clients.
#ifndef CHX_SERVER_NATIVE_RUNTIME_SHARED_MEMORY_H_
#define CHX_SERVER_NATIVE_RUNTIME_SHARED_MEMORY_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "server/engine/slab_sharing.h"

namespace chx::server::native {

// Maps an anonymous file of `bytes` zeros, a multiple of the page size. The file is sealed: nobody
// who has the descriptor can shrink or grow it, or remove the seal.
absl::StatusOr<SharedSlab> NewSharedSlab(size_t bytes);
void DropSharedSlab(const SharedSlab& slab, bool discard);
// How many slabs a daemon may have, so that descriptors are left for connections.
size_t MaxSharedSlabs();

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_RUNTIME_SHARED_MEMORY_H_
