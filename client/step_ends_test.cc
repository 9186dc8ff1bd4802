#include "client/step_ends.h"

#include <gtest/gtest.h>

#include <string>

namespace chx {
namespace {

// Of a loop whose commands are o: operator, w: write, b: backward pass; before which of them, by
// number, a step has ended.
std::string EndsIn(const std::string& commands) {
  StepEnds ends;
  std::string found;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (commands[i] == 'b') ends.NoteBackward();
    if (commands[i] == 'w') ends.NoteWrite();
    if (commands[i] == 'o' && ends.NoteOperator()) found += std::to_string(i) + " ";
  }
  return found;
}

// The first passes show what a step is.
TEST(StepEndsTest, AStepEndsBehindItsUpdate) {
  EXPECT_EQ(EndsIn("oobwwoobwwoobwwoobww"), "10 15 ");
}

TEST(StepEndsTest, OperatorsBetweenWritesAreOfTheUpdate) {
  EXPECT_EQ(EndsIn("oobowowoobowowoobowowoob"), "14 21 ");
}

TEST(StepEndsTest, GradientsThatAreClearedBeforeTheStepAreOfIt) {
  EXPECT_EQ(EndsIn("woobwwoobwwoobwwoobw"), "6 11 16 ");
}

TEST(StepEndsTest, ALoopWithoutPassesOrWritesHasNone) {
  EXPECT_EQ(EndsIn("owowowowow"), "");
  EXPECT_EQ(EndsIn("oobooboob"), "");
}

}  // namespace
}  // namespace chx
