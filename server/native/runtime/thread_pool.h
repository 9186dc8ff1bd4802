// The threads that all sessions of one device share.
#ifndef CHX_SERVER_NATIVE_RUNTIME_THREAD_POOL_H_
#define CHX_SERVER_NATIVE_RUNTIME_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/mutex.h"
#include "server/engine/stop_token.h"

namespace chx::server::native {

// Cuts loops into chunks that the calling thread and the workers take one by one. The caller always
// works on its own loop, so it ends even if every worker is busy with others' (no deadlock, also
// when nested); workers go round the waiting loops chunk by chunk (fair). Thread-safe.
//
// A loop over the same indices as the one before gives each thread the part that it had then, which
// is still in its cache, unless another thread is done earlier. A worker that has run out of work
// spins for some microseconds before it sleeps: operators come one after the other, and waking a
// thread takes longer than many of them.
//
// After a stop request for the calling thread's command (StopRequested) no further chunk begins: a
// loop may then return with chunks left out, and later loops run none. Workers use the caller's
// stop token for its chunks. Long chunks check it themselves.
class ThreadPool {
 public:
  // `threads` counts the caller: 1 starts no workers.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(begin, end) for chunks of at most `grain` indices that cover [0, n); the
  // cuts depend on n and grain only. Loops shorter than two grains run on the calling thread.
  template <typename Fn>
  void ParallelFor(int64_t n, int64_t grain, Fn&& fn) {
    if (n < 2 * grain) {
      if (n > 0 && !StopRequested()) fn(int64_t{0}, n);
      return;
    }
    const int64_t size = ChunkSize(n, grain);
    if (workers_.empty()) {
      for (int64_t begin = 0; begin < n && !StopRequested(); begin += size) {
        fn(begin, n - begin < size ? n : begin + size);
      }
      return;
    }
    using F = std::remove_reference_t<Fn>;
    Loop loop;
    loop.n = n;
    loop.stop = CurrentStopToken();
    loop.chunk = size;
    loop.fn = &fn;
    loop.call = [](const void* f, int64_t begin, int64_t end) {
      (*static_cast<F*>(const_cast<void*>(f)))(begin, end);
    };
    Run(&loop);
  }

 private:
  static constexpr int kMaxParts = 16;

  // Neighbouring chunks, for one thread as long as it keeps up. On a cache line of its own.
  struct alignas(64) Part {
    std::atomic<int64_t> next;  // the first chunk not taken yet
    int64_t end;
  };

  struct Loop {
    int64_t n = 0;
    int64_t chunk = 1;  // indices
    const void* fn = nullptr;
    void (*call)(const void* fn, int64_t begin, int64_t end) = nullptr;
    const StopToken* stop = nullptr;
    std::atomic<int> workers{0};  // inside the loop; more only come while it is in loops_
    int num_parts = 0;
    Part parts[kMaxParts];
  };

  // An even number of chunks of almost the same size: two threads end at the same time.
  static int64_t ChunkSize(int64_t n, int64_t grain) {
    int64_t chunks = (n + grain - 1) / grain;
    chunks += chunks % 2;
    return (n + chunks - 1) / chunks;
  }

  void Run(Loop* loop);
  // Runs a chunk, from thread `self`'s part if possible. False if none was left.
  static bool RunChunk(Loop* loop, int self);
  void Remove(Loop* loop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns when there may be a loop.
  void AwaitLoop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work(int self);

  Mutex mutex_;
  CondVar loop_added_;
  CondVar worker_left_;
  std::deque<Loop*> loops_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> waiting_loops_{0};  // the size of loops_, for those who spin
  int sleepers_ ABSL_GUARDED_BY(mutex_) = 0;
  int callers_asleep_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_RUNTIME_THREAD_POOL_H_
