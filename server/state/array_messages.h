// Small values of a session as messages of a snapshot, and back.
#ifndef CHX_SERVER_STATE_ARRAY_MESSAGES_H_
#define CHX_SERVER_STATE_ARRAY_MESSAGES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ops/array_spec.h"
#include "ops/attr.h"
#include "server/state/snapshot.pb.h"

namespace chx::server {

// What is wrong with a snapshot whose checksums are right.
absl::Status Unreadable(absl::string_view why);

void ToMessage(const ArraySpec& spec, state::Spec* message);
void ToMessage(const Scalar& scalar, state::Value* message);
void ToMessage(const AttrValue& value, state::Value* message);

// With a shape that CheckShape accepts, on one of so many devices.
absl::StatusOr<ArraySpec> FromMessage(const state::Spec& message, int devices);
absl::StatusOr<Scalar> ScalarFrom(const state::Value& message);
absl::StatusOr<AttrValue> AttrFrom(const state::Value& message);

}  // namespace chx::server

#endif  // CHX_SERVER_STATE_ARRAY_MESSAGES_H_
