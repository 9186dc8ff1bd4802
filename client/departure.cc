#include "client/departure.h"

#include "absl/strings/str_cat.h"
#include "client/dialer.h"
#include "ops/error.h"

namespace chx {

bool Departure::SeenAfter(const absl::Status& dialed, TimePoint now) {
  if (!Dialer::NobodyListens(dialed)) {
    since_.reset();
    return false;
  }
  if (!since_.has_value()) since_ = now;
  return now - *since_ >= kPatience;
}

absl::optional<Departure::TimePoint> Departure::due() const {
  if (!since_.has_value()) return absl::nullopt;
  return *since_ + kPatience;
}

absl::Status Departure::Error(const std::string& address) {
  return MakeError(
      ErrorKind::kConnection,
      absl::StrCat("lost the session with chxd at ", address,
                   ": the daemon has ended, and its sessions with it: nobody listens there any "
                   "more. Connect again, to a new one. If what has ended is a proxy or a tunnel "
                   "that comes back, connect with reconnect=SECONDS"));
}

}  // namespace chx
