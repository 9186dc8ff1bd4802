// Several graphs in a session, what clients may ask about them, and that what is cut is freed.
#include <utility>

#include "absl/strings/match.h"
#include "ops/error.h"
#include "proto/graph_state.h"
#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

using Floats = std::vector<float>;

class GraphTest : public SessionTest {
 protected:
  void Leaf(Handle handle, Floats values, BackpropId id = 0) {
    const int64_t size = static_cast<int64_t>(values.size());
    Upload(handle, std::move(values), {size});
    Run({command::RequireGrad{handle, id}});
  }
  GraphState StateOf(Handle handle, Handle grad = 0, BackpropId id = 0) {
    Run({command::QueryGraphs{0, id, {handle, grad}}});
    const auto states = DecodeGraphStates(output_.values.back().data);
    if (!states.ok() || states->size() != 1) {
      ADD_FAILURE() << states.status();
      return {};
    }
    return (*states)[0];
  }
  std::string DumpOf(Handle handle) {
    Run({command::DumpGraph{0, handle}});
    return output_.values.back().data;
  }
  Floats GradIn(BackpropId id, Handle handle) {
    const Handle grad = next_++;
    Run({In(id, GetGradOf(handle, grad))});
    return Fetch(grad);
  }
  int64_t Memory() { return session_->stats().array_bytes; }
  Handle next_ = 1000;
};

TEST_F(GraphTest, AnInnerPassIsPartOfTheOuterGraphAndNotTheOtherWayRound) {
  const BackpropId outer = 3, inner = 5;
  Run({command::NewBackpropId{outer}, command::NewBackpropId{inner}});
  Leaf(1, {2}, inner);
  Leaf(2, {3}, outer);
  // y = x (x + z); dy/dx = 2x + z, which is in the outer graph; d(x dy/dx)/dz = x.
  Run({Op("add", {A(1), A(2)}, {3}), Op("multiply", {A(1), A(3)}, {4}), In(inner, BackwardOf({4})),
       In(inner, GetGradOf(1, 5))});
  EXPECT_EQ(Fetch(5), Floats{7});
  ASSERT_EQ(StateOf(5).graphs.size(), 1u);
  EXPECT_EQ(StateOf(5).graphs[0], outer);
  Run({Op("multiply", {A(1), A(5)}, {6}), In(outer, BackwardOf({6}))});
  EXPECT_EQ(GradIn(outer, 2), Floats{2});
  Run({In(outer, GradOf({4}, {2}, {7}))});
  EXPECT_TRUE(StateOf(7).graphs.empty());
}

TEST_F(GraphTest, DoubleBackpropConnectsExactlyWhatDepends) {
  Leaf(1, {2});
  Leaf(2, {5});
  command::Grad grad = GradOf({4}, {1, 2}, {5, 6});
  grad.enable_double_backprop = true;
  // y = x * w + x: dy/dx = w + 1, dy/dw = x.
  Run({Op("multiply", {A(1), A(2)}, {3}), Op("add", {A(3), A(1)}, {4}), grad,
       GradOf({5}, {1, 2}, {7, 8})});
  EXPECT_EQ(StateOf(5).graphs.size(), 1u);
  EXPECT_EQ(StateOf(7).value, GraphState::Value::kNoGradient);
  EXPECT_EQ(StateOf(8).value, GraphState::Value::kArray);
  EXPECT_TRUE(StateOf(8).graphs.empty());
  EXPECT_EQ(Fetch(8), Floats{1});
  EXPECT_EQ(StateOf(99).value, GraphState::Value::kError);
}

TEST_F(GraphTest, TheStateTellsWhetherAGradientIsStillTheSame) {
  Leaf(1, {3});
  Run({Op("square", {A(1)}, {2})});
  EXPECT_FALSE(StateOf(1).has_grad);
  Run({BackwardOf({2}), GetGradOf(1, 3)});
  EXPECT_TRUE(StateOf(1, 3).has_grad);
  EXPECT_TRUE(StateOf(1, 3).same_grad);
  EXPECT_FALSE(StateOf(1, 2).same_grad);
  Run({BackwardOf({2})});
  EXPECT_TRUE(StateOf(1, 3).has_grad);
  EXPECT_FALSE(StateOf(1, 3).same_grad);
  Run({command::QueryGraphs{0, 0, {1}}});
  EXPECT_NE(output_.values.back().error, nullptr);
}

TEST_F(GraphTest, GradStartsFromWhatTheOutputHas) {
  Leaf(1, {3});
  Upload(2, {10}, {1});
  Upload(3, {100}, {1});
  const command::SetGrad set{4, 2};
  command::Grad given = GradOf({4}, {1}, {6});
  given.output_grads = {3};
  Run({Op("square", {A(1)}, {4}), set, GradOf({4}, {1}, {5}), given});
  EXPECT_EQ(Fetch(5), Floats{60});
  EXPECT_EQ(Fetch(6), Floats{600});
}

TEST_F(GraphTest, RetainedGradientsAreThoseOnTheWay) {
  Leaf(1, {3});
  Leaf(2, {5});
  command::Grad grad = GradOf({5}, {1}, {6});
  grad.retain_grad = true;
  grad.loss_scale = 4;
  // y = 2x * w; s = y * y.
  Run({Op("multiply", {A(1), S(2.0)}, {3}), Op("multiply", {A(3), A(2)}, {4}),
       Op("square", {A(4)}, {5}), grad});
  EXPECT_EQ(Fetch(6), Floats{600});
  EXPECT_EQ(GradIn(0, 3), Floats{300});
  EXPECT_EQ(GradIn(0, 4), Floats{60});
  EXPECT_EQ(GradIn(0, 5), Floats{1});
  EXPECT_FALSE(StateOf(1).has_grad);
  EXPECT_FALSE(StateOf(2).has_grad);
}

TEST_F(GraphTest, ResultsOfGradShareNoMemory) {
  Leaf(1, {1, 2});
  Leaf(2, {3, 4});
  Upload(3, {5, 6}, {2});
  command::Grad grad = GradOf({5}, {1, 2, 1}, {6, 7, 8});
  grad.output_grads = {3};
  grad.retain_grad = true;
  Run({Op("add", {A(1), A(2)}, {4}), Op("add", {A(4), S(1)}, {5}), grad, GetGradOf(4, 9),
       GetGradOf(5, 10)});
  for (Handle handle : {6, 7, 8, 9, 10}) {
    Run({Op("multiply_", {A(handle), S(static_cast<double>(handle))}, {})});
  }
  EXPECT_EQ(Fetch(3), (Floats{5, 6}));
  for (int handle = 6; handle <= 10; ++handle) {
    const float scale = static_cast<float>(handle);
    EXPECT_EQ(Fetch(static_cast<Handle>(handle)), (Floats{5 * scale, 6 * scale}));
  }
}

TEST_F(GraphTest, GradComputesOnlyWhatLiesBetween) {
  Leaf(1, {1});
  Leaf(2, Floats(1 << 20, 1.0f));
  // The gradient of 2 would be 4 MiB.
  Run({Op("sum", {A(2)}, {3}, {AttrValue(), AttrValue(false), AttrValue()}),
       Op("multiply", {A(1), A(3)}, {4})});
  const int64_t before = Memory();
  Run({GradOf({4}, {1}, {5})});
  EXPECT_EQ(Fetch(5), Floats{1 << 20});
  EXPECT_EQ(Memory(), before);
  Run({GradOf({4}, {2}, {6})});
  EXPECT_EQ(StateOf(6).value, GraphState::Value::kArray);
  EXPECT_GT(Memory(), before);
}

TEST_F(GraphTest, UnchainingFreesWhatLiesBelow) {
  SessionLimits limits;
  limits.memory_bytes = 24 << 20;
  Reset(limits);
  const int64_t size = 1 << 20;  // 4 MiB
  const AttrValue shape(Ints{size}), dtype(Dtype::kFloat32);
  Run({Op("ones", {}, {1}, {shape, dtype}), command::RequireGrad{1}});
  // Each y keeps its factors: without cuts the second round would already be too much.
  for (int round = 0; round < 10; ++round) {
    const Handle first = 10 + 10 * static_cast<Handle>(round);
    Run({Op("multiply", {A(1), A(1)}, {first}), Op("multiply", {A(first), A(first)}, {first + 1}),
         ReleaseOf({first}), command::Unchain{first + 1},
         Op("multiply", {A(first + 1), S(2.0)}, {first + 2}), BackwardOf({first + 2}),
         ReleaseOf({first + 1, first + 2})});
    ASSERT_TRUE(output_.errors.empty()) << LastError();
  }
  EXPECT_FALSE(StateOf(1).has_grad);
  Run({command::Unchain{1}});
  EXPECT_TRUE(output_.errors.empty());
  Upload(2, {1}, {1});
  Run({command::Unchain{2}});
  EXPECT_EQ(KindOf(output_.errors.back().error->status), ErrorKind::kChainerx);
}

TEST_F(GraphTest, ASiblingOutputOutlivesAnUnchainedOne) {
  Leaf(1, {1, 2, 3, 4});
  Run({Op("split", {A(1)}, {2, 3}, {AttrValue(int64_t{2}), AttrValue(), AttrValue(int64_t{0})}),
       command::Unchain{2}, BackwardOf({2, 3})});
  EXPECT_EQ(GradIn(0, 1), (Floats{0, 0, 1, 1}));
}

TEST_F(GraphTest, AClosedGraphKeepsNothing) {
  SessionLimits limits;
  limits.memory_bytes = 40 << 20;  // a round takes 28 MiB, and would leave 4
  Reset(limits);
  const AttrValue shape(Ints{1 << 20}), dtype(Dtype::kFloat32);
  Run({Op("ones", {}, {1}, {shape, dtype})});
  for (BackpropId id = 1; id <= 10; ++id) {
    const Handle first = 10 * id;
    Run({command::NewBackpropId{id}, command::RequireGrad{1, id},
         Op("multiply", {A(1), A(1)}, {first}), Op("multiply", {A(first), A(first)}, {first + 1}),
         In(id, BackwardOf({first + 1})), ReleaseOf({first}), command::ReleaseBackpropId{id},
         ReleaseOf({first + 1})});
    ASSERT_TRUE(output_.errors.empty()) << LastError();
  }
  EXPECT_TRUE(StateOf(1).graphs.empty());
  Run({In(10, BackwardOf({1}))});
  EXPECT_TRUE(absl::StrContains(LastError(), "expired"));
}

TEST_F(GraphTest, AGraphThatStaysOpenIsLeftByAllItsArrays) {
  Run({command::NewBackpropId{1}});
  Leaf(1, {1}, 1);
  Leaf(2, {1}, 1);
  for (Handle handle = 10; handle < 1000; ++handle) {
    Run({Op("add", {A(1), A(2)}, {handle}), ReleaseOf({handle})});
  }
  Run({Op("add", {A(1), A(2)}, {3}), command::ReleaseBackpropId{1}});
  for (Handle handle : {1, 2, 3}) EXPECT_TRUE(StateOf(handle).graphs.empty());
  EXPECT_TRUE(output_.errors.empty());
  // In place again.
  Run({Op("add_", {A(1), S(1)}, {})});
  EXPECT_EQ(Fetch(1), Floats{2});
}

TEST_F(GraphTest, ADumpNamesNodesAndOperators) {
  Leaf(1, {1, 2});
  Run({Op("multiply", {A(1), A(1)}, {2}),
       Op("sum", {A(2)}, {3}, {AttrValue(), AttrValue(false), AttrValue()}), ReleaseOf({2})});
  EXPECT_EQ(DumpOf(3),
            "%0 float32() = sum(%1)\n"
            "%1 float32(2,) = multiply(%2, %2), released\n"
            "%2 float32(2,), requires grad\n");
  SessionLimits limits;
  limits.max_inline_bytes = 200;
  Reset(limits);
  Leaf(1, {1});
  for (Handle handle = 2; handle < 1000; ++handle) {
    Run({Op("add", {A(handle - 1), S(1)}, {handle})});
  }
  const std::string text = DumpOf(999);
  EXPECT_LE(text.size(), 200u);
  EXPECT_TRUE(absl::EndsWith(text, "...\n")) << text;
}

}  // namespace
}  // namespace chx::server
