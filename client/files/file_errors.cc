#include "client/files/file_errors.h"

#include <cerrno>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace chx {

absl::Status AtPlace(const FilePlace& place, const absl::Status& status) {
  if (status.ok()) return status;
  const std::string member = place.member.empty() ? "" : absl::StrCat("'", place.member, "': ");
  absl::Status named(status.code(),
                     absl::StrCat("[", place.op, "] ", place.path, ": ", member, status.message()));
  status.ForEachPayload([&named](absl::string_view type, const absl::Cord& payload) {
    named.SetPayload(type, payload);
  });
  return named;
}

absl::Status SystemError(const FilePlace& place, absl::string_view what) {
  return AtPlace(place, absl::ErrnoToStatus(errno, what));
}

}  // namespace chx
