// Recorded programs: what runs of them do is what their commands do, to the last bit.
#include "gmock/gmock.h"
#include "ops/basic_index.h"
#include "tests/session/programs_fixture.h"

namespace chx::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(ProgramsTest, ARunDoesWhatTheCommandsDid) {
  Upload(1, {1, 2}, {2});
  Upload(2, {10, 20}, {2});
  EXPECT_EQ(
      Record({1},
             {Op("add", {A(1), A(2)}, {3}), Op("multiply", {A(3), S(2.0)}, {4}), ReleaseOf({3})},
             {4}),
      "");
  EXPECT_THAT(Fetch(4), ElementsAre(22, 44));
  Upload(5, {3, 4}, {2});
  Run({RunOf({5}, {6}), RunOf({6}, {7})});
  EXPECT_THAT(Fetch(6), ElementsAre(26, 48));
  EXPECT_THAT(Fetch(7), ElementsAre(72, 136));
  EXPECT_THAT(Fetch(4), ElementsAre(22, 44));
  EXPECT_TRUE(output_.errors.empty());
}

// `times` 0: as the commands' own results.
TEST_F(ProgramsTest, ResultsMayBeInTheGraph) {
  Upload(1, {3, 4}, {2});
  Upload(2, {1, 1}, {2});
  Run({command::RequireGrad{1}});
  EXPECT_EQ(Record({2},
                   {Op("multiply", {A(1), A(1)}, {3}), Op("multiply", {A(2), A(3)}, {4}),
                    OpByDefault("sum", {A(4)}, {5}), ReleaseOf({3, 4})},
                   {5}),
            "");
  Upload(6, {10, 20}, {2});
  Run({RunOf({6}, {7}, 0), RunOf({6}, {8})});
  EXPECT_THAT(Fetch(7), ElementsAre(410));
  EXPECT_THAT(Fetch(8), ElementsAre(410));
  Run({BackwardOf({8}), BackwardOf({7}), GetGradOf(1, 9)});
  EXPECT_THAT(Fetch(9), ElementsAre(60, 160));
  EXPECT_TRUE(output_.errors.empty()) << LastError();
  Run({RunOf({6}, {10}, -1)});
  EXPECT_THAT(LastError(), HasSubstr("expects 0 to"));
}

TEST_F(ProgramsTest, HeldArraysAreWritten) {
  Upload(1, {1, 2}, {2});
  EXPECT_EQ(Record({}, {Op("multiply_", {A(1), S(2.0)}, {})}, {}), "");
  Run({RunOf({}, {}), RunOf({}, {}, 3)});
  EXPECT_THAT(Fetch(1), ElementsAre(32, 64));
  Run({ReleaseOf({1}), RunOf({}, {})});  // the program has it
  EXPECT_TRUE(output_.errors.empty()) << LastError();
}

// Two parameters, a loss, gradients that are cleared before or after, and an update.
TEST_F(ProgramsTest, TrainingStepsAreThoseOfTheCommands) {
  for (const bool clears_first : {true, false}) {
    std::vector<Floats> found;
    for (const bool recorded : {false, true}) {
      Reset(SessionLimits());
      Upload(1, {0.5F, -1, 2, 0.25F}, {2, 2});
      Upload(2, {0.1F, 0.2F}, {2});
      Run({NoGraph(), command::RequireGrad{1}, command::RequireGrad{2}});
      const auto step = [&](Handle x, Handle first) {
        std::vector<Command> commands;
        const auto clear = [&] {
          commands.emplace_back(command::SetGrad{1, 0, 0});
          commands.emplace_back(command::SetGrad{2, 0, 0});
        };
        if (clears_first) clear();
        commands.emplace_back(Op("dot", {A(x), A(1)}, {first}));
        commands.emplace_back(Op("add", {A(first), A(2)}, {first + 1}));
        commands.emplace_back(Op("tanh", {A(first + 1)}, {first + 2}));
        commands.emplace_back(OpByDefault("sum", {A(first + 2)}, {first + 3}));
        commands.emplace_back(BackwardOf({first + 3}));
        commands.emplace_back(GetGradOf(1, first + 4));
        commands.emplace_back(GetGradOf(2, first + 5));
        for (Handle i : {0, 1}) {
          commands.emplace_back(Outside(OpByDefault("reshape", {A(1 + i)}, {first + 6 + i},
                                                    {AttrValue(i == 0 ? Ints{2, 2} : Ints{2})})));
        }
        commands.emplace_back(Op("sgd_update",
                                 {A(first + 6), A(first + 7), A(first + 4), A(first + 5)}, {},
                                 {AttrValue(0.1)}));
        if (!clears_first) clear();
        commands.emplace_back(
            ReleaseOf({first, first + 1, first + 2, first + 4, first + 5, first + 6, first + 7}));
        return commands;
      };
      Floats losses;
      for (int i = 0; i < 5; ++i) {
        const Handle x = 100 + 100 * static_cast<Handle>(i);
        Upload(x, {1, 2, 3, static_cast<float>(i)}, {2, 2});
        if (!recorded) {
          Run(step(x, x + 1));
          losses.push_back(Fetch(x + 4).at(0));
        } else if (i == 0) {
          EXPECT_EQ(Record({x}, step(x, x + 1), {x + 4}), "");
          losses.push_back(Fetch(x + 4).at(0));
        } else {
          Run({RunOf({x}, {x + 1})});
          losses.push_back(Fetch(x + 1).at(0));
        }
        EXPECT_TRUE(output_.errors.empty()) << LastError();
      }
      Floats all = losses;
      for (Handle parameter : {1, 2}) {
        for (float value : Fetch(parameter)) all.push_back(value);
      }
      found.push_back(all);
    }
    EXPECT_EQ(found[0], found[1]) << clears_first;
  }
}

TEST_F(ProgramsTest, GradientsAreLeftWhereTheCommandsLeaveThem) {
  Upload(1, {1, 2}, {2});
  Run({command::RequireGrad{1}});
  const std::vector<Command> step = {Op("multiply", {A(1), A(1)}, {2}), BackwardOf({2}),
                                     ReleaseOf({2})};
  EXPECT_EQ(Record({}, step, {}), "");
  Run({GetGradOf(1, 10)});
  EXPECT_THAT(Fetch(10), ElementsAre(2, 4));
  // It adds to what there is, which somebody else has, too.
  Run({RunOf({}, {}), GetGradOf(1, 11)});
  EXPECT_THAT(Fetch(11), ElementsAre(4, 8));
  EXPECT_THAT(Fetch(10), ElementsAre(2, 4));
  Run({ReleaseOf({10, 11}), RunOf({}, {}, 4), GetGradOf(1, 12)});
  EXPECT_THAT(Fetch(12), ElementsAre(12, 24));
  Run({command::SetGrad{1, 0, 0}, RunOf({}, {}), GetGradOf(1, 13)});
  EXPECT_THAT(Fetch(13), ElementsAre(2, 4));
}

TEST_F(ProgramsTest, ArgumentsKeepTheirOwnGradients) {
  Upload(1, {1, 2}, {2});
  Upload(2, {3, 4}, {2});
  Run({command::RequireGrad{1}, command::RequireGrad{2}});
  EXPECT_EQ(Record({1}, {Op("multiply", {A(1), A(1)}, {5}), BackwardOf({5}), ReleaseOf({5})}, {}),
            "");
  Run({RunOf({2}, {}), GetGradOf(1, 10), GetGradOf(2, 11)});
  EXPECT_THAT(Fetch(10), ElementsAre(2, 4));
  EXPECT_THAT(Fetch(11), ElementsAre(6, 8));
}

// A gradient that the step names as an array, before it clears it, is that array in each run.
TEST_F(ProgramsTest, AGradientMayBeAnArrayOfTheStep) {
  Upload(1, {1, 2}, {2});
  Run({command::RequireGrad{1}, Op("multiply", {A(1), A(1)}, {2}), BackwardOf({2}), ReleaseOf({2}),
       GetGradOf(1, 3)});
  ASSERT_EQ(Record({}, {command::SetGrad{1, 0, 0}, Op("add", {A(3), S(1.0)}, {4})}, {4}), "");
  Run({RunOf({}, {5}), RunOf({}, {6}, 2)});
  EXPECT_THAT(Fetch(6), ElementsAre(3, 5));
  Run({command::ReleaseProgram{1}, command::SetGrad{1, 3, 0}});
  // And if the step adds to it, too, there is no plan.
  EXPECT_THAT(Record({},
                     {Op("multiply", {A(1), A(1)}, {7}), BackwardOf({7}), ReleaseOf({7}),
                      Op("add", {A(3), S(1.0)}, {8})},
                     {8}),
              HasSubstr("gradient"));
}

TEST_F(ProgramsTest, NumbersMayVary) {
  Upload(1, {1, 2}, {2});
  Upload(2, {1, 1}, {2});
  EXPECT_EQ(Record({2}, {Op("sgd_update", {A(1), A(2)}, {}, {AttrValue(0.5)})}, {}, {0, 0}), "");
  command::RunProgram run = RunOf({2}, {}, 2);
  run.values = {Bits(0.25), Bits(4.0)};
  Run({run});
  EXPECT_THAT(Fetch(1), ElementsAre(-3.75, -2.75));
  run.values.pop_back();
  Run({run});
  EXPECT_THAT(LastError(), HasSubstr("expects values of 1 slots for each of 2 times, got 1"));
}

// A number beside an array is an array that is filled with it, also for gradients.
TEST_F(ProgramsTest, WhatAnArrayIsFilledWithMayVary) {
  for (const bool planned : {true, false}) {
    Reset(SessionLimits());
    Upload(1, {1, 2}, {2});
    Upload(2, {3, 4}, {2});
    Run({command::RequireGrad{1}});
    const std::vector<AttrValue> attrs = {AttrValue(Ints{}), AttrValue(Scalar(0.5)),
                                          AttrValue(Dtype::kFloat32)};
    ASSERT_EQ(Record({2},
                     {command::SetGrad{1, 0, 0}, OpByDefault("full", {}, {3}, attrs),
                      Op("multiply", {A(1), A(3)}, {4}), Op("multiply", {A(4), A(2)}, {5}),
                      BackwardOf({5}), ReleaseOf({3, 5})},
                     {4}, {0, 1}),
              "");
    Handle argument = 2;
    if (!planned) {  // other strides: by the commands
      Upload(6, {3, 0, 4, 0}, {2, 2});
      Run({Op("getitem", {A(6)}, {9}, {IndexBuilder().Slice({}, {}, {}).Int(0).Build()})});
      argument = 9;
    }
    for (const int64_t times : {1, 2}) {
      const Handle result = 20 + 2 * times;
      command::RunProgram run = RunOf({argument}, {result}, times);
      run.values = {Bits(8.0), Bits(0.25)};
      run.values.resize(times);
      Run({run, GetGradOf(1, result + 1)});
      const float last = times == 1 ? 8 : 0.25;
      EXPECT_THAT(Fetch(result), ElementsAre(last, 2 * last));
      EXPECT_THAT(Fetch(result + 1), ElementsAre(3 * last, 4 * last));
    }
  }
}

// As an optimizer makes its state at its first step.
TEST_F(ProgramsTest, AnArrayThatIsHeldIsThereInEachRun) {
  for (const bool planned : {true, false}) {
    Reset(SessionLimits());
    Upload(1, {1, 2}, {2});
    ASSERT_EQ(
        Record(
            {1},
            {OpByDefault("full", {}, {2},
                         {AttrValue(Ints{2}), AttrValue(Scalar(10.0)), AttrValue(Dtype::kFloat32)}),
             command::HoldArray{2}, Op("add_", {A(2), A(1)}, {}), OpByDefault("copy", {A(2)}, {3})},
            {3}),
        "");
    EXPECT_THAT(Fetch(3), ElementsAre(11, 12));
    Handle argument = 1;
    if (!planned) {  // other strides: by the commands
      Upload(5, {1, 0, 2, 0}, {2, 2});
      Run({Op("getitem", {A(5)}, {9}, {IndexBuilder().Slice({}, {}, {}).Int(0).Build()})});
      argument = 9;
    }
    Run({RunOf({argument}, {20}), RunOf({argument}, {21}, 2)});
    EXPECT_THAT(Fetch(20), ElementsAre(12, 14));
    EXPECT_THAT(Fetch(21), ElementsAre(14, 18));
    EXPECT_THAT(Fetch(2), ElementsAre(14, 18));
  }
}

TEST_F(ProgramsTest, OtherArgumentsAreRunByTheCommandsAndPlannedAnew) {
  Upload(1, {1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(Record({1}, {Op("multiply", {A(1), S(2.0)}, {2})}, {2}), "");
  Upload(3, {1, 2, 3, 4}, {2, 2});
  Run({Op("transpose", {A(3)}, {4}, {AttrValue()})});  // other strides
  Run({RunOf({4}, {5}), RunOf({4}, {6})});
  EXPECT_THAT(Fetch(5), ElementsAre(2, 6, 4, 8));
  EXPECT_THAT(Fetch(6), ElementsAre(2, 6, 4, 8));
}

TEST_F(ProgramsTest, ArgumentsThatShareMemoryAreRunByTheCommands) {
  Upload(1, {1, 2}, {2});
  Upload(2, {5, 6}, {2});
  EXPECT_EQ(Record({1, 2}, {Op("add_", {A(1), A(2)}, {}), Op("add_", {A(1), A(2)}, {})}, {1}), "");
  EXPECT_THAT(Fetch(1), ElementsAre(11, 14));
  Run({RunOf({2, 2}, {9})});
  EXPECT_THAT(Fetch(9), ElementsAre(20, 24));
}

TEST_F(ProgramsTest, AnErrorNamesTheCommandsLineAndWhatWasNotWrittenHasNoValue) {
  Upload(1, {1, 2, 3}, {3});
  Upload(2, {0, 0, 0}, {3});
  command::Upload good{3, Dtype::kInt64, 0, {1}, absl::string_view("\1\0\0\0\0\0\0\0", 8)};
  command::Upload bad{4, Dtype::kInt64, 0, {1}, absl::string_view("\7\0\0\0\0\0\0\0", 8)};
  command::ApplyOp take = OpByDefault("take", {A(1), A(3)}, {5}, {AttrValue(0)});
  take.location = 6;
  Run({good, bad, command::DefineLocation{6, "train.py:12"}});
  const std::string said = Record({3}, {take, Op("add_", {A(2), A(5)}, {})}, {5});
  ASSERT_EQ(said, "") << LastError();
  Run({RunOf({4}, {6})});
  RootErrorPtr error;
  Fetch(6, &error);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->location, "train.py:12");
  EXPECT_EQ(error->op, "take");
  Fetch(2, &error);
  EXPECT_NE(error, nullptr);
  Run({RunOf({3}, {7})});  // and neither has what a run makes of it
  Fetch(7, &error);
  EXPECT_NE(error, nullptr);
}

TEST_F(ProgramsTest, WhatCannotBeRecordedIsSaid) {
  Upload(1, {1, 2}, {2});
  EXPECT_THAT(Record({1}, {command::Fetch{3, 1}}, {}), HasSubstr("cannot record"));
  EXPECT_THAT(Record({1}, {Op("add", {A(1), A(99)}, {2})}, {}), HasSubstr("cannot record"));
  Run({ReleaseOf({2})});
  EXPECT_THAT(Record({99}, {}, {}), HasSubstr("expects a handle"));
  EXPECT_THAT(Record({}, {}, {99}), HasSubstr("expects a handle"));
  EXPECT_THAT(Record({}, {}, {}, {0, 0}), HasSubstr("slots of the program's operators"));
  Run({RunOf({}, {})});
  EXPECT_THAT(LastError(), HasSubstr("expects a program of this session, got 1"));
  // What was computed outside of it is not the program's to differentiate.
  Run({command::RequireGrad{1}, Op("exp", {A(1)}, {3})});
  EXPECT_THAT(Record({}, {Op("exp", {A(3)}, {4})}, {4}), HasSubstr("computed from arrays"));
}

TEST_F(ProgramsTest, AttributesThatShapesDependOnAreInferredAgain) {
  Upload(1, {1, 2, 3, 4, 5, 6}, {3, 2});
  Run({command::Upload{2, Dtype::kInt64, 0, {1}, absl::string_view("\0\0\0\0\0\0\0\0", 8)}});
  EXPECT_THAT(Record({2}, {OpByDefault("take", {A(1), A(2)}, {3}, {AttrValue(0)})}, {3}, {0, 0}),
              HasSubstr("a number that varies"));
  command::RunProgram run = RunOf({2}, {4});
  run.values = {1};
  Run({run});
  EXPECT_THAT(Fetch(4), ElementsAre(1, 3, 5));
}

TEST_F(ProgramsTest, AnArgumentMayBeReleasedAndItsHandleBoundAgain) {
  Upload(1, Floats(1000, 1), {1000});
  Record({1},
         {Op("add_", {A(1), S(1.0)}, {}), ReleaseOf({1}),
          OpByDefault("full", {}, {1},
                      {AttrValue(Ints{1}), AttrValue(Scalar(1.0)), AttrValue(Dtype::kFloat32)})},
         {});
  Upload(5, {7}, {1});
  Run({RunOf({5}, {})});
  EXPECT_THAT(Fetch(5), ElementsAre(8));
}

TEST_F(ProgramsTest, GradientsThatShareMemoryAreNotPlanned) {
  Upload(1, {1}, {1});
  Upload(2, Floats(1000, 1), {1000});
  Upload(3, Floats(1000, 5), {1000});
  Run({command::RequireGrad{1}, command::RequireGrad{2},
       Op("getitem", {A(3)}, {4}, {IndexBuilder().Slice({}, 1, {}).Build()}),
       command::SetGrad{1, 4, 0}, command::SetGrad{2, 3, 0}, ReleaseOf({3, 4})});
  EXPECT_THAT(
      Record({}, {GetGradOf(2, 10), Op("add", {A(10), S(1.0)}, {11}), ReleaseOf({10})}, {11}),
      HasSubstr("share memory"));
  Upload(5, {3}, {1});
  Run({command::SetGrad{1, 5, 0}, RunOf({}, {12})});
  EXPECT_EQ(Fetch(12), Floats(1000, 6));
}

TEST_F(ProgramsTest, ProgramsDoNotNest) {
  Upload(1, {1, 2}, {2});
  ASSERT_EQ(Record({1}, {Op("add", {A(1), S(1.0)}, {2})}, {2}), "");
  Run({command::RequireGrad{1}, Op("multiply", {A(1), S(2.0)}, {3}), command::BeginProgram{2, {}},
       RunOf({3}, {4}), Op("add", {A(3), S(1.0)}, {5})});
  EXPECT_THAT(LastError(), HasSubstr("cannot record a run of a program"));
  Run({command::EndProgram{9, 2, {}, {}}, Op("add", {A(1), S(1.0)}, {6})});
  EXPECT_NE(output_.values.back().error, nullptr);
  EXPECT_THAT(Fetch(6), ElementsAre(2, 3));
  session_->BeginAnew();
  Run({command::BeginProgram{3, {}}});
  session_->BeginAnew();  // ends the recording
  Upload(1, {1, 2}, {2});
  Run({Op("add", {A(1), S(1.0)}, {2})});
  EXPECT_THAT(Fetch(2), ElementsAre(2, 3));
}

TEST_F(ProgramsTest, OnlyWhatWasJustMadeIsHeld) {
  Upload(1, {4, 1, 2, 3}, {2, 2});
  Record(
      {1},
      {OpByDefault("eigh", {A(1)}, {2, 3}), command::HoldArray{2}, Op("add", {A(2), S(1.0)}, {4})},
      {4});
  Run({command::ReleaseProgram{1}});
  Record({1}, {command::HoldArray{1}}, {});
  Run({command::HoldArray{1}, command::HoldArray{99}});
  Upload(5, {1, 0, 0, 1}, {2, 2});
  Run({RunOf({5}, {})});
  EXPECT_EQ(Fetch(1).size(), 4u);
}

TEST_F(ProgramsTest, ProgramsAreReleasedWithWhatTheyHold) {
  Upload(1, {1, 2}, {2});
  const int64_t before = session_->stats().memory_bytes;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(Record({}, {Op("exp", {A(1)}, {2}), ReleaseOf({2})}, {}), "");
    EXPECT_EQ(session_->stats().handles, 2);
    Run({command::ReleaseProgram{1}});
    EXPECT_EQ(session_->stats().handles, 1);
  }
  Run({command::BeginProgram{1, {}}, Op("exp", {A(1)}, {2}), ReleaseOf({2}),
       command::ReleaseProgram{1}});
  EXPECT_EQ(session_->stats().handles, 1);
  EXPECT_TRUE(output_.errors.empty()) << LastError();
  EXPECT_LE(session_->stats().memory_bytes, before + (4 << 20));
}

// A plan has all its memory before it writes anything, that of its kernels too: with less the
// commands run, of which those that need none are carried out.
// The commands' blocks and the plan's are not there at the same time.
TEST_F(ProgramsTest, TemporariesAreTakenOnce) {
  constexpr int64_t kElements = 4 << 20;
  constexpr int64_t kBytes = kElements * 4;
  Upload(1, Floats(kElements, 0.5f), {kElements});
  EXPECT_EQ(Record({1},
                   {OpByDefault("cumsum", {A(1)}, {2}), OpByDefault("cumsum", {A(2)}, {3}),
                    OpByDefault("sum", {A(3)}, {4}), ReleaseOf({2, 3})},
                   {4}),
            "");
  const int64_t recorded = session_->stats().memory_bytes;
  EXPECT_GE(recorded, 3 * kBytes);
  for (Handle result = 5; result < 8; ++result) {
    Run({RunOf({1}, {result})});
    EXPECT_EQ(Fetch(result), Fetch(4));
    EXPECT_LT(session_->stats().memory_bytes, recorded + kBytes / 2);
  }
  EXPECT_TRUE(output_.errors.empty());
}

TEST_F(ProgramsTest, WhatHasNoMemoryHasWrittenNothing) {
  constexpr int64_t kRows = 400;
  Upload(1, Floats(kRows * kRows, 0.5f), {kRows, kRows});
  Upload(2, {0}, {1});
  Upload(3, {0}, {1});
  const command::ApplyOp view = Op("transpose", {A(1)}, {10}, {AttrValue()});
  EXPECT_EQ(Record({},
                   {Op("add_", {A(2), S(1.0)}, {}), view, OpByDefault("sort", {A(10)}, {11}),
                    Op("add_", {A(3), S(1.0)}, {}), ReleaseOf({10})},
                   {11}),
            "");
  Run({ReleaseOf({11})});
  int failures = 0;
  float runs = 1;
  const int64_t least = session_->account()->used_for(MemoryUse::kRecords) + (2 << 20);
  for (int64_t limit = 6 << 20; limit > least; limit -= 64 << 10) {
    while (session_->GiveBackCaches(nullptr)) {
    }
    session_->account()->set_limit(limit);
    output_.Clear();
    Run({RunOf({}, {20}), ReleaseOf({20})});
    failures += output_.errors.empty() ? 0 : 1;
    session_->account()->set_limit(64 << 20);
    ++runs;
    ASSERT_EQ(Fetch(2), Floats{runs}) << limit;
    ASSERT_EQ(Fetch(3), Floats{runs}) << limit;
  }
  EXPECT_GT(failures, 0);
  EXPECT_LT(failures, runs - 10);
}

}  // namespace
}  // namespace chx::server
