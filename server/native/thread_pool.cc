#include "server/native/thread_pool.h"

#include <algorithm>

namespace chx::native {

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  loop_added_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bool ThreadPool::RunChunk(Loop* loop) {
  const int64_t begin = loop->next.fetch_add(loop->grain, std::memory_order_relaxed);
  if (begin >= loop->n) return false;
  loop->call(loop->fn, begin, std::min(begin + loop->grain, loop->n));
  return true;
}

void ThreadPool::Run(Loop* loop) {
  {
    MutexLock lock(&mutex_);
    loops_.push_back(loop);
  }
  const int64_t chunks = (loop->n + loop->grain - 1) / loop->grain;
  if (chunks > static_cast<int64_t>(workers_.size())) {
    loop_added_.notify_all();
  } else {
    for (int64_t i = 1; i < chunks; ++i) loop_added_.notify_one();
  }
  while (RunChunk(loop)) {
  }
  MutexLock lock(&mutex_);
  const auto it = std::find(loops_.begin(), loops_.end(), loop);
  if (it != loops_.end()) loops_.erase(it);
  // What workers wrote is visible here: each left under the mutex.
  while (loop->workers > 0) worker_left_.wait(mutex_);
}

void ThreadPool::Work() {
  mutex_.Lock();
  while (true) {
    while (loops_.empty() && !stopping_) loop_added_.wait(mutex_);
    if (stopping_) break;
    Loop* loop = loops_.front();
    loops_.pop_front();
    loops_.push_back(loop);
    ++loop->workers;
    mutex_.Unlock();
    const bool more = RunChunk(loop);
    mutex_.Lock();
    if (!more) {
      const auto it = std::find(loops_.begin(), loops_.end(), loop);
      if (it != loops_.end()) loops_.erase(it);
    }
    if (--loop->workers == 0) worker_left_.notify_all();
  }
  mutex_.Unlock();
}

}  // namespace chx::native
