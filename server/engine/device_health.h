// Whether a device still works.
#ifndef CHX_SERVER_ENGINE_DEVICE_HEALTH_H_
#define CHX_SERVER_ENGINE_DEVICE_HEALTH_H_

#include <atomic>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace chx::server {

// A GPU is lost by an invalid access of any session's kernel, say: all that is asked of it fails
// from then on, until the process ends. Thread-safe.
class DeviceHealth {
 public:
  using OnLost = std::function<void(const absl::Status& why)>;

  bool lost() const { return lost_.load(std::memory_order_relaxed); }

  // Why it was lost; OK: it works.
  absl::Status status() const {
    if (!lost()) return absl::OkStatus();
    MutexLock lock(&mutex_);
    return why_;
  }

  // The device is lost. Only the first reason counts.
  void Lose(const absl::Status& why) {
    MutexLock lock(&mutex_);
    if (lost()) return;
    why_ = why;
    lost_.store(true, std::memory_order_relaxed);
    if (on_lost_ != nullptr) on_lost_(why_);
  }

  // Called once, by whoever notices the loss, or now; it must not ask for status(). It does not run
  // any more when SetOnLost(nullptr) has returned.
  void SetOnLost(OnLost on_lost) {
    MutexLock lock(&mutex_);
    on_lost_ = std::move(on_lost);
    if (lost() && on_lost_ != nullptr) on_lost_(why_);
  }

 private:
  std::atomic<bool> lost_{false};
  mutable Mutex mutex_;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
  OnLost on_lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_DEVICE_HEALTH_H_
