// Gives what the allocator has free back to the system.
#ifndef CHX_SERVER_ENGINE_HEAP_TRIMMER_H_
#define CHX_SERVER_ENGINE_HEAP_TRIMMER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "base/mutex.h"

namespace chx::server {

// The allocator keeps what is freed: what a session has held would stay the daemon's for ever, and
// count against its limit. To trim takes a pass over the heap and locks parts of it meanwhile, so
// it is done by a thread of its own, after enough has been freed, and not too often. Thread-safe.
class HeapTrimmer {
 public:
  HeapTrimmer();
  ~HeapTrimmer();

  void Freed(int64_t bytes) {
    const int64_t before = freed_.fetch_add(bytes, std::memory_order_relaxed);
    if (before < kEnough && before + bytes >= kEnough) Wake();
  }
  // How many arenas the allocator is to have at most.
  static size_t Arenas();
  // Now, on the caller's thread; false if it was done a moment ago.
  bool Trim();

 private:
  static constexpr int64_t kEnough = int64_t{4} << 20;
  static constexpr int64_t kLittle = int64_t{64} << 10;  // for once more after that

  void Wake();
  void Loop();

  std::atomic<int64_t> freed_{0};
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Mutex trim_mutex_;
  std::chrono::steady_clock::time_point next_ ABSL_GUARDED_BY(trim_mutex_);
  std::thread thread_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_HEAP_TRIMMER_H_
