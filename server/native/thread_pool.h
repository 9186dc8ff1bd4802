// The threads that all sessions of one device share.
#ifndef CHX_SERVER_NATIVE_THREAD_POOL_H_
#define CHX_SERVER_NATIVE_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/mutex.h"

namespace chx::native {

// Cuts loops into chunks that the calling thread and the workers take one by one. The caller always
// works on its own loop, so it ends even if every worker is busy with others' (no deadlock, also
// when nested); workers go round the waiting loops chunk by chunk (fair). Thread-safe.
class ThreadPool {
 public:
  // `threads` counts the caller: 1 starts no workers.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(begin, end) for chunks of `grain` indices that cover [0, n); where the cuts fall
  // depends on n and grain only. Loops shorter than two grains run right here.
  template <typename Fn>
  void ParallelFor(int64_t n, int64_t grain, Fn&& fn) {
    if (n < 2 * grain) {
      if (n > 0) fn(int64_t{0}, n);
      return;
    }
    if (workers_.empty()) {
      for (int64_t begin = 0; begin < n; begin += grain)
        fn(begin, n - begin < grain ? n : begin + grain);
      return;
    }
    using F = std::remove_reference_t<Fn>;
    Loop loop;
    loop.n = n;
    loop.grain = grain;
    loop.fn = &fn;
    loop.call = [](const void* f, int64_t begin, int64_t end) {
      (*static_cast<F*>(const_cast<void*>(f)))(begin, end);
    };
    Run(&loop);
  }

 private:
  struct Loop {
    int64_t n = 0;
    int64_t grain = 1;
    const void* fn = nullptr;
    void (*call)(const void* fn, int64_t begin, int64_t end) = nullptr;
    std::atomic<int64_t> next{0};  // first index nobody has taken
    int workers = 0;               // inside the loop; guarded by the pool's mutex
  };

  void Run(Loop* loop);
  // False if nothing was left.
  static bool RunChunk(Loop* loop);
  void Work();

  Mutex mutex_;
  CondVar loop_added_;
  CondVar worker_left_;
  std::deque<Loop*> loops_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

}  // namespace chx::native

#endif  // CHX_SERVER_NATIVE_THREAD_POOL_H_
