#include "client/departure.h"

#include <gtest/gtest.h>

#include "client/dialer.h"
#include "ops/error.h"

namespace chx {
namespace {

absl::Status Refusal() {
  const auto dialer = Dialer::For("unix:/nonexistent/socket", "");
  return (*dialer)->Dial(Departure::TimePoint::max()).status();
}

TEST(Departure, IsSeenWhenNobodyListensForAWhile) {
  const absl::Status refused = Refusal();
  ASSERT_TRUE(Dialer::NobodyListens(refused)) << refused;
  Departure departure;
  const Departure::TimePoint start;
  EXPECT_FALSE(departure.due().has_value());
  EXPECT_FALSE(departure.SeenAfter(refused, start));
  EXPECT_EQ(departure.due(), start + Departure::kPatience);
  EXPECT_FALSE(
      departure.SeenAfter(refused, start + Departure::kPatience - std::chrono::milliseconds(1)));
  EXPECT_TRUE(departure.SeenAfter(refused, start + Departure::kPatience));
}

// A stop, a cut, a network without an answer: whoever is behind that may have the session.
TEST(Departure, OtherFaultsAreNone) {
  const absl::Status refused = Refusal();
  const Departure::TimePoint start;
  for (const absl::Status& other :
       {absl::OkStatus(), MakeError(ErrorKind::kConnection, "the connection is cut"),
        absl::ResourceExhaustedError("too many connections")}) {
    Departure departure;
    EXPECT_FALSE(departure.SeenAfter(refused, start));
    EXPECT_FALSE(departure.SeenAfter(other, start + 2 * Departure::kPatience));
    EXPECT_FALSE(departure.SeenAfter(refused, start + 3 * Departure::kPatience));  // anew
  }
}

}  // namespace
}  // namespace chx
