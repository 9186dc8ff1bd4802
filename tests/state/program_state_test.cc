// Programs of a session that was written and read again do what they did.
#include <limits>
#include <utility>

#include "gmock/gmock.h"
#include "proto/command_codec.h"
#include "server/state/program_messages.h"
#include "tests/session/programs_fixture.h"
#include "tests/state/snapshots.h"

namespace chx::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ProgramStateTest : public ProgramsTest {
 protected:
  static command::RunProgram VaryingRun(std::vector<Handle> arguments, std::vector<Handle> results,
                                        double value) {
    command::RunProgram run = RunOf(std::move(arguments), std::move(results));
    run.values = {Bits(value)};
    return run;
  }

  void GoOnFromASnapshot() {
    const std::string data = SnapshotOf(session_.get());
    const int64_t handles = session_->stats().handles;
    Reset(SessionLimits());
    const absl::Status status = Restore(data, session_.get());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(session_->stats().handles, handles);
  }

  // Of a session that has read a program.
  absl::Status Read(const state::Program& message) {
    absl::Status status;
    session_->Inspect([&](SessionState& state) {
      absl::flat_hash_set<Handle> owned;
      absl::StatusOr<std::unique_ptr<Program>> program =
          ProgramFrom(message, state.handles, {}, &owned);
      status = program.ok() ? state.programs.Restore(message.numbers(), *std::move(program))
                            : program.status();
    });
    return status;
  }
};

// A parameter in a graph, its gradient, a constant, a mode, and a number that varies.
TEST_F(ProgramStateTest, AStepGoesOn) {
  std::vector<std::vector<float>> found;
  for (const bool restarts : {false, true}) {
    Reset(SessionLimits());
    Upload(1, {1, 2}, {2});
    Upload(2, {3, 4}, {2});
    Run({command::DefineMode{1, false, {}}, command::RequireGrad{1}});
    const std::vector<float> values = {0.5F, 0.25F};
    command::Upload constant;
    constant.result = 10;
    constant.shape = {2};
    constant.data = absl::string_view(reinterpret_cast<const char*>(values.data()), 8);
    command::ApplyOp apart = OpByDefault("reshape", {A(1)}, {14}, {AttrValue(Ints{2})});
    apart.mode = 1;
    Record(
        {2},
        {command::SetGrad{1, 0, 0}, constant, Op("multiply", {A(2), A(10)}, {11}),
         Op("multiply", {A(1), A(11)}, {12}), OpByDefault("sum", {A(12)}, {13}), BackwardOf({13}),
         apart, GetGradOf(1, 15), Op("sgd_update", {A(14), A(15)}, {}, {AttrValue(0.5)}),
         ReleaseOf({10, 11, 12, 14, 15})},
        {13}, {4, 0});
    Run({VaryingRun({2}, {20}, 0.25)});
    if (restarts) GoOnFromASnapshot();
    // The client's own definitions, which may be others by now.
    Run({command::DefineMode{1, true, {}}});
    Upload(3, {5, 6}, {2});
    Run({VaryingRun({3}, {21}, 0.125), VaryingRun({3}, {22}, 0.125), ReleaseOf({1}),
         VaryingRun({3}, {23}, 0.125)});
    ASSERT_TRUE(output_.errors.empty()) << LastError();
    found.push_back(Fetch(20));
    for (Handle loss : {21, 22, 23}) found.back().push_back(Fetch(loss).at(0));
    Run({command::ReleaseProgram{1}});
    ASSERT_TRUE(output_.errors.empty()) << LastError();
    EXPECT_EQ(session_->stats().handles, 7);
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_NE(found[0][2], found[0][3]);
}

TEST_F(ProgramStateTest, WhatIsBeingRecordedIsNotKept) {
  Upload(1, {1, 2}, {2});
  Run({command::BeginProgram{1, List({})}, Op("add", {A(1), S(1.0)}, {2})});
  EXPECT_EQ(session_->stats().handles, 3);  // and the program's
  const std::string data = SnapshotOf(session_.get());
  Reset(SessionLimits());
  ASSERT_TRUE(Restore(data, session_.get()).ok());
  EXPECT_EQ(session_->stats().handles, 2);
  EXPECT_THAT(Fetch(2), ElementsAre(2, 3));
  Run({command::EndProgram{9, 1, List({2}), {}}});
  ASSERT_NE(output_.values.back().error, nullptr);
  EXPECT_THAT(std::string(output_.values.back().error->status.message()),
              HasSubstr("expects a program that is being recorded"));
}

TEST_F(ProgramStateTest, WhatNoRecordingMadeIsRefused) {
  Upload(1, {1, 2}, {2});
  state::Program good;
  good.add_numbers(1);
  CommandWriter(good.mutable_records()).Write(Op("sgd_update", {A(5), A(6)}, {}, {AttrValue(0.5)}));
  good.mutable_slots()->Add()->set_operation(0);
  ASSERT_TRUE(Read(good).ok()) << Read(good);
  EXPECT_FALSE(Read(good).ok()) << "the number is taken";
  good.set_numbers(0, 2);
  const auto refused = [&](const auto& damage) {
    state::Program bad = good;
    damage(&bad);
    return !Read(bad).ok();
  };
  EXPECT_TRUE(refused([](state::Program* p) { p->mutable_records()->pop_back(); }));
  EXPECT_TRUE(refused([](state::Program* p) { p->mutable_slots(0)->set_operation(1); }));
  EXPECT_TRUE(refused([](state::Program* p) { p->mutable_slots(0)->set_attribute(1); }));
  EXPECT_TRUE(refused([](state::Program* p) {
    p->mutable_slots(0)->set_operation(std::numeric_limits<uint64_t>::max());
  }));
  EXPECT_TRUE(refused([](state::Program* p) {
    CommandWriter(p->mutable_records()).Write(command::ReleaseProgram{1});
  }));
  EXPECT_TRUE(refused([](state::Program* p) {
    CommandWriter(p->mutable_records()).Write(command::Fetch{1, 1});
  }));
  EXPECT_TRUE(refused([](state::Program* p) { p->add_held()->set_own(1); }));
  EXPECT_TRUE(refused([](state::Program* p) { p->add_held()->set_own(kFirstProgramHandle); }));
  EXPECT_TRUE(refused([](state::Program* p) { p->add_held()->set_own(kFirstRunHandle); }));
  EXPECT_TRUE(refused([](state::Program* p) { p->add_modes()->set_number(1 << 16); }));
  EXPECT_TRUE(refused([](state::Program* p) { p->clear_numbers(); }));
  EXPECT_TRUE(refused([](state::Program* p) { p->add_numbers(3); }));
  EXPECT_TRUE(refused([](state::Program* p) { p->add_numbers(2); }));
  ASSERT_TRUE(Read(good).ok());
  // Names of nothing are errors when it runs.
  command::RunProgram run = VaryingRun({}, {}, 1);
  Run({run});
  EXPECT_THAT(LastError(), HasSubstr("handle"));
}

}  // namespace
}  // namespace chx::server
