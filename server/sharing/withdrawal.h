// Whether what was opened may be used still.
#ifndef CHX_SERVER_SHARING_WITHDRAWAL_H_
#define CHX_SERVER_SHARING_WITHDRAWAL_H_

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "ops/error.h"

namespace chx::server {

// Shared by who has published something and those who have opened it. Thread-safe.
class Withdrawal {
 public:
  Withdrawal() = default;
  // One that has happened.
  explicit Withdrawal(absl::Status why) { End(std::move(why)); }

  // From now on, for that reason. The first one counts.
  void End(absl::Status why) {
    MutexLock lock(&mutex_);
    if (why_.ok()) why_ = std::move(why);
    ended_.store(true, std::memory_order_release);
  }
  // The reason as an error of that operator, if it may not.
  absl::Status Check(absl::string_view op) const {
    if (!ended_.load(std::memory_order_acquire)) return absl::OkStatus();
    MutexLock lock(&mutex_);
    return MakeError(KindOf(why_), absl::StrCat("[", op, "] ", why_.message()));
  }

 private:
  std::atomic<bool> ended_{false};
  mutable Mutex mutex_;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_SHARING_WITHDRAWAL_H_
