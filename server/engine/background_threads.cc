#include "server/engine/background_threads.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "server/engine/core_affinity.h"

namespace chx::server {
namespace {

void LowerPriority() {
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  const int before = getpriority(PRIO_PROCESS, thread);
  setpriority(PRIO_PROCESS, thread, before + BackgroundThreads::kNice);
  LeaveOneCore();
}

}  // namespace

BackgroundThreads::~BackgroundThreads() {
  std::vector<std::unique_ptr<Worker>> workers;
  {
    MutexLock lock(&mutex_);
    workers = std::move(workers_);
    for (const auto& worker : workers) {
      worker->stop = true;
      worker->wake.notify_one();
    }
  }
  for (const auto& worker : workers) worker->thread.join();
}

BackgroundThreads::Worker* BackgroundThreads::Take() {
  if (!idle_.empty()) {
    Worker* const worker = idle_.back();
    idle_.pop_back();
    return worker;
  }
  auto worker = std::make_unique<Worker>();
  try {
    worker->thread = std::thread([this, self = worker.get()] { Loop(self); });
  } catch (const std::system_error&) {
    return nullptr;
  }
  workers_.push_back(std::move(worker));
  return workers_.back().get();
}

void BackgroundThreads::Run(absl::FunctionRef<void()> work) {
  {
    MutexLock lock(&mutex_);
    Worker* const worker = Take();
    if (worker != nullptr) {
      worker->work = &work;
      worker->wake.notify_one();
      while (worker->work != nullptr) worker->done.wait(mutex_);
      idle_.push_back(worker);
      return;
    }
  }
  work();
}

void BackgroundThreads::Loop(Worker* worker) {
  LowerPriority();
  mutex_.Lock();
  for (;;) {
    while (worker->work == nullptr && !worker->stop) worker->wake.wait(mutex_);
    if (worker->work == nullptr) break;
    mutex_.Unlock();
    (*worker->work)();
    mutex_.Lock();
    worker->work = nullptr;
    worker->done.notify_one();
  }
  mutex_.Unlock();
}

}  // namespace chx::server
