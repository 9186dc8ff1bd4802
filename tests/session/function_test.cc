// Functions whose gradients the client computes: backward passes that wait, go on, and are given
// up.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "ops/error.h"
#include "proto/graph_state.h"
#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

using Floats = std::vector<float>;

class FunctionTest : public SessionTest {
 protected:
  void Leaf(Handle handle, Floats values) {
    const auto size = static_cast<int64_t>(values.size());
    Upload(handle, std::move(values), {size});
    Run({command::RequireGrad{handle}});
  }
  // outputs = function(inputs), which retains `retained` inputs and no outputs.
  static command::RecordFunction Record(uint64_t number, std::vector<Handle> inputs,
                                        std::vector<Handle> outputs,
                                        std::vector<int64_t> retained = {}) {
    command::RecordFunction command;
    command.function = number;
    command.inputs = List(inputs);
    command.outputs = List(outputs);
    command.retained_inputs.assign(retained.begin(), retained.end());
    return command;
  }
  // The backward or grad may call functions.
  template <typename C>
  static C MayCall(C command, uint64_t request_id) {
    command.request_id = request_id;
    return command;
  }
  static command::EnterFunction Enter(uint64_t pass, std::vector<Handle> handles) {
    return {pass, List(handles)};
  }
  static command::ResumePass Resume(uint64_t pass, uint64_t request_id, std::vector<Handle> grads) {
    return {request_id, pass, List(grads)};
  }
  PassState State() const {
    const SessionOutput::Value& value = output_.values.back();
    EXPECT_EQ(value.error, nullptr) << value.error->status;
    absl::StatusOr<PassState> state = DecodePassState(value.data);
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? *state : PassState();
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
    Run({command::Barrier{}});
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

TEST_F(SquareTest, APassWaitsForTheClientAndGoesOn) {
  Run({MayCall(BackwardOf({3}), 40)});
  const PassState state = State();
  EXPECT_EQ(state.function, 1u);
  EXPECT_EQ(state.targets, std::vector<uint32_t>{0});
  EXPECT_EQ(state.output_grads, std::vector<bool>{true});
  EXPECT_EQ(state.retained_inputs, (std::vector<bool>{true, false}));
  EXPECT_TRUE(state.retained_outputs.empty());
  ASSERT_EQ(state.graphs.size(), 2u);
  EXPECT_TRUE(state.graphs[0].graphs.empty());   // the pass is not recorded
  EXPECT_EQ(state.graphs[1].graphs.size(), 1u);  // the input is where it was
  Run({Enter(40, {50, 51, 0})});
  EXPECT_EQ(Fetch(50), Floats{10});
  EXPECT_EQ(Fetch(51), Floats{3});
  command::ApplyOp times = Op("multiply", {A(50), S(6.0)}, {52});
  times.mode = 1;
  Run({command::DefineMode{1, false, {}}, times, Resume(40, 41, {52})});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Grad(1, 60), Floats{60});
  EXPECT_TRUE(output_.errors.empty()) << LastError();
  // And again: the graph is kept.
  Run({MayCall(BackwardOf({3}), 42), Resume(42, 43, {52})});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Grad(1, 61), Floats{120});
}

TEST_F(SquareTest, GradBindsItsResultsWhenThePassIsDone) {
  command::Grad grad = GradOf({3}, {1}, {70});
  Upload(52, {5}, {1});
  Run({MayCall(grad, 40)});
  EXPECT_EQ(State().function, 1u);
  Run({Resume(40, 41, {52})});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Fetch(70), Floats{5});
  // No gradient from the function is no gradient.
  grad.results[0] = 71;
  Run({MayCall(grad, 42), Resume(42, 43, {0})});
  RootErrorPtr error;
  Fetch(71, &error);
  ASSERT_NE(error, nullptr);
  EXPECT_TRUE(error->absent_gradient);
}

TEST_F(SquareTest, ResultsHaveRoomThoughTheTableIsFullMeanwhile) {
  // The table grows at 24 handles, at 49, ...: one more each time, so that each size is met.
  for (Handle extra = 0; extra < 60; ++extra) {
    Upload(1000 + extra, {0}, {1});
    const Handle first = 2000 + 10 * extra;
    Run({MayCall(GradOf({3}, {1}, {first}), 100 + 2 * extra),
         Enter(100 + 2 * extra, {first + 1, first + 2, 0}),
         Resume(100 + 2 * extra, 101 + 2 * extra, {first + 1}), ReleaseOf({first + 1, first + 2})});
    ASSERT_EQ(Refusal(), "") << extra;
    EXPECT_EQ(Fetch(first), Floats{10});
    Run({ReleaseOf({first})});
  }
}

TEST_F(SquareTest, WhatHappensToTheGraphMeanwhileDoesNoHarm) {
  Run({MayCall(BackwardOf({3}), 40), Enter(40, {50, 51, 0}), ReleaseOf({2, 3, 50, 51})});
  Upload(52, {7}, {1});
  Run({command::Unchain{1}, Resume(40, 41, {52})});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Grad(1, 60), Floats{7});
}

TEST_F(SquareTest, PassesInsideOfPasses) {
  Upload(52, {1}, {1});
  Run({MayCall(BackwardOf({3}), 40), MayCall(BackwardOf({3}), 41), Resume(41, 42, {52}),
       Resume(40, 43, {52})});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Grad(1, 60), Floats{2});
}

TEST_F(SquareTest, AnAbandonedPassHasNoEffect) {
  Run({MayCall(BackwardOf({3}), 40), command::AbandonPass{40}});
  EXPECT_TRUE(output_.errors.empty()) << LastError();
  RootErrorPtr error;
  Run({GetGradOf(1, 60)});
  Fetch(60, &error);
  EXPECT_NE(error, nullptr);
  Run({Resume(40, 41, {})});
  EXPECT_NE(Refusal().find("expects a backward pass that waits"), std::string::npos);
}

TEST_F(SquareTest, TheFunctionLivesAsLongAsAGraphHasIt) {
  EXPECT_TRUE(Lives(1));
  Run({ReleaseOf({2})});
  EXPECT_TRUE(Lives(1));
  Run({MayCall(BackwardOf({3}), 40), ReleaseOf({3})});
  EXPECT_TRUE(Lives(1)) << "a pass holds what it comes back to";
  Run({command::AbandonPass{40}});
  EXPECT_FALSE(Lives(1));
}

TEST_F(SquareTest, ASessionMayEndWhileAPassWaits) {
  Run({MayCall(BackwardOf({3}), 40)});
  session_ = nullptr;
}

TEST_F(SquareTest, DoubleBackpropGoesThroughTheFunctionAgain) {
  Run({MayCall(BackwardOf({3}, true), 40), Enter(40, {50, 51, 0}),
       Op("multiply", {A(50), A(51)}, {52}), Resume(40, 41, {52}), GetGradOf(1, 60)});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Fetch(60), Floats{30});
  // d(10 x)/dx: nothing of it depends on the function's output.
  Run({command::SetGrad{1}, MayCall(BackwardOf({60}), 42)});
  EXPECT_EQ(State().function, 0u);
  EXPECT_EQ(Grad(1, 61), Floats{10});
}

TEST_F(SquareTest, WhatTheClientSendsIsChecked) {
  Upload(52, {1, 2}, {2});
  Run({BackwardOf({3})});
  EXPECT_NE(LastError().find("a function of the client, which does not wait"), std::string::npos);
  Run({MayCall(BackwardOf({3}), 40), Resume(40, 41, {52})});
  EXPECT_NE(Refusal().find("a gradient of float32(1,)"), std::string::npos) << Refusal();
  Run({MayCall(BackwardOf({3}), 42), Resume(42, 43, {52, 52})});
  EXPECT_NE(Refusal().find("expects 1 gradients"), std::string::npos) << Refusal();
  Run({MayCall(BackwardOf({3}), 44), Resume(44, 45, {999})});
  EXPECT_NE(Refusal().find("expects a handle of this session"), std::string::npos);
  Run({MayCall(BackwardOf({3}), 48), Enter(48, {50})});
  EXPECT_NE(LastError().find("expects 3 handles, got 1"), std::string::npos);
  Run({Enter(48, {1, 2, 3})});
  EXPECT_NE(LastError().find("in use"), std::string::npos);
  Run({MayCall(BackwardOf({3}), 48)});
  EXPECT_NE(Refusal().find("expects a new number"), std::string::npos);
  Run({Enter(7, {}), command::AbandonPass{7}});
  EXPECT_NE(LastError().find("expects a backward pass that waits"), std::string::npos);
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

TEST_F(FunctionTest, NoMorePassesThanTheLimit) {
  Leaf(1, {3});
  Upload(2, {9}, {1});
  Run({Record(1, {1}, {2})});
  for (uint64_t i = 0; i < 300; ++i) Run({MayCall(BackwardOf({2}), 100 + i)});
  EXPECT_NE(Refusal().find("at most 256 backward passes"), std::string::npos) << Refusal();
}

TEST_F(FunctionTest, APassPastItsDeadlineHoldsNothing) {
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
  session_->EndLatePasses();
  output_.Clear();
  Upload(4, large, {size});
  EXPECT_TRUE(output_.errors.empty()) << LastError();
  Run({Enter(40, {50, 51})});
  EXPECT_NE(LastError().find("functions to take at most 1ms"), std::string::npos) << LastError();
  Run({Resume(40, 42, {0})});
  ASSERT_NE(output_.values.back().error, nullptr);
  EXPECT_EQ(KindOf(output_.values.back().error->status), ErrorKind::kTimeout);
  // Told once; and one that its client gives up has nothing more to say.
  Run({Resume(40, 43, {0})});
  EXPECT_NE(Refusal().find("expects a backward pass that waits"), std::string::npos) << Refusal();
  output_.Clear();
  Run({command::AbandonPass{41}});
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
  Run({Resume(40, 41, {4})});  // nobody has looked yet
  EXPECT_NE(Refusal().find("functions to take at most 1ms"), std::string::npos) << Refusal();
  Run({GetGradOf(1, 60)});
  EXPECT_NE(LastError().find("has no gradient"), std::string::npos) << LastError();
}

TEST_F(FunctionTest, WithoutADeadlineAPassWaitsForEver) {
  SessionLimits limits;
  limits.function_deadline = std::chrono::milliseconds(0);
  Reset(limits);
  Leaf(1, {3});
  Upload(2, {9}, {1});
  Upload(4, {6}, {1});
  Run({Record(1, {1}, {2}), MayCall(BackwardOf({2}), 40)});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  session_->EndLatePasses();
  Run({Resume(40, 41, {4})});
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
}  // namespace chx::server
