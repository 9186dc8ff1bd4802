#include "client/fork_guard.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"

namespace chx {
namespace {

struct Guarded {
  Mutex mutex;
  absl::flat_hash_map<int, ino_t> descriptors ABSL_GUARDED_BY(mutex);
};

// Locked while a process forks: the child finds the set whole and the mutex free.
Guarded& All() {
  static auto* const all = new Guarded;
  return *all;
}

std::atomic<int> generation{0};

void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { All().mutex.Lock(); }
void AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS { All().mutex.Unlock(); }
void AfterForkInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (const auto& [fd, inode] : All().descriptors) {
    if (InodeOf(fd) == inode) close(fd);
  }
  All().descriptors.clear();
  generation.fetch_add(1);
  All().mutex.Unlock();
}

}  // namespace

int ForkGeneration() {
  static const int registered = pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  static_cast<void>(registered);
  return generation.load(std::memory_order_relaxed);
}

void CloseInForkedChildren(int fd) {
  ForkGeneration();  // watches from now on
  MutexLock lock(&All().mutex);
  All().descriptors[fd] = InodeOf(fd);
}

void CloseGuarded(int fd, ino_t inode) {
  MutexLock lock(&All().mutex);
  const auto it = All().descriptors.find(fd);
  if (it == All().descriptors.end() || it->second != inode) return;
  All().descriptors.erase(it);
  if (InodeOf(fd) == inode) close(fd);
}

ino_t InodeOf(int fd) {
  struct stat info = {};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

}  // namespace chx
