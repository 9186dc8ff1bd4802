// Programs as no client sends them: each is refused, or does what its commands would, and the
// session goes on.
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "ops/registry.h"
#include "server/session/command_handles.h"
#include "tests/session/programs_fixture.h"

namespace chx::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kForEver = int64_t{1} << 40;

class HostileProgramsTest : public ProgramsTest {
 protected:
  // x + w for an argument x, as program 1; w is 2.
  void RecordSum() {
    Upload(1, {1, 2}, {2});
    Upload(2, {10, 20}, {2});
    ASSERT_EQ(Record({1}, {Op("add", {A(1), A(2)}, {3})}, {3}), "");
    Run({ReleaseOf({3})});
  }
  // Tries to record as program 2. Its error; empty: there was one, which is gone.
  std::string Try(std::vector<Handle> arguments, std::vector<Command> commands,
                  std::vector<Handle> outputs, Ints slots = {}) {
    Run({command::BeginProgram{2, List(arguments)}});
    Run(std::move(commands));
    Run({command::EndProgram{8, 2, List(outputs), std::move(slots)}});
    const SessionOutput::Value& value = output_.values.back();
    EXPECT_EQ(value.request_id, 8u);
    const std::string error =
        value.error == nullptr ? "" : std::string(value.error->status.message());
    Run({command::ReleaseProgram{2}});
    return error;
  }
  // The last error of a command, which has no answer.
  std::string ErrorOf(Command command) {
    output_.Clear();
    Run({std::move(command)});
    return LastError();
  }
  // Program 1 and what it works on are as they were recorded.
  void ExpectAsBefore() {
    Run({RunOf({1}, {50})});
    EXPECT_THAT(Fetch(50), ElementsAre(11, 22));
    Run({ReleaseOf({50})});
    EXPECT_THAT(Fetch(1), ElementsAre(1, 2));
    EXPECT_THAT(Fetch(2), ElementsAre(10, 20));
  }
};

TEST_F(HostileProgramsTest, HandlesThatThereAreNot) {
  RecordSum();
  for (const Handle handle : {Handle{0}, Handle{99}, Handle{1} << 31, (Handle{1} << 63) - 1,
                              kFirstProgramHandle + 9, kFirstRunHandle, ~Handle{0}}) {
    EXPECT_THAT(ErrorOf(RunOf({handle}, {4})), HasSubstr("expects a handle")) << handle;
    Run({ReleaseOf({4})});  // an error
    EXPECT_NE(Try({handle}, {}, {}), "") << handle;
    EXPECT_NE(Try({}, {}, {handle}), "") << handle;
    EXPECT_NE(Try({}, {Op("add", {A(handle), S(1.0)}, {5})}, {5}), "") << handle;
    EXPECT_NE(Try({}, {Op("add_", {A(handle), S(1.0)}, {})}, {}), "") << handle;
    EXPECT_NE(Try({}, {BackwardOf({handle})}, {}), "") << handle;
    Run({command::HoldArray{handle}, ReleaseOf({5})});
  }
  ExpectAsBefore();
}

// A batch with such a command is malformed: under these handles are also arrays of those who have
// published programs.
TEST_F(HostileProgramsTest, HandlesOfProgramsAreNotForClients) {
  const Handle own = kFirstProgramHandle;
  const std::vector<Command> refused = {command::Fetch{7, own},
                                        command::Fetch{own, own},  // the request's number, too
                                        command::ShareArray{own, own},
                                        command::ShareCopy{own, 1, own},
                                        command::GrantAccess{own, own, false, false, 0, ""},
                                        command::SaveArrays{own, "name", "", {1, own}},
                                        command::HoldArray{own},
                                        Op("copy", {A(own)}, {1}),
                                        Op("copy", {A(1)}, {own}),
                                        ReleaseOf({1, own}),
                                        RunOf({own}, {}),
                                        RunOf({}, {kFirstRunHandle}),
                                        command::EndProgram{own, 1, {own}, {}}};
  for (const Command& command : refused) EXPECT_TRUE(NamesOthersHandle(command)) << command.index();
  const std::vector<Command> allowed = {command::Fetch{own, 1}, command::Barrier{own},
                                        command::EndProgram{own, 1, {1}, {}}, RunOf({1}, {2})};
  for (const Command& command : allowed) {
    EXPECT_FALSE(NamesOthersHandle(command)) << command.index();
  }
}

// A result under a handle that is an argument's would be a cycle.
TEST_F(HostileProgramsTest, ResultsThatAreNotNew) {
  RecordSum();
  for (const Handle result : {Handle{1}, Handle{2}, kFirstProgramHandle, kFirstProgramHandle + 9}) {
    EXPECT_NE(ErrorOf(RunOf({1}, {result})), "") << result;
    EXPECT_NE(Try({}, {Op("add", {A(1), S(1.0)}, {1})}, {1}), "");
    ExpectAsBefore();
  }
  // Several of one handle.
  ASSERT_EQ(Try({}, {}, {1, 1}), "");
  Run({command::BeginProgram{3, {1}}, command::EndProgram{8, 3, {1, 1}, {}}});
  command::RunProgram run = RunOf({1}, {7, 7});
  run.program = 3;
  EXPECT_THAT(ErrorOf(run), HasSubstr("expects a new handle"));
  ExpectAsBefore();
}

TEST_F(HostileProgramsTest, ProgramsInThemselves) {
  RecordSum();
  // In itself while it is recorded, in another one, and begun twice.
  command::RunProgram itself = RunOf({1}, {30});
  itself.program = 2;
  EXPECT_NE(Try({1}, {itself}, {}), "");
  EXPECT_NE(Try({1}, {RunOf({1}, {31})}, {}), "");
  Run({command::BeginProgram{2, {}}});
  EXPECT_THAT(ErrorOf(command::BeginProgram{3, {}}), HasSubstr("one recording at a time"));
  EXPECT_THAT(ErrorOf(command::BeginProgram{2, {}}), HasSubstr("one recording at a time"));
  Run({command::EndProgram{8, 1, {}, {}}});  // another one than is recorded
  EXPECT_NE(output_.values.back().error, nullptr);
  Run({command::EndProgram{8, 2, {}, {}}});
  EXPECT_NE(output_.values.back().error, nullptr);
  Run({ReleaseOf({30, 31})});
  ExpectAsBefore();
}

// A gradient that is the array itself, or depends on it, and a write of an array to itself.
TEST_F(HostileProgramsTest, CyclesOfArrays) {
  Upload(1, {1, 2}, {2});
  Run({command::RequireGrad{1}, command::SetGrad{1, 1, 0}});
  const std::string said =
      Record({1},
             {command::SetGrad{1, 1, 0}, Op("multiply", {A(1), A(1)}, {3}),
              Op("sum", {A(3)}, {4}, {AttrValue(), AttrValue(false), AttrValue()}), BackwardOf({4}),
              GetGradOf(1, 5), command::SetGrad{1, 5, 0}},
             {5});
  Floats first = Fetch(5);
  EXPECT_THAT(first, ElementsAre(3, 6));  // 1 + 2 x
  Run({RunOf({1}, {6}), RunOf({1}, {7}, 3)});
  EXPECT_EQ(Fetch(6), first) << said;
  EXPECT_EQ(Fetch(7), first) << said;
  EXPECT_THAT(Fetch(1), ElementsAre(1, 2));
  Upload(10, {1, 2}, {2});
  Run({command::ReleaseProgram{1}});
  Record({10}, {Op("multiply_", {A(10), A(10)}, {}), Op("add_", {A(10), A(10)}, {})}, {10});
  EXPECT_THAT(Fetch(10), ElementsAre(2, 8));
  Run({RunOf({10}, {11}, 2)});
  EXPECT_THAT(Fetch(10), ElementsAre(128, 32768));
  EXPECT_THAT(Fetch(11), ElementsAre(128, 32768));
}

// Each run would answer, and the answers of 10^12 of them would be kept until the last one ends.
TEST_F(HostileProgramsTest, PassesThatAreAnswered) {
  RecordSum();
  Run({command::RequireGrad{1}});
  const command::ApplyOp sum = Op("sum", {A(1)}, {5}, {AttrValue(), AttrValue(false), AttrValue()});
  command::Backward backward = BackwardOf({5});
  backward.request_id = 6;
  EXPECT_THAT(Try({}, {sum, backward}, {}), HasSubstr("functions of the client"));
  command::Grad grad = GradOf({5}, {1}, {7});
  grad.request_id = 6;
  EXPECT_THAT(Try({}, {grad}, {}), HasSubstr("functions of the client"));
  Run({ReleaseOf({5, 7})});
  ExpectAsBefore();
}

template <size_t... i>
std::vector<Command> OneOfEachKind(std::index_sequence<i...> /*kinds*/) {
  return {std::variant_alternative_t<i, CommandVariant>()...};
}

TEST_F(HostileProgramsTest, AnyKindOfCommandAndUnknownOperators) {
  RecordSum();
  std::vector<Command> commands = OneOfEachKind(std::make_index_sequence<kNumCommandKinds>());
  ASSERT_EQ(commands.size(), kNumCommandKinds);
  for (const int op : {0, OpRegistry::Global().size() + 1, 0xffff}) {
    command::ApplyOp unknown;
    unknown.op = static_cast<uint16_t>(op);
    unknown.results = {20};
    commands.emplace_back(unknown);
  }
  size_t refused = 0;
  for (const Command& command : commands) {
    refused += Try({1}, {command}, {}).empty() ? 0 : 1;
    Run({ReleaseOf({20})});
    ExpectAsBefore();
  }
  // Those that are no part of a program, such as definitions, do no harm to it.
  EXPECT_GT(refused, kNumCommandKinds / 2);
}

TEST_F(HostileProgramsTest, NumbersOutOfRange) {
  RecordSum();
  for (const int64_t times : {int64_t{-1}, INT64_MIN, kForEver + 1, INT64_MAX}) {
    EXPECT_THAT(ErrorOf(RunOf({1}, {40}, times)), HasSubstr("times, got")) << times;
    Run({ReleaseOf({40})});
  }
  for (const uint64_t program : {uint64_t{0}, uint64_t{2}, kFirstRunHandle, ~uint64_t{0}}) {
    command::RunProgram run = RunOf({1}, {40});
    run.program = program;
    EXPECT_THAT(ErrorOf(run), HasSubstr("expects a program of this session")) << program;
    EXPECT_NE(ErrorOf(command::ReleaseProgram{program}), "") << program;
    Run({ReleaseOf({40}), command::ExplainProgram{8, program, true}});
    EXPECT_NE(output_.values.back().error, nullptr) << program;
  }
  EXPECT_THAT(ErrorOf(command::BeginProgram{kFirstRunHandle, {}}), HasSubstr("a new number"));
  EXPECT_THAT(ErrorOf(command::BeginProgram{1, {}}), HasSubstr("a new number"));
  for (const Ints& values : {Ints{1}, Ints(60000, -1)}) {
    command::RunProgram run = RunOf({1}, {40});
    run.values = values;
    EXPECT_THAT(ErrorOf(run), HasSubstr("expects values of 0 slots"));
    Run({ReleaseOf({40})});
  }
  for (const Ints& slots : {Ints{0}, Ints{1, 0}, Ints{0, 0}, Ints{-1, 0}, Ints{0, -1},
                            Ints{INT64_MIN, INT64_MAX}, Ints(60001, 0), Ints(60000, 0)}) {
    EXPECT_THAT(Try({1}, {Op("add", {A(1), S(1.0)}, {41})}, {41}, slots), HasSubstr("slots"));
    Run({ReleaseOf({41})});
  }
  EXPECT_NE(ErrorOf(RunOf({}, {40})), "");
  EXPECT_NE(ErrorOf(RunOf({1, 1}, {42})), "");
  EXPECT_NE(ErrorOf(RunOf({1}, {43, 44})), "");
  Run({ReleaseOf({40, 42, 43, 44})});
  ExpectAsBefore();
}

TEST_F(HostileProgramsTest, MoreProgramsThanThereMayBe) {
  RecordSum();
  std::vector<Command> commands;
  for (uint64_t program = 2; program < Programs::kMaxPrograms + 2; ++program) {
    commands.emplace_back(command::BeginProgram{program, {}});
    commands.emplace_back(command::EndProgram{8, program, {}, {}});
  }
  output_.Clear();
  Run(commands);
  EXPECT_THAT(output_.errors.back().error->status.message(), HasSubstr("which is the limit"));
  EXPECT_NE(output_.values.back().error, nullptr);
  EXPECT_EQ(output_.values[output_.values.size() - 2].error, nullptr);
  ExpectAsBefore();
  Run({command::ReleaseProgram{2}});
  EXPECT_EQ(Try({}, {}, {}), "");
}

// Whatever a program is, a run of it can be stopped.
TEST_F(HostileProgramsTest, RunsForEverAreStopped) {
  struct Case {
    std::vector<Handle> arguments;
    std::vector<Command> commands;
    std::vector<Handle> outputs;
  };
  const AttrValue none;
  const std::vector<Case> cases = {
      {{1}, {Op("add", {A(1), S(1.0)}, {10})}, {10}},
      {{2}, {Op("tanh", {A(2)}, {10})}, {10}},
      {{}, {Op("add_", {A(3), S(1.0)}, {})}, {}},
      {{1, 1}, {Op("add", {A(1), A(1)}, {10})}, {10}},  // by its commands
      {{},
       {command::SetGrad{1, 0, 0}, Op("sum", {A(1)}, {10}, {none, AttrValue(false), none}),
        BackwardOf({10})},
       {}},
      {{},  // gradients that add up
       {Op("sum", {A(1)}, {10}, {none, AttrValue(false), none}), BackwardOf({10})},
       {}},
  };
  for (size_t i = 0; i < 2 * cases.size(); ++i) {
    const Case& each = cases[i / 2];
    const bool ends = i % 2 == 1;
    Reset(SessionLimits());
    Upload(1, {1, 2}, {2});
    Upload(2, {}, {0, 3});
    Upload(3, {0}, {1});
    Run({command::RequireGrad{1}});
    const std::string unplanned = Record(each.arguments, each.commands, each.outputs);
    ASSERT_TRUE(unplanned.empty() || unplanned == "two arguments share memory") << unplanned;
    std::atomic<bool> done{false};
    std::thread stopper([&] {
      while (!session_->stop().running() && !done) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (ends) session_->stop().EndSession();
      if (!ends) session_->stop().Cancel(1);
    });
    const std::vector<Command> run = {
        RunOf(each.arguments, std::vector<Handle>(each.outputs.size(), 20), kForEver)};
    session_->Execute(run, &output_, 1);
    done = true;
    stopper.join();
    EXPECT_THAT(LastError(), HasSubstr("cancelled")) << i;
  }
}

}  // namespace
}  // namespace chx::server
