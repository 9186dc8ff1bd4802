// What a device whose memory is the host's may offer besides Device: slabs that another process can
// map. The engine asks a Device for it by dynamic_cast, so that backends need not know of it.
#ifndef CHX_SERVER_ENGINE_SLAB_SHARING_H_
#define CHX_SERVER_ENGINE_SLAB_SHARING_H_

#include <cstddef>

#include "absl/status/statusor.h"

namespace chx::server {

struct SharedSlab {
  char* data = nullptr;
  size_t bytes = 0;
  int fd = -1;  // stands for the memory; owned by whoever allocated it
};

// Thread-safe.
class SlabSharing {
 public:
  virtual ~SlabSharing() = default;
  // Zeros in a file of its own that no holder of the descriptor can shrink or grow. A kMemory
  // error when memory or descriptors are exhausted.
  virtual absl::StatusOr<SharedSlab> AllocateShared(size_t bytes) = 0;
  // With `discard` the memory is given back even if another process still maps it: that one sees
  // zeros. Else it lives as long as its last mapping.
  virtual void FreeShared(const SharedSlab& slab, bool discard) = 0;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_SLAB_SHARING_H_
