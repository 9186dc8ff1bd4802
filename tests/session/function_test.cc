// Functions whose gradients the client computes: walks that wait, go on, and are given up.
#include <algorithm>
#include <chrono>
#include <thread>

#include "ops/error.h"
#include "tests/session/session_fixture.h"

namespace chx {
namespace {

using Floats = std::vector<float>;

class FunctionTest : public SessionTest {
 protected:
  void Leaf(Handle handle, Floats values) {
    const auto size = static_cast<int64_t>(values.size());
    Upload(handle, std::move(values), {size});
    Run({OfKind(CommandKind::kRequireGrad, handle)});
  }
  // outputs = function(inputs), which retains `retained` inputs and no outputs.
  static Command Record(uint64_t number, std::vector<Handle> inputs, std::vector<Handle> outputs,
                        std::vector<int64_t> retained = {}) {
    Command command = OfKind(CommandKind::kRecordFunction);
    command.request_id = number;
    for (Handle input : inputs) {
      command.operands.push_back(input == 0 ? CommandOperand() : CommandOperand(input));
    }
    command.handles.assign(outputs.begin(), outputs.end());
    command.shape.push_back(static_cast<int64_t>(retained.size()));
    command.shape.insert(command.shape.end(), retained.begin(), retained.end());
    return command;
  }
  static Command MayCall(Command command, uint64_t request_id) {
    command.flags |= Command::kMayCall;
    command.request_id = request_id;
    return command;
  }
  static Command Enter(uint64_t walk, std::vector<Handle> handles) {
    Command command = OfKind(CommandKind::kEnterFunction, walk);
    command.outputs.assign(handles.begin(), handles.end());
    return command;
  }
  static Command Resume(uint64_t walk, uint64_t request_id, std::vector<CommandOperand> grads) {
    Command command = OfKind(CommandKind::kResumeWalk, walk);
    command.request_id = request_id;
    command.operands.assign(grads.begin(), grads.end());
    return command;
  }
  WalkState State() const {
    const SessionOutput::Value& value = output_.values.back();
    EXPECT_EQ(value.error, nullptr) << value.error->status;
    absl::StatusOr<WalkState> state = DecodeWalkState(value.data);
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? *state : WalkState();
  }
  std::string Refusal() const {
    const SessionOutput::Value& value = output_.values.back();
    return value.error == nullptr ? "" : std::string(value.error->status.message());
  }
  Floats Grad(Handle handle, Handle as) {
    Run({GetGradOf(handle, as)});
    return Fetch(as);
  }
  // Whether the daemon has not said that the function is gone. Asks for a value to hear of it.
  bool Lives(uint64_t number) {
    Command barrier = OfKind(CommandKind::kBarrier);
    Run({barrier});
    const std::vector<uint64_t>& freed = output_.freed_functions;
    return std::find(freed.begin(), freed.end(), number) == freed.end();
  }
};

// 1 --x^2 by a function--> 2 --times 10--> 3
class SquareTest : public FunctionTest {
 protected:
  SquareTest() {
    Leaf(1, {3});
    Upload(2, {9}, {1});
    Run({Record(1, {1, 0}, {2}, {0, 1}), Op("multiply", {A(2), S(10.0)}, {3})});
    output_.Clear();
  }
};

TEST_F(SquareTest, AWalkWaitsForTheClientAndGoesOn) {
  Run({MayCall(BackwardOf({3}), 40)});
  const WalkState state = State();
  EXPECT_EQ(state.function, 1u);
  EXPECT_EQ(state.targets, std::vector<uint32_t>{0});
  EXPECT_EQ(state.output_grads, std::vector<bool>{true});
  EXPECT_EQ(state.retained_inputs, (std::vector<bool>{true, false}));
  EXPECT_TRUE(state.retained_outputs.empty());
  ASSERT_EQ(state.graphs.size(), 2u);
  EXPECT_TRUE(state.graphs[0].graphs.empty());   // the walk is not recorded
  EXPECT_EQ(state.graphs[1].graphs.size(), 1u);  // the input is where it was
  Run({Enter(40, {50, 51, 0})});
  EXPECT_EQ(Fetch(50), Floats{10});
  EXPECT_EQ(Fetch(51), Floats{3});
  Command mode = OfKind(CommandKind::kDefineMode);
  mode.mode = 1;
  Command times = Op("multiply", {A(50), S(6.0)}, {52});
  times.mode = 1;
  Run({mode, times, Resume(40, 41, {A(52)})});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Grad(1, 60), Floats{60});
  EXPECT_TRUE(output_.errors.empty()) << LastError();
  // And again: the graph is kept.
  Run({MayCall(BackwardOf({3}), 42), Resume(42, 43, {A(52)})});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Grad(1, 61), Floats{120});
}

TEST_F(SquareTest, GradBindsItsResultsWhenTheWalkIsDone) {
  Command grad = OfKind(CommandKind::kGrad);
  grad.handles = {3, 1};
  grad.num_outputs = 1;
  grad.outputs.push_back(70);
  Upload(52, {5}, {1});
  Run({MayCall(grad, 40)});
  EXPECT_EQ(State().function, 1u);
  Run({Resume(40, 41, {A(52)})});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Fetch(70), Floats{5});
  // No gradient from the function is no gradient.
  grad.outputs[0] = 71;
  Run({MayCall(grad, 42), Resume(42, 43, {CommandOperand()})});
  RootErrorPtr error;
  Fetch(71, &error);
  ASSERT_NE(error, nullptr);
  EXPECT_TRUE(error->absent_gradient);
}

TEST_F(SquareTest, WhatHappensToTheGraphMeanwhileDoesNoHarm) {
  Run({MayCall(BackwardOf({3}), 40), Enter(40, {50, 51, 0}), ReleaseOf({2, 3, 50, 51})});
  Command unchain = OfKind(CommandKind::kUnchain, 1);
  Upload(52, {7}, {1});
  Run({unchain, Resume(40, 41, {A(52)})});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Grad(1, 60), Floats{7});
}

TEST_F(SquareTest, WalksInsideOfWalks) {
  Upload(52, {1}, {1});
  Run({MayCall(BackwardOf({3}), 40), MayCall(BackwardOf({3}), 41), Resume(41, 42, {A(52)}),
       Resume(40, 43, {A(52)})});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Grad(1, 60), Floats{2});
}

TEST_F(SquareTest, AnAbandonedWalkHasNoEffect) {
  Run({MayCall(BackwardOf({3}), 40), OfKind(CommandKind::kAbandonWalk, 40)});
  EXPECT_TRUE(output_.errors.empty()) << LastError();
  RootErrorPtr error;
  Run({GetGradOf(1, 60)});
  Fetch(60, &error);
  EXPECT_NE(error, nullptr);
  Run({Resume(40, 41, {})});
  EXPECT_NE(Refusal().find("expects a walk that waits"), std::string::npos);
}

TEST_F(SquareTest, TheFunctionLivesAsLongAsAGraphHasIt) {
  EXPECT_TRUE(Lives(1));
  Run({ReleaseOf({2})});
  EXPECT_TRUE(Lives(1));
  Run({MayCall(BackwardOf({3}), 40), ReleaseOf({3})});
  EXPECT_TRUE(Lives(1)) << "a walk holds what it comes back to";
  Run({OfKind(CommandKind::kAbandonWalk, 40)});
  EXPECT_FALSE(Lives(1));
}

TEST_F(SquareTest, ASessionMayEndWhileAWalkWaits) {
  Run({MayCall(BackwardOf({3}), 40)});
  session_ = nullptr;
}

TEST_F(SquareTest, DoubleBackpropGoesThroughTheFunctionAgain) {
  Run({MayCall(BackwardOf({3}, true), 40), Enter(40, {50, 51, 0}),
       Op("multiply", {A(50), A(51)}, {52}), Resume(40, 41, {A(52)}), GetGradOf(1, 60)});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Fetch(60), Floats{30});
  // d(10 x)/dx: nothing of it depends on the function's output.
  Command clear = OfKind(CommandKind::kSetGrad, 1);
  Run({clear, MayCall(BackwardOf({60}), 42)});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Grad(1, 61), Floats{10});
}

TEST_F(SquareTest, WhatTheClientSendsIsChecked) {
  Upload(52, {1, 2}, {2});
  Run({BackwardOf({3})});
  EXPECT_NE(LastError().find("a function of the client, which does not wait"), std::string::npos);
  Run({MayCall(BackwardOf({3}), 40), Resume(40, 41, {A(52)})});
  EXPECT_NE(Refusal().find("a gradient of float32(1,)"), std::string::npos) << Refusal();
  Run({MayCall(BackwardOf({3}), 42), Resume(42, 43, {A(52), A(52)})});
  EXPECT_NE(Refusal().find("expects 1 gradients"), std::string::npos) << Refusal();
  Run({MayCall(BackwardOf({3}), 44), Resume(44, 45, {A(999)})});
  EXPECT_NE(Refusal().find("expects a handle of this session"), std::string::npos);
  Run({MayCall(BackwardOf({3}), 46), Resume(46, 47, {S(1.0)})});
  EXPECT_NE(Refusal().find("got a scalar"), std::string::npos);
  Run({MayCall(BackwardOf({3}), 48), Enter(48, {50})});
  EXPECT_NE(LastError().find("expects 3 handles, got 1"), std::string::npos);
  Run({Enter(48, {1, 2, 3})});
  EXPECT_NE(LastError().find("in use"), std::string::npos);
  Run({MayCall(BackwardOf({3}), 48)});
  EXPECT_NE(Refusal().find("expects a new number"), std::string::npos);
  Run({Enter(7, {}), OfKind(CommandKind::kAbandonWalk, 7)});
  EXPECT_NE(LastError().find("expects a walk that waits"), std::string::npos);
}

TEST_F(SquareTest, FunctionsAreChecked) {
  Upload(4, {1}, {1});
  Run({Record(1, {1}, {4})});
  EXPECT_NE(LastError().find("expects a new number"), std::string::npos);
  Run({Record(0, {1}, {4})});
  EXPECT_NE(LastError().find("expects a number"), std::string::npos);
  Run({Record(2, {1}, {2})});
  EXPECT_NE(LastError().find("outputs that are in no graph"), std::string::npos);
  Run({Record(2, {1}, {4, 4})});
  EXPECT_NE(LastError().find("4 twice"), std::string::npos);
  Run({Record(2, {1}, {4}, {1})});
  EXPECT_NE(LastError().find("index 1 of 1"), std::string::npos);
  Run({Record(2, {999}, {4})});
  EXPECT_NE(LastError().find("expects a handle of this session"), std::string::npos);
}

TEST_F(FunctionTest, NoMoreWalksThanTheLimit) {
  Leaf(1, {3});
  Upload(2, {9}, {1});
  Run({Record(1, {1}, {2})});
  for (uint64_t i = 0; i < 300; ++i) Run({MayCall(BackwardOf({2}), 100 + i)});
  EXPECT_NE(Refusal().find("at most 256 walks"), std::string::npos) << Refusal();
}

TEST_F(FunctionTest, AWalkPastItsDeadlineHoldsNothing) {
  SessionLimits limits;
  limits.function_deadline = std::chrono::milliseconds(1);
  limits.memory_bytes = 7 << 20;
  Reset(limits);
  const int64_t size = 1 << 20;
  const Floats large(size);
  Leaf(1, large);
  Upload(2, {9}, {1});
  Run({Record(1, {1}, {2}, {0}), MayCall(BackwardOf({2}), 40), MayCall(BackwardOf({2}), 41),
       ReleaseOf({1, 2})});
  EXPECT_EQ(State().function, 1u);
  Upload(3, large, {size});
  ASSERT_FALSE(output_.errors.empty());  // there is no room for two
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  session_->EndLateWalks();
  output_.Clear();
  Upload(4, large, {size});
  EXPECT_TRUE(output_.errors.empty()) << LastError();
  Run({Enter(40, {50, 51})});
  EXPECT_NE(LastError().find("functions to take at most 1ms"), std::string::npos) << LastError();
  Run({Resume(40, 42, {CommandOperand()})});
  ASSERT_NE(output_.values.back().error, nullptr);
  EXPECT_EQ(KindOf(output_.values.back().error->status), ErrorKind::kTimeout);
  // Told once; and one that its client gives up has nothing more to say.
  Run({Resume(40, 43, {CommandOperand()})});
  EXPECT_NE(Refusal().find("expects a walk that waits"), std::string::npos) << Refusal();
  output_.Clear();
  Run({OfKind(CommandKind::kAbandonWalk, 41)});
  EXPECT_TRUE(output_.errors.empty()) << LastError();
}

TEST_F(FunctionTest, NoGradientComesFromALateFunction) {
  SessionLimits limits;
  limits.function_deadline = std::chrono::milliseconds(1);
  Reset(limits);
  Leaf(1, {3});
  Upload(2, {9}, {1});
  Upload(4, {6}, {1});
  Run({Record(1, {1}, {2}), MayCall(BackwardOf({2}), 40)});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Run({Resume(40, 41, {A(4)})});  // nobody has looked yet
  EXPECT_NE(Refusal().find("functions to take at most 1ms"), std::string::npos) << Refusal();
  Run({GetGradOf(1, 60)});
  EXPECT_NE(LastError().find("has no gradient"), std::string::npos) << LastError();
}

TEST_F(FunctionTest, WithoutADeadlineAWalkWaitsForEver) {
  SessionLimits limits;
  limits.function_deadline = std::chrono::milliseconds(0);
  Reset(limits);
  Leaf(1, {3});
  Upload(2, {9}, {1});
  Upload(4, {6}, {1});
  Run({Record(1, {1}, {2}), MayCall(BackwardOf({2}), 40)});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  session_->EndLateWalks();
  Run({Resume(40, 41, {A(4)})});
  EXPECT_EQ(Grad(1, 60), Floats{6});
}

TEST_F(FunctionTest, NothingIsRecordedWithoutAGraph) {
  Upload(1, {3}, {1});
  Upload(2, {9}, {1});
  Run({Record(1, {1}, {2})});
  EXPECT_TRUE(output_.errors.empty()) << LastError();
  Run({MayCall(BackwardOf({2}), 40)});
  EXPECT_EQ(State().function, 0u);
}

TEST_F(FunctionTest, ManyFreedFunctionsAreToldWithoutAQuestion) {
  Leaf(1, {3});
  output_.Clear();
  for (uint64_t i = 0; i < 1023; ++i) {
    Upload(2, {9}, {1});
    Run({Record(i + 1, {1}, {2}), ReleaseOf({2})});
  }
  EXPECT_TRUE(output_.freed_functions.empty());
  Upload(2, {9}, {1});
  Run({Record(2000, {1}, {2}), ReleaseOf({2})});
  EXPECT_EQ(output_.freed_functions.size(), 1024u);
}

}  // namespace
}  // namespace chx
