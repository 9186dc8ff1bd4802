#include "ops/error.h"

#include "absl/strings/cord.h"
#include "absl/types/optional.h"

namespace chx {
namespace {

constexpr char kPayloadUrl[] = "chx/kind";

absl::StatusCode CodeOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kMemory:
      return absl::StatusCode::kResourceExhausted;
    case ErrorKind::kIndex:
      return absl::StatusCode::kOutOfRange;
    case ErrorKind::kNotImplemented:
      return absl::StatusCode::kUnimplemented;
    case ErrorKind::kConnection:
      return absl::StatusCode::kUnavailable;
    case ErrorKind::kTimeout:
      return absl::StatusCode::kDeadlineExceeded;
    case ErrorKind::kCancelled:
      return absl::StatusCode::kCancelled;
    case ErrorKind::kChainerx:
    case ErrorKind::kContext:
    case ErrorKind::kBackend:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInvalidArgument;
  }
}

}  // namespace

absl::Status MakeError(ErrorKind kind, absl::string_view message) {
  absl::Status status(CodeOf(kind), message);
  status.SetPayload(kPayloadUrl, absl::Cord(std::string(1, static_cast<char>(kind))));
  return status;
}

ErrorKind KindOf(const absl::Status& status) {
  absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (payload.has_value() && payload->size() == 1) {
    const int kind = (*payload)[0];
    if (kind >= 0 && kind < kNumErrorKinds) return static_cast<ErrorKind>(kind);
  }
  if (status.code() == absl::StatusCode::kResourceExhausted) return ErrorKind::kMemory;
  if (status.code() == absl::StatusCode::kUnavailable) return ErrorKind::kConnection;
  return ErrorKind::kChainerx;
}

}  // namespace chx
