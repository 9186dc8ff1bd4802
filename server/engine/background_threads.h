// Threads of lower priority than the daemon's others, for long commands beside short ones.
#ifndef CHX_SERVER_ENGINE_BACKGROUND_THREADS_H_
#define CHX_SERVER_ENGINE_BACKGROUND_THREADS_H_

#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/mutex.h"

namespace chx::server {

// The system gives a core to a thread of higher priority as soon as it wakes. An unprivileged
// process can lower a thread's priority but not raise it again, so long commands change threads.
// Thread-safe.
class BackgroundThreads {
 public:
  // How much "nicer" they are. A thread of normal priority gets about ten times as much of a core.
  static constexpr int kNice = 10;

  BackgroundThreads() = default;
  ~BackgroundThreads();
  BackgroundThreads(const BackgroundThreads&) = delete;
  BackgroundThreads& operator=(const BackgroundThreads&) = delete;

  // Returns when one of the threads has called `work`; the calling thread calls it if no thread can
  // be started.
  void Run(absl::FunctionRef<void()> work);

 private:
  struct Worker {
    std::thread thread;
    CondVar wake;
    CondVar done;
    const absl::FunctionRef<void()>* work = nullptr;  // null: nothing to do
    bool stop = false;
  };

  void Loop(Worker* worker);
  // Null: there can be no more threads.
  Worker* Take();

  Mutex mutex_;
  std::vector<std::unique_ptr<Worker>> workers_ ABSL_GUARDED_BY(mutex_);
  std::vector<Worker*> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_BACKGROUND_THREADS_H_
