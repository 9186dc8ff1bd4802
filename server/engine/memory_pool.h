// A session's memory on one device.
#ifndef CHX_SERVER_ENGINE_MEMORY_POOL_H_
#define CHX_SERVER_ENGINE_MEMORY_POOL_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "server/engine/array.h"
#include "server/engine/devices.h"

namespace chx {

// What a session may hold over all its devices, and what it holds.
class MemoryAccount {
 public:
  explicit MemoryAccount(int64_t limit) : limit_(limit) {}
  bool TryReserve(int64_t bytes) {
    if (used_.fetch_add(bytes) + bytes <= limit_) return true;
    used_.fetch_sub(bytes);
    return false;
  }
  void Release(int64_t bytes) { used_.fetch_sub(bytes); }
  int64_t used() const { return used_.load(); }
  int64_t limit() const { return limit_; }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
};

// Hands out blocks of size classes from slabs of the device. Blocks never pass from one session to
// another, and slabs come from the device filled with zeros, so no session can see another's data.
// A freed block may be reused at once: all work of a session on a device is in one stream's order.
// Thread-safe. The session's stream must outlive the pool and every buffer must be gone first.
class MemoryPool {
 public:
  MemoryPool(DeviceSlot* slot, Stream* stream, MemoryAccount* account);
  ~MemoryPool();

  // kMemory error if the session's limit or the device's memory does not suffice. 0 bytes is valid.
  absl::StatusOr<Ref<Buffer>> Allocate(int64_t bytes);

 private:
  friend class Buffer;
  struct Slab {
    void* data;
    int64_t bytes;
  };
  static constexpr int kNumClasses = 56;
  static constexpr int64_t kSmallSlab = int64_t{1} << 20;
  static constexpr int64_t kMaxSmall = int64_t{256} << 10;

  void Free(Buffer* buffer);
  Buffer* NewBuffer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<char*> AllocateSmall(int size_class) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<char*> AllocateLarge(int64_t* bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<char*> NewSlab(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives cached large blocks back to the device; false if there were none.
  bool Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReturnSlab(void* data, int64_t bytes);

  DeviceSlot* const slot_;
  Stream* const stream_;
  MemoryAccount* const account_;
  Mutex mutex_;
  std::vector<char*> free_small_[kNumClasses] ABSL_GUARDED_BY(mutex_);
  std::multimap<int64_t, char*> free_large_ ABSL_GUARDED_BY(mutex_);
  std::vector<Slab> small_slabs_ ABSL_GUARDED_BY(mutex_);
  char* bump_ ABSL_GUARDED_BY(mutex_) = nullptr;
  char* bump_end_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Buffer* free_buffers_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<Buffer*> all_buffers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx

#endif  // CHX_SERVER_ENGINE_MEMORY_POOL_H_
