#include "proto/messages.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace chx {
namespace wire {

v1::Status ToMessage(const absl::Status& status) {
  v1::Status message;
  message.set_code(static_cast<uint32_t>(status.code()));
  message.set_message(std::string(status.message()));
  if (!status.ok() && status == MakeError(KindOf(status), status.message())) {
    message.set_kind(static_cast<uint32_t>(KindOf(status)) + 1);
  }
  return message;
}

absl::Status FromMessage(const v1::Status& message) {
  if (message.code() == 0) return absl::OkStatus();
  if (message.kind() != 0 && message.kind() <= static_cast<uint32_t>(kNumErrorKinds)) {
    return MakeError(static_cast<ErrorKind>(message.kind() - 1), message.message());
  }
  constexpr auto kLast = static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  const uint32_t code =
      message.code() <= kLast ? message.code() : static_cast<uint32_t>(absl::StatusCode::kUnknown);
  return absl::Status(static_cast<absl::StatusCode>(code), message.message());
}

void ToMessage(const absl::Status& status, absl::string_view op, absl::string_view inputs,
               absl::string_view location, v1::Error* message) {
  message->set_kind(static_cast<uint32_t>(KindOf(status)));
  message->set_message(std::string(status.message()));
  message->set_op(std::string(op));
  message->set_inputs(std::string(inputs));
  message->set_location(std::string(location));
}

absl::Status FromMessage(const v1::Error& message) {
  std::string text = message.message();
  if (!message.inputs().empty()) absl::StrAppend(&text, "\n  inputs: ", message.inputs());
  if (!message.location().empty()) absl::StrAppend(&text, "\n  at: ", message.location());
  const ErrorKind kind = message.kind() < static_cast<uint32_t>(kNumErrorKinds)
                             ? static_cast<ErrorKind>(message.kind())
                             : ErrorKind::kChainerx;
  return MakeError(kind, text);
}

absl::Status CheckArrayHeader(absl::string_view op, int rank, uint32_t dtype) {
  if (rank > kMaxNdim) {
    return DimensionError("[", op, "] expects at most ", kMaxNdim, " dimensions, got ", rank);
  }
  if (dtype >= kNumDtypes) {
    return DtypeError("[", op, "] expects a dtype, got number ", dtype);
  }
  return absl::OkStatus();
}

}  // namespace wire
}  // namespace chx
