#include "server/engine/heap_trimmer.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "server/engine/host_cpus.h"

namespace chx::server {
namespace {

constexpr std::chrono::milliseconds kPause(500);
// A free of so much gives the end of its arena back, whatever is in there: it is more than the
// threshold for that, and less than what is mapped by itself (BoundHeaps).
constexpr size_t kLargeBlock = 640 << 10;

// malloc_trim gives back what is free inside of each arena, but the end of the main one only. Those
// of the others go when a large block is freed there, and a thread reaches just the arena it is
// given: one that no thread has, or the next in turn. So there are as many threads at once as
// arenas.
void TrimEnds() {
  Mutex mutex;
  CondVar all_there;
  size_t missing = HeapTrimmer::Arenas();
  std::vector<std::thread> threads;
  const auto arrive = [&](size_t count) {
    MutexLock lock(&mutex);
    missing -= count;
    if (missing == 0) all_there.notify_all();
  };
  const auto run = [&] {
    void* volatile block = std::malloc(kLargeBlock);
    std::free(block);
    arrive(1);
    MutexLock lock(&mutex);
    while (missing > 0) all_there.wait(mutex);
  };
  try {
    while (threads.size() < HeapTrimmer::Arenas()) threads.emplace_back(run);
  } catch (const std::system_error&) {
    arrive(HeapTrimmer::Arenas() - threads.size());
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

size_t HeapTrimmer::Arenas() {
  return std::clamp<size_t>(2 * static_cast<size_t>(HostCpus()), 4, 32);
}

HeapTrimmer::HeapTrimmer() : thread_([this] { Loop(); }) {}

HeapTrimmer::~HeapTrimmer() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

bool HeapTrimmer::Trim() {
  MutexLock lock(&trim_mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return false;
  freed_.store(0, std::memory_order_relaxed);
  malloc_trim(0);
  TrimEnds();
  next_ = std::chrono::steady_clock::now() + kPause;
  return true;
}

void HeapTrimmer::Wake() {
  // The lock, so that the thread is not between its look and its wait.
  { MutexLock lock(&mutex_); }
  wake_.notify_all();
}

void HeapTrimmer::Loop() {
  MutexLock lock(&mutex_);
  bool trimmed = false;  // lately
  while (!stopping_) {
    const int64_t freed = freed_.load(std::memory_order_relaxed);
    if (freed < (trimmed ? kLittle : kEnough)) {
      trimmed = false;
      wake_.wait(mutex_);
      continue;
    }
    mutex_.Unlock();
    Trim();
    mutex_.Lock();
    // What is freed meanwhile waits its turn, and so does the last of it, however little.
    trimmed = true;
    if (!stopping_) wake_.wait_for(mutex_, kPause);
  }
}

}  // namespace chx::server
