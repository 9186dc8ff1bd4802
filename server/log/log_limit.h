// Bounds how often a message is logged that clients can cause.
#ifndef CHX_SERVER_LOG_LOG_LIMIT_H_
#define CHX_SERVER_LOG_LOG_LIMIT_H_

#include <chrono>
#include <cstdint>

#include "base/mutex.h"

namespace chx::server {

// Admits `burst` lines at once, and one more per period. Thread-safe; usually static, one for each
// kind of message.
class LogLimit {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LogLimit(int burst = 20, Clock::duration period = std::chrono::seconds(1))
      : burst_(burst), period_(period) {}

  // False: the line is to be left out. Else *left_out is how many were since the last one.
  bool Admit(Clock::time_point now, int64_t* left_out) {
    MutexLock lock(&mutex_);
    // Where the lines so far would end if they came one per period.
    if (paid_until_ < now) paid_until_ = now;
    if (paid_until_ + period_ > now + burst_ * period_) {
      ++left_out_;
      return false;
    }
    paid_until_ += period_;
    *left_out = left_out_;
    left_out_ = 0;
    return true;
  }

 private:
  const int burst_;
  const Clock::duration period_;
  Mutex mutex_;
  Clock::time_point paid_until_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::min();
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace chx::server

#endif  // CHX_SERVER_LOG_LOG_LIMIT_H_
