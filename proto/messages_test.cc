#include "proto/messages.h"

#include <gtest/gtest.h>

#include <string>

namespace chx {
namespace {

TEST(Wire, StatusesKeepTheirKind) {
  for (int kind = 0; kind < kNumErrorKinds; ++kind) {
    const absl::Status status = MakeError(static_cast<ErrorKind>(kind), "[op] expects x, got y");
    EXPECT_EQ(wire::FromMessage(wire::ToMessage(status)), status) << kind;
    v1::Error message;
    wire::ToMessage(status, "op", "float32(2, 3)", "a.py:7", &message);
    const absl::Status back = wire::FromMessage(message);
    EXPECT_EQ(KindOf(back), KindOf(status));
    EXPECT_EQ(back.message(), "[op] expects x, got y\n  inputs: float32(2, 3)\n  at: a.py:7");
  }
  EXPECT_TRUE(wire::FromMessage(wire::ToMessage(absl::OkStatus())).ok());
  v1::Error from_the_future;
  from_the_future.set_kind(200);
  EXPECT_EQ(KindOf(wire::FromMessage(from_the_future)), ErrorKind::kChainerx);
}

// Not every file name is UTF-8; an error about such a file must still reach the client.
TEST(Wire, LocationsAreBytes) {
  v1::Error message, back;
  wire::ToMessage(ValueError("x"), "op", "", "caf\xe9.py:7", &message);
  ASSERT_TRUE(back.ParseFromString(message.SerializeAsString()));
  EXPECT_EQ(back.location(), "caf\xe9.py:7");
}

TEST(Wire, ArrayHeadersAreChecked) {
  EXPECT_TRUE(wire::CheckArrayHeader("upload", kMaxNdim, kNumDtypes - 1).ok());
  EXPECT_EQ(KindOf(wire::CheckArrayHeader("upload", kMaxNdim + 1, 0)), ErrorKind::kDimension);
  EXPECT_EQ(KindOf(wire::CheckArrayHeader("upload", 1, kNumDtypes)), ErrorKind::kDtype);
}

// A code of the daemon's alone, without a kind, stays what it is; one from the future is no crash.
TEST(Wire, StatusesWithoutAKindKeepTheirCode) {
  const absl::Status status = absl::NotFoundError("no such session");
  EXPECT_EQ(wire::FromMessage(wire::ToMessage(status)), status);
  v1::Status message;
  message.set_code(4000000000u);
  message.set_kind(77);
  EXPECT_EQ(wire::FromMessage(message).code(), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace chx
