#include "server/front/strangers.h"

#include <gtest/gtest.h>

namespace chx::server {
namespace {

TEST(Strangers, TheGreediestAddressMakesRoom) {
  Strangers strangers({/*in_all=*/6, /*per_address=*/5});
  uint64_t id = 1;
  for (; id <= 5; ++id) EXPECT_EQ(strangers.Enter(id, "10.0.0.1"), absl::nullopt);
  EXPECT_EQ(strangers.Enter(6, "10.0.0.2"), absl::nullopt);
  // Full: the first address has most, and loses its oldest.
  EXPECT_EQ(strangers.Enter(7, "10.0.0.3"), absl::make_optional<uint64_t>(1));
  strangers.Leave(1, "10.0.0.1");
  EXPECT_EQ(strangers.size(), 6u);
  EXPECT_EQ(strangers.Greediest(), absl::make_optional<uint64_t>(2));
}

TEST(Strangers, AnAddressWithTooManyLosesItsOwn) {
  Strangers strangers({/*in_all=*/100, /*per_address=*/2});
  strangers.Enter(1, "a");
  strangers.Enter(2, "b");
  strangers.Enter(3, "a");
  EXPECT_EQ(strangers.Enter(4, "a"), absl::make_optional<uint64_t>(1));
}

TEST(Strangers, TheSilentGoFirst) {
  Strangers strangers({/*in_all=*/100, /*per_address=*/3});
  for (uint64_t id = 1; id <= 3; ++id) strangers.Enter(id, "a");
  strangers.Speaks(1, "a");
  strangers.Speaks(3, "a");
  EXPECT_EQ(strangers.Enter(4, "a"), absl::make_optional<uint64_t>(2));
  strangers.Leave(2, "a");
  strangers.Speaks(4, "a");
  EXPECT_EQ(strangers.Enter(5, "a"), absl::make_optional<uint64_t>(1));
}

TEST(Strangers, WhoHasLeftIsNotCounted) {
  Strangers strangers({/*in_all=*/2, /*per_address=*/2});
  strangers.Enter(1, "a");
  strangers.Leave(1, "a");
  strangers.Leave(1, "a");
  strangers.Leave(9, "nobody");
  EXPECT_EQ(strangers.size(), 0u);
  EXPECT_EQ(strangers.Greediest(), absl::nullopt);
  EXPECT_EQ(strangers.Enter(2, "a"), absl::nullopt);
  EXPECT_EQ(strangers.Enter(3, "b"), absl::nullopt);
}

}  // namespace
}  // namespace chx::server
