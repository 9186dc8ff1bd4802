// How long to wait before a helper process that has ended is started again.
#ifndef CHX_SERVER_PROCESS_RESTART_PAUSE_H_
#define CHX_SERVER_PROCESS_RESTART_PAUSE_H_

#include <algorithm>
#include <chrono>

namespace chx::server {

// One that dies at once, and again, is not worth a core: from 50 ms the pause doubles up to 5 s,
// and is short again after a life of 10 s.
class RestartPause {
 public:
  using Clock = std::chrono::steady_clock;

  void Started() { began_ = Clock::now(); }
  std::chrono::milliseconds Next() {
    const bool lived = Clock::now() - began_ > std::chrono::seconds(10);
    pause_ = lived || pause_ == pause_.zero() ? kFirst : std::min(2 * pause_, kLongest);
    return pause_;
  }

 private:
  static constexpr std::chrono::milliseconds kFirst{50};
  static constexpr std::chrono::milliseconds kLongest{5000};
  Clock::time_point began_;
  std::chrono::milliseconds pause_{0};
};

}  // namespace chx::server

#endif  // CHX_SERVER_PROCESS_RESTART_PAUSE_H_
