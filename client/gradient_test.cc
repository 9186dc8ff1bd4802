// What the client knows about graphs without asking: the mirror, and the commands it sends.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "client/modes.h"
#include "client/ops.h"
#include "client/testing/fake_daemon.h"

namespace chx {
namespace {

class GradientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<Ref<Session>> session = Session::Connect(daemon_.address());
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  Array X(Dtype dtype = Dtype::kFloat32) { return zeros(*session_, {2, 3}, dtype); }
  Array Leaf(BackpropId id = 0) { return X().RequireGrad(id); }
  std::vector<Command> Sent(CommandKind kind) {
    EXPECT_TRUE(session_->Synchronize().ok());
    return daemon_.Commands(kind);
  }

  FakeDaemon daemon_;
  Ref<Session> session_;
};

TEST_F(GradientTest, FloatOutputsOfConnectedInputsAreConnected) {
  const Array x = Leaf();
  EXPECT_TRUE(x.IsBackpropRequired());
  EXPECT_FALSE(X().IsBackpropRequired());
  EXPECT_TRUE((x + X()).IsBackpropRequired());
  EXPECT_TRUE((X() * x).IsBackpropRequired());
  EXPECT_FALSE((X() * X()).IsBackpropRequired());
  EXPECT_FALSE(greater(x, 0.0).IsBackpropRequired());  // bool
  EXPECT_FALSE(astype(x, Dtype::kInt32).IsBackpropRequired());
  EXPECT_TRUE(astype(x, Dtype::kFloat64).IsBackpropRequired());
  EXPECT_FALSE(argmax(x).IsBackpropRequired());
  EXPECT_FALSE(x.AsGradStopped().IsBackpropRequired());
  for (const Array& part : split(x, 3, absl::nullopt, 1)) EXPECT_TRUE(part.IsBackpropRequired());
}

TEST_F(GradientTest, OnlyFloatArraysRequireGrad) {
  Array x = X(Dtype::kInt64);
  EXPECT_EQ(KindOf(x.RequireGrad().status()), ErrorKind::kDtype);
}

TEST_F(GradientTest, RequireGradIsSentOnce) {
  Array x = Leaf();
  x.RequireGrad();
  EXPECT_EQ(Sent(CommandKind::kRequireGrad).size(), 1u);
}

TEST_F(GradientTest, ModesDecideWhatIsRecorded) {
  const Array x = Leaf();
  Array y, z;
  {
    NoBackpropMode none;
    EXPECT_FALSE(x.IsBackpropRequired());
    y = x + 1.0;
    ForceBackpropMode force;
    z = x + 1.0;
  }
  EXPECT_FALSE(y.IsBackpropRequired());
  EXPECT_TRUE(z.IsBackpropRequired());
}

TEST_F(GradientTest, GraphsAreApart) {
  const BackpropId id = session_->NewBackpropId();
  const Array x = Leaf(id);
  const Array y = x * Leaf();
  EXPECT_TRUE(y.IsBackpropRequired(id));
  EXPECT_TRUE(y.IsBackpropRequired(0));
  EXPECT_FALSE(x.IsBackpropRequired(0));
  ASSERT_TRUE(Backward(y, {id}).ok());
  EXPECT_TRUE(x.HasGrad(id));
  EXPECT_FALSE(x.HasGrad(0));
  session_->ReleaseBackpropId(id);
  EXPECT_EQ(Sent(CommandKind::kNewBackpropId).size(), 1u);
  EXPECT_EQ(Sent(CommandKind::kReleaseBackpropId).size(), 1u);
}

TEST_F(GradientTest, BackwardReachesLeavesAndWhatRequiresGradOnTheWay) {
  Array x = Leaf();
  const Array other = Leaf();
  Array kept = x * 2.0;
  kept.RequireGrad();
  const Array passing = exp(kept);
  Array loss = sum(passing);
  ASSERT_TRUE(Backward(loss).ok());
  EXPECT_TRUE(x.HasGrad());
  EXPECT_TRUE(kept.HasGrad());
  EXPECT_FALSE(passing.HasGrad());
  EXPECT_FALSE(loss.HasGrad());
  EXPECT_FALSE(other.HasGrad());
  ASSERT_TRUE(Backward(loss).ok());  // the graph is kept
  const std::vector<Command> sent = Sent(CommandKind::kBackward);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].handles.size(), 1u);
  EXPECT_EQ(sent[0].handles[0], loss.body()->handle);
  EXPECT_EQ(sent[0].flags, 0);
}

TEST_F(GradientTest, AGraphOutlivesItsArrays) {
  const Array x = Leaf();
  Array y = x;
  for (int i = 0; i < 1000; ++i) y = y * 2.0;
  ASSERT_TRUE(Backward(y).ok());
  EXPECT_TRUE(x.HasGrad());
}

TEST_F(GradientTest, BackwardNeedsAGraph) {
  const absl::Status status = Backward(X());
  EXPECT_EQ(KindOf(status), ErrorKind::kChainerx);
  EXPECT_EQ(status.message(),
            "Cannot start backprop from an array whose gradient is not required (on graph "
            "'<default>')");
  EXPECT_TRUE(Sent(CommandKind::kBackward).empty());
}

TEST_F(GradientTest, AGradientIsOneObjectUntilItChanges) {
  const Array x = Leaf();
  const Array loss = sum(x * x);
  EXPECT_FALSE(x.Grad().ok());
  ASSERT_TRUE(Backward(loss).ok());
  const Array first = x.Grad();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first.body(), x.Grad().body());
  EXPECT_EQ(first.spec().ToString(), x.spec().ToString());
  EXPECT_EQ(Sent(CommandKind::kGetGrad).size(), 1u);
  ASSERT_TRUE(Backward(loss).ok());
  EXPECT_NE(first.body(), x.Grad().body());
}

TEST_F(GradientTest, SetAndClear) {
  const Array x = Leaf();
  const Array grad = X();
  ASSERT_TRUE(x.SetGrad(grad).ok());
  EXPECT_TRUE(x.HasGrad());
  EXPECT_EQ(x.Grad().body(), grad.body());
  ASSERT_TRUE(x.ClearGrad().ok());
  EXPECT_FALSE(x.HasGrad());
  const std::vector<Command> sent = Sent(CommandKind::kSetGrad);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].operands[0].handle, grad.body()->handle);
  EXPECT_TRUE(sent[1].operands.empty() || sent[1].operands[0].kind == OperandKind::kAbsent);
  EXPECT_EQ(KindOf(x.SetGrad(zeros(*session_, {3}))), ErrorKind::kGradient);
  EXPECT_EQ(KindOf(x.SetGrad(X(Dtype::kFloat64))), ErrorKind::kGradient);
  EXPECT_EQ(KindOf(X().SetGrad(grad)), ErrorKind::kChainerx);
}

TEST_F(GradientTest, GradAsksOnlyForWhatIsReachable) {
  const Array x = Leaf();
  const Array other = Leaf();
  const Array y = x * 3.0;
  ArrayBody* const outputs[] = {y.body().get()};
  ArrayBody* const inputs[] = {x.body().get(), other.body().get()};
  const auto grads = session_->Grad(outputs, inputs, {}, {});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_TRUE((*grads)[0]);
  EXPECT_FALSE((*grads)[1]);
  EXPECT_FALSE(x.HasGrad());
  const std::vector<Command> sent = Sent(CommandKind::kGrad);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].num_outputs, 1u);
  EXPECT_EQ(sent[0].handles.size(), 3u);
  EXPECT_EQ(sent[0].outputs[0], (*grads)[0]->handle);
  EXPECT_EQ(sent[0].outputs[1], 0u);
}

TEST_F(GradientTest, GradientsJoinTheGraphUnderDoubleBackpropOnly) {
  const Array x = Leaf();
  const Array y = sum(x * x * x);
  ASSERT_TRUE(Backward(y).ok());
  EXPECT_FALSE(x.Grad().IsBackpropRequired());
  ASSERT_TRUE(x.ClearGrad().ok());
  BackwardArgs args;
  args.enable_double_backprop = true;
  args.loss_scale = 8.0;
  ASSERT_TRUE(Backward(y, args).ok());
  const Array gx = x.Grad();
  EXPECT_TRUE(gx.IsBackpropRequired());
  ASSERT_TRUE(x.ClearGrad().ok());
  ASSERT_TRUE(Backward(sum(gx)).ok());
  EXPECT_TRUE(x.HasGrad());
  const std::vector<Command> sent = Sent(CommandKind::kBackward);
  EXPECT_EQ(sent[1].flags, Command::kEnableDoubleBackprop | Command::kHasLossScale);
  EXPECT_EQ(sent[1].loss_scale, 8.0);
}

TEST_F(GradientTest, WritesToArraysInAGraphAreRefused) {
  Array x = Leaf();
  const absl::Status status = x += 1.0;
  EXPECT_EQ(KindOf(status), ErrorKind::kChainerx);
  EXPECT_EQ(status.message(), "In-place assignment to output array requiring grad is not allowed.");
  {
    NoBackpropMode none;  // the node counts, not the mode
    EXPECT_FALSE((x *= 2.0).ok());
  }
  Array y = X();
  EXPECT_FALSE((y -= x).ok());
  NoBackpropMode none;
  EXPECT_TRUE((y -= x).ok());
  EXPECT_TRUE((y /= 2.0).ok());
  EXPECT_FALSE(y.IsBackpropRequired());
  Array stopped = x.AsGradStopped();
  EXPECT_TRUE((stopped += 1.0).ok());
  EXPECT_TRUE(fill(stopped, Scalar(0.0)).ok());
  EXPECT_EQ(Sent(CommandKind::kApplyOp).size(), 7u);  // x, y, view, and four writes
}

}  // namespace
}  // namespace chx
