// Tells a daemon that has ended from one that is away for a moment.
#ifndef CHX_CLIENT_DEPARTURE_H_
#define CHX_CLIENT_DEPARTURE_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/types/optional.h"

namespace chx {

// The kernel refuses connections to an address that nobody listens on. A daemon keeps its listeners
// as long as it lives, also while its front process is replaced: its sessions are gone with them.
// The patience is for a supervisor that is about to start another, and for proxies. Used by one
// thread at a time.
class Departure {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kPatience{500};

  // Takes in what a try to connect came to at `now`. True: nobody has listened at any try for
  // kPatience.
  bool SeenAfter(const absl::Status& dialed, TimePoint now);
  // When SeenAfter can be true at the earliest; nothing while somebody listens.
  absl::optional<TimePoint> due() const;
  // What the user is told.
  static absl::Status Error(const std::string& address);

 private:
  absl::optional<TimePoint> since_;
};

}  // namespace chx

#endif  // CHX_CLIENT_DEPARTURE_H_
