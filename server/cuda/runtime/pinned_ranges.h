// Memory of the host that GPUs copy from and to directly.
#ifndef CHX_SERVER_CUDA_RUNTIME_PINNED_RANGES_H_
#define CHX_SERVER_CUDA_RUNTIME_PINNED_RANGES_H_

#include <cstddef>
#include <map>

#include "base/mutex.h"

namespace chx::server::cuda {

// The process's: what one GPU has pinned is so for all of them. Thread-safe.
class PinnedRanges {
 public:
  static PinnedRanges& Global();

  // Registers it with CUDA, unless that fails: then copies take another way.
  void Add(char* memory, size_t bytes);
  void Remove(char* memory);
  bool Contains(const void* memory, size_t bytes);

 private:
  Mutex mutex_;
  std::map<const char*, size_t> ranges_ ABSL_GUARDED_BY(mutex_);  // bytes by address
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_RUNTIME_PINNED_RANGES_H_
