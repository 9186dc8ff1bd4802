// Gradients through a session: accumulation, double backprop, lifetime, and everything refused.
#include <utility>

#include "base/sanitizers.h"
#include "ops/error.h"
#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

using Floats = std::vector<float>;

class BackwardTest : public SessionTest {
 protected:
  void Leaf(Handle handle, Floats values, std::vector<int64_t> shape) {
    Upload(handle, std::move(values), std::move(shape));
    Run({command::RequireGrad{handle}});
  }
  Floats Grad(Handle handle, RootErrorPtr* error = nullptr) {
    const Handle grad = next_grad_++;
    Run({GetGradOf(handle, grad)});
    Floats values = Fetch(grad, error);
    Run({ReleaseOf({grad})});
    return values;
  }
  Handle next_grad_ = 100000;
};

TEST_F(BackwardTest, BroadcastGradientsAreSummedBack) {
  Leaf(1, {1, 2, 3}, {3});
  Upload(2, {1, 10, 100, 1000, 10000, 100000}, {2, 3});
  Run({Op("multiply", {A(1), A(2)}, {3}), BackwardOf({3})});
  EXPECT_EQ(Grad(1), (Floats{1001, 10010, 100100}));
}

TEST_F(BackwardTest, GradientsAccumulateAndTheOldOneKeepsItsValue) {
  Leaf(1, {3}, {1});
  Run({Op("multiply", {A(1), A(1)}, {2}), BackwardOf({2}), GetGradOf(1, 50), BackwardOf({2})});
  EXPECT_EQ(Fetch(50), Floats{6});
  EXPECT_EQ(Grad(1), Floats{12});
  Run({BackwardOf({2})});
  EXPECT_EQ(Grad(1), Floats{18});
}

TEST_F(BackwardTest, BothLeavesOfAnAddOwnTheirGradients) {
  Leaf(1, {3}, {1});
  Leaf(2, {4}, {1});
  Run({Op("add", {A(1), A(2)}, {3}), BackwardOf({3}), BackwardOf({3})});
  EXPECT_EQ(Grad(1), Floats{2});
  EXPECT_EQ(Grad(2), Floats{2});
}

TEST_F(BackwardTest, SharedSubexpressions) {
  Leaf(1, {2}, {1});
  // y = x^2; z = y * y + y  ->  dz/dx = (2y + 1) 2x = 9 * 4.
  Run({Op("multiply", {A(1), A(1)}, {2}), Op("multiply", {A(2), A(2)}, {3}),
       Op("add", {A(3), A(2)}, {4}), ReleaseOf({2, 3}), BackwardOf({4})});
  EXPECT_EQ(Grad(1), Floats{36});
}

TEST_F(BackwardTest, ReleasedInputsThatTheGradientNeedsKeepTheirValues) {
  Leaf(1, {2, 3}, {2});
  Upload(2, {10, 20}, {2});
  // In one window: the constant is released right after its last use by a command.
  Run({Op("multiply", {A(1), A(2)}, {3}), ReleaseOf({2}), BackwardOf({3})});
  EXPECT_EQ(Grad(1), (Floats{10, 20}));
}

TEST_F(BackwardTest, DoubleBackprop) {
  Leaf(1, {2}, {1});
  // y = x^3: y' = 12, y'' = 12.
  Run({Op("multiply", {A(1), A(1)}, {2}), Op("multiply", {A(2), A(1)}, {3}), BackwardOf({3}, true),
       GetGradOf(1, 4)});
  EXPECT_EQ(Fetch(4), Floats{12});
  const command::SetGrad clear{1};
  Run({clear, BackwardOf({4})});
  EXPECT_EQ(Grad(1), Floats{12});
}

TEST_F(BackwardTest, GradLeavesLeavesAlone) {
  Leaf(1, {2}, {1});
  Leaf(2, {5}, {1});
  Run({Op("multiply", {A(1), A(1)}, {3})});
  Run({GradOf({3}, {1, 2}, {10, 0})});
  EXPECT_EQ(Fetch(10), Floats{4});
  RootErrorPtr error;
  Grad(1, &error);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(KindOf(error->status), ErrorKind::kGradient);
}

TEST_F(BackwardTest, ModesStopRecordingPerGraph) {
  Leaf(1, {2}, {1});
  command::ApplyOp square = Op("square", {A(1)}, {2});
  square.mode = 1;
  Run({command::NewBackpropId{3}, command::RequireGrad{1, 3},
       command::DefineMode{1, true, {{0, false}}}, square, BackwardOf({2})});
  EXPECT_TRUE(output_.errors.empty());
  RootErrorPtr error;
  Grad(1, &error);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(KindOf(error->status), ErrorKind::kGradient);
  Run({In(3, BackwardOf({2})), In(3, GetGradOf(1, 60))});
  EXPECT_EQ(Fetch(60), Floats{4});
}

TEST_F(BackwardTest, LossScaleDividesItselfOut) {
  Leaf(1, {3}, {1});
  command::Backward backward = BackwardOf({2});
  backward.loss_scale = 1024;
  Run({Op("square", {A(1)}, {2}), backward});
  EXPECT_EQ(Grad(1), Floats{6});
}

TEST_F(BackwardTest, DeepGraphsAreFreedWithoutRecursion) {
  Leaf(1, {1}, {1});
  Handle last = 1;
  for (int i = 0; i < Rounds(500000); ++i) {
    const Handle next = last + 1;
    std::vector<Command> commands = {Op("add", {A(last), S(1)}, {next})};
    if (last != 1) commands.push_back(ReleaseOf({last}));
    Run(std::move(commands));
    last = next;
  }
  Run({BackwardOf({last})});
  EXPECT_EQ(Grad(1), Floats{1});
  Run({ReleaseOf({last})});
  EXPECT_EQ(Fetch(1), Floats{1});
}

TEST_F(BackwardTest, GraphsAreBounded) {
  SessionLimits limits;
  limits.memory_bytes = 2 << 20;  // 2048 op nodes
  Reset(limits);
  Leaf(1, {1}, {1});
  for (Handle handle = 2; handle < 3000; ++handle) {
    Run({Op("add", {A(handle - 1), S(1)}, {handle})});
  }
  EXPECT_EQ(KindOf(output_.errors.front().error->status), ErrorKind::kMemory);
}

TEST_F(BackwardTest, ErrorsStopAtBackward) {
  Leaf(1, {1, 2}, {2});
  Upload(2, {1, 2, 3}, {3});
  Run({Op("add", {A(1), A(2)}, {3}), BackwardOf({3})});
  EXPECT_EQ(KindOf(output_.errors.back().error->status), ErrorKind::kDimension);
  Run({BackwardOf({77})});
  EXPECT_NE(LastError().find("expects a handle of this session, got 77"), std::string::npos);
  Run({command::SetGrad{1, 2}});
  EXPECT_EQ(KindOf(output_.errors.back().error->status), ErrorKind::kGradient);
}

}  // namespace
}  // namespace chx::server
