#include "proto/wire.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace chx {
namespace wire {

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()),
                      std::string(1, static_cast<char>(KindOf(status))));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string details = status.error_details();
  if (details.size() == 1 && details[0] >= 0 && details[0] < kNumErrorKinds) {
    return MakeError(static_cast<ErrorKind>(details[0]), status.error_message());
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
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
