// Destroys things on a thread of its own.
#ifndef CHX_SERVER_SESSION_DISPOSER_H_
#define CHX_SERVER_SESSION_DISPOSER_H_

#include <deque>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace chx::server {

// For what takes long to destroy, as giving gigabytes back does. Thread-safe; its destructor
// destroys what is left.
template <typename T>
class Disposer {
 public:
  Disposer() : thread_([this] { Work(); }) {}
  ~Disposer() {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Disposer(const Disposer&) = delete;
  Disposer& operator=(const Disposer&) = delete;

  void Destroy(T thing) {
    {
      MutexLock lock(&mutex_);
      things_.push_back(std::move(thing));
    }
    wake_.notify_all();
  }

 private:
  void Work() {
    for (;;) {
      std::deque<T> things;
      {
        MutexLock lock(&mutex_);
        while (things_.empty() && !stopping_) wake_.wait(mutex_);
        if (things_.empty()) return;
        things.swap(things_);
      }
      while (!things.empty()) things.pop_front();
    }
  }

  Mutex mutex_;
  CondVar wake_;
  std::deque<T> things_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_DISPOSER_H_
