// The only code that converts between messages and the project's own types.
#ifndef CHX_PROTO_MESSAGES_H_
#define CHX_PROTO_MESSAGES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/array_spec.h"
#include "ops/error.h"
#include "proto/chxd.pb.h"

namespace chx {
namespace wire {

inline constexpr uint32_t kProtocolVersion = 3;

// Of a call or a stream, with its ErrorKind if it has one.
v1::Status ToMessage(const absl::Status& status);
absl::Status FromMessage(const v1::Status& message);

void ToMessage(const absl::Status& status, absl::string_view op, absl::string_view inputs,
               absl::string_view location, v1::Error* message);
// The whole story in one text, for whoever reads the exception.
absl::Status FromMessage(const v1::Error& message);

// Checks rank and dtype, which a Shape could not hold or a Dtype not name.
absl::Status CheckArrayHeader(absl::string_view op, int rank, uint32_t dtype);

}  // namespace wire
}  // namespace chx

#endif  // CHX_PROTO_MESSAGES_H_
