// Scratch memory of tasks that run on several threads.
#ifndef CHX_SERVER_NATIVE_VENDOR_TASK_SLOTS_H_
#define CHX_SERVER_NATIVE_VENDOR_TASK_SLOTS_H_

#include <cstddef>
#include <vector>

#include "base/mutex.h"

namespace chx::server::native {

// `count` buffers of `bytes` each, in `memory`: for as many tasks as run at a time. Thread-safe.
class TaskSlots {
 public:
  TaskSlots(char* memory, size_t bytes, int count) {
    for (int i = 0; i < count; ++i) free_.push_back(memory + static_cast<size_t>(i) * bytes);
  }
  // There is one as long as each task returns its own.
  char* Take() {
    MutexLock lock(&mutex_);
    char* const slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void Return(char* slot) {
    MutexLock lock(&mutex_);
    free_.push_back(slot);
  }

 private:
  Mutex mutex_;
  std::vector<char*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_VENDOR_TASK_SLOTS_H_
