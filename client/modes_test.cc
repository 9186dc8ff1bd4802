#include "client/modes.h"

#include <gtest/gtest.h>

#include <thread>

namespace chx {
namespace {

bool Records(BackpropId id) { return CurrentMode().Records(nullptr, id); }

TEST(ModesTest, RecordsByDefault) {
  EXPECT_TRUE(Records(0));
  EXPECT_TRUE(Records(7));
  EXPECT_EQ(CurrentModeNumber().number, 0);
}

TEST(ModesTest, InnermostScopeWins) {
  NoBackpropMode none;
  EXPECT_FALSE(Records(0));
  {
    const BackpropId one[] = {1};
    ForceBackpropMode force(one);
    EXPECT_FALSE(Records(0));
    EXPECT_TRUE(Records(1));
    {
      NoBackpropMode again(one);
      EXPECT_FALSE(Records(1));
    }
    {
      ForceBackpropMode all;
      EXPECT_TRUE(Records(0));
      EXPECT_TRUE(Records(1));
      EXPECT_EQ(CurrentModeNumber().number, 0);  // as without any scope
    }
    EXPECT_TRUE(Records(1));
  }
  EXPECT_FALSE(Records(1));
}

TEST(ModesTest, EqualStatesShareANumber) {
  ModeNumber first;
  {
    const BackpropId ids[] = {2, 1};
    NoBackpropMode scope(ids);
    first = CurrentModeNumber();
    EXPECT_NE(first.number, 0);
  }
  const BackpropId one[] = {1};
  const BackpropId two[] = {2};
  NoBackpropMode scope_one(one);
  EXPECT_NE(CurrentModeNumber().number, first.number);
  NoBackpropMode scope_two(two);
  EXPECT_EQ(CurrentModeNumber().number, first.number);
  EXPECT_EQ(CurrentModeNumber().version, first.version);
}

TEST(ModesTest, AnotherThreadHasItsOwnStack) {
  NoBackpropMode none;
  bool records = false;
  std::thread([&records] { records = Records(0); }).join();
  EXPECT_TRUE(records);
}

// A daemon keeps at most some thousands, and the number has 16 bits.
TEST(ModesTest, NumbersOfForgottenStatesComeAgain) {
  const BackpropId used[] = {999999};
  NoBackpropMode in_use(used);
  const ModeNumber mine = CurrentModeNumber();
  for (BackpropId id = 1; id < 5000; ++id) {
    NoBackpropMode scope(absl::MakeConstSpan(&id, 1));
    const ModeNumber number = CurrentModeNumber();
    EXPECT_LT(number.number, 1000);
    EXPECT_NE(number.number, mine.number);
    EXPECT_NE(number.number, 0);
  }
  EXPECT_EQ(CurrentModeNumber().version, mine.version);
  EXPECT_FALSE(Records(999999));
}

}  // namespace
}  // namespace chx
