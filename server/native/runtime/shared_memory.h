// Files in memory, as which slabs are shared with clients.
#ifndef CHX_SERVER_NATIVE_SHARED_MEMORY_H_
#define CHX_SERVER_NATIVE_SHARED_MEMORY_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "server/engine/slab_sharing.h"

namespace chx::server::native {

// `bytes`, a multiple of the page, of zeros in a file without a name, mapped here. Sealed: whoever
// gets the descriptor can neither shrink nor grow the file, nor lift that.
absl::StatusOr<SharedSlab> NewSharedSlab(size_t bytes);
void DropSharedSlab(const SharedSlab& slab, bool discard);
// How many a daemon may hold, so that descriptors are left for connections.
size_t MaxSharedSlabs();

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_SHARED_MEMORY_H_
