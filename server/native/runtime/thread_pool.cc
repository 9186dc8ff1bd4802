#include "server/native/runtime/thread_pool.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <utility>

namespace chx::server::native {
namespace {

// About the time it takes to wake a thread. Spinning longer would keep a core busy between a
// client's calls.
constexpr auto kSpin = std::chrono::microseconds(50);

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Spins for a short time until `done` returns true, yielding the core. Returns its last result.
template <typename Done>
bool Spin(Done done) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      Pause();
    }
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

// Whether this thread's priority is lower than that of the process. It does not change after the
// thread's first loop.
bool HasLowPriority() {
  thread_local const bool low = getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid))) >
                                getpriority(PRIO_PROCESS, static_cast<id_t>(getpid()));
  return low;
}

// The pools for callers of low priority. Workers of normal priority in their loops would keep
// others from the cores, as they do by asking for help in loops of others.
class LowPools {
 public:
  ThreadPool& For(const ThreadPool* pool) {
    MutexLock lock(&mutex_);
    std::unique_ptr<ThreadPool>& low = pools_[pool];
    // Its threads inherit the priority of this one.
    if (low == nullptr) low = std::make_unique<ThreadPool>(pool->threads());
    return *low;
  }
  void Drop(const ThreadPool* pool) {
    std::unique_ptr<ThreadPool> low;
    MutexLock lock(&mutex_);
    const auto it = pools_.find(pool);
    if (it == pools_.end()) return;
    low = std::move(it->second);
    pools_.erase(it);
  }

 private:
  Mutex mutex_;
  std::map<const ThreadPool*, std::unique_ptr<ThreadPool>> pools_ ABSL_GUARDED_BY(mutex_);
};

LowPools& AllLowPools() {
  static auto* const pools = new LowPools;
  return *pools;
}

// Set on the way from a pool to its low one.
thread_local bool to_low_pool = false;

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { Work(i); });
}

ThreadPool::~ThreadPool() {
  AllLowPools().Drop(this);
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  loop_added_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bool ThreadPool::RunChunk(Loop* loop, int self) {
  if (StopRequested()) return false;
  for (int i = 0; i < loop->num_parts; ++i) {
    Part& part = loop->parts[(self + i) % loop->num_parts];
    if (part.next.load(std::memory_order_relaxed) >= part.end) continue;
    const int64_t chunk = part.next.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= part.end) continue;
    const int64_t begin = chunk * loop->chunk;
    loop->call(loop->fn, begin, std::min(begin + loop->chunk, loop->n));
    return true;
  }
  return false;
}

void ThreadPool::Remove(Loop* loop) {
  const auto it = std::find(loops_.begin(), loops_.end(), loop);
  if (it == loops_.end()) return;
  loops_.erase(it);
  waiting_loops_.fetch_sub(1, std::memory_order_relaxed);
}

void ThreadPool::Run(Loop* loop) {
  if (HasLowPriority() && !std::exchange(to_low_pool, false)) {
    ThreadPool& low = AllLowPools().For(this);
    to_low_pool = true;
    return low.Run(loop);
  }
  const int64_t chunks = (loop->n + loop->chunk - 1) / loop->chunk;
  loop->num_parts = static_cast<int>(std::min<int64_t>({chunks, threads(), kMaxParts}));
  for (int i = 0; i < loop->num_parts; ++i) {
    loop->parts[i].next.store(chunks * i / loop->num_parts, std::memory_order_relaxed);
    loop->parts[i].end = chunks * (i + 1) / loop->num_parts;
  }
  int64_t to_wake = 0;
  {
    MutexLock lock(&mutex_);
    loops_.push_back(loop);
    waiting_loops_.fetch_add(1, std::memory_order_relaxed);
    to_wake = std::min<int64_t>(chunks - 1, sleepers_);
  }
  for (int64_t i = 0; i < to_wake; ++i) loop_added_.notify_one();
  while (RunChunk(loop, 0)) {
  }
  {
    MutexLock lock(&mutex_);
    Remove(loop);
  }
  // What workers wrote is visible here: each left by a release.
  const auto left = [loop] { return loop->workers.load(std::memory_order_acquire) == 0; };
  if (Spin(left)) return;
  MutexLock lock(&mutex_);
  ++callers_asleep_;
  while (!left()) worker_left_.wait(mutex_);
  --callers_asleep_;
}

void ThreadPool::AwaitLoop() {
  if (!loops_.empty() || stopping_) return;
  mutex_.Unlock();
  const bool found = Spin([this] { return waiting_loops_.load(std::memory_order_relaxed) > 0; });
  mutex_.Lock();
  if (found) return;
  ++sleepers_;
  while (loops_.empty() && !stopping_) loop_added_.wait(mutex_);
  --sleepers_;
}

void ThreadPool::Work(int self) {
  mutex_.Lock();
  while (true) {
    AwaitLoop();
    if (stopping_) break;
    if (loops_.empty()) continue;
    Loop* loop = loops_.front();
    loops_.pop_front();
    loops_.push_back(loop);
    loop->workers.fetch_add(1, std::memory_order_relaxed);
    mutex_.Unlock();
    // Stays, unless other loops wait.
    bool more = true;
    {
      const StopScope scope(loop->stop);
      do {
        more = RunChunk(loop, self);
      } while (more && waiting_loops_.load(std::memory_order_relaxed) <= 1);
    }
    mutex_.Lock();
    if (!more) Remove(loop);
    // The last access: the caller may go on at once.
    const bool last = loop->workers.fetch_sub(1, std::memory_order_release) == 1;
    if (last && callers_asleep_ > 0) worker_left_.notify_all();
  }
  mutex_.Unlock();
}

}  // namespace chx::server::native
