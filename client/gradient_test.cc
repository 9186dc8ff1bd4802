// What the client knows about graphs without asking: the mirror, and the commands it sends.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "client/autograd.h"
#include "client/gradients.h"
#include "client/graph_mirror.h"
#include "client/modes.h"
#include "client/ops.h"
#include "client/testing/fake_daemon.h"
#include "proto/graph_state.h"

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
  template <typename C>
  std::vector<C> Sent() {
    EXPECT_TRUE(session_->Synchronize().ok());
    return daemon_.CommandsOf<C>();
  }

  static GraphState InDefaultGraph() {
    GraphState state;
    state.graphs.push_back(0);
    return state;
  }
  void AnswerStates(std::vector<GraphState> states) {
    daemon_.answer = [states = std::move(states)](const Command&, v1::FetchedValue* value) {
      value->set_data(EncodeGraphStates(states));
    };
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
  EXPECT_EQ(Sent<command::RequireGrad>().size(), 1u);
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
  const BackpropId id = session_->graphs().NewBackpropId("inner").value();
  const Array x = Leaf(id);
  const Array y = x * Leaf();
  EXPECT_TRUE(y.IsBackpropRequired(id));
  EXPECT_TRUE(y.IsBackpropRequired(0));
  EXPECT_FALSE(x.IsBackpropRequired(0));
  ASSERT_TRUE(Backward(y, {id}).ok());
  EXPECT_TRUE(x.HasGrad(id));
  EXPECT_FALSE(x.HasGrad(0));
  ASSERT_TRUE(session_->graphs().ReleaseBackpropId(id).ok());
  EXPECT_EQ(Sent<command::NewBackpropId>().size(), 1u);
  EXPECT_EQ(Sent<command::ReleaseBackpropId>().size(), 1u);
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
  const std::vector<command::Backward> sent = Sent<command::Backward>();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].outputs, Handles{loss.body()->handle});
  EXPECT_FALSE(sent[0].enable_double_backprop);
  EXPECT_EQ(sent[0].request_id, 0u);
}

TEST_F(GradientTest, AGraphOutlivesItsArrays) {
  const Array x = Leaf();
  Array y = x;
  for (int i = 0; i < 1000; ++i) y = y * 2.0;
  ASSERT_TRUE(Backward(y).ok());
  EXPECT_TRUE(x.HasGrad());
}

TEST_F(GradientTest, OutputsOutsideOfTheGraphArePassedOver) {
  EXPECT_TRUE(Backward(X()).ok());
  EXPECT_TRUE(Sent<command::Backward>().empty());
  const Array x = Leaf();
  const Array outputs[] = {X(), sum(x)};
  EXPECT_TRUE(Backward(outputs).ok());
  EXPECT_TRUE(x.HasGrad());
  const std::vector<command::Backward> sent = Sent<command::Backward>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].outputs, Handles{outputs[1].body()->handle});
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
  EXPECT_EQ(Sent<command::GetGrad>().size(), 1u);
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
  const std::vector<command::SetGrad> sent = Sent<command::SetGrad>();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].grad, grad.body()->handle);
  EXPECT_EQ(sent[1].grad, 0u);
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
  const auto grads = session_->gradients().Grad(outputs, inputs, {}, {});
  ASSERT_TRUE(grads.ok()) << grads.status();
  EXPECT_TRUE((*grads)[0]);
  EXPECT_FALSE((*grads)[1]);
  EXPECT_FALSE(x.HasGrad());
  const std::vector<command::Grad> sent = Sent<command::Grad>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].outputs, Handles{y.body()->handle});
  EXPECT_EQ(sent[0].inputs, (Handles{x.body()->handle, other.body()->handle}));
  EXPECT_EQ(sent[0].results, (Handles{(*grads)[0]->handle, 0}));
}

TEST_F(GradientTest, OnlyGradientsThatMayBeInAGraphAreAskedAbout) {
  const Array x = Leaf();
  const Array y = sum(x * x * x);
  ASSERT_TRUE(Backward(y).ok());
  EXPECT_FALSE(x.Grad().IsBackpropRequired());
  EXPECT_TRUE(Sent<command::QueryGraphs>().empty());
  ASSERT_TRUE(x.ClearGrad().ok());
  BackwardArgs args;
  args.enable_double_backprop = true;
  args.loss_scale = 8.0;
  ASSERT_TRUE(Backward(y, args).ok());
  const std::vector<command::Backward> sent = Sent<command::Backward>();
  EXPECT_TRUE(sent[1].enable_double_backprop);
  EXPECT_EQ(sent[1].loss_scale, 8.0);
  const Array gx = x.Grad();
  EXPECT_TRUE(Sent<command::QueryGraphs>().empty());
  {
    NoBackpropMode none;
    EXPECT_FALSE((gx * 2.0).IsBackpropRequired());
  }
  EXPECT_FALSE(greater(gx, 0.0).IsBackpropRequired());
  EXPECT_TRUE(Sent<command::QueryGraphs>().empty());
  AnswerStates({InDefaultGraph()});
  EXPECT_TRUE(gx.IsBackpropRequired());
  EXPECT_TRUE((gx * 2.0).IsBackpropRequired());
  EXPECT_EQ(Sent<command::QueryGraphs>().size(), 1u);
}

TEST_F(GradientTest, WhatADoubleBackpropReachesIsAskedOfTheDaemon) {
  const Array x = Leaf();
  const Array unused = Leaf();
  ArrayBody* const inputs[] = {x.body().get(), unused.body().get()};
  BackwardArgs args;
  args.enable_double_backprop = true;
  const Array y = sum(x * x);
  ArrayBody* const outputs[] = {y.body().get()};
  const auto first = session_->gradients().Grad(outputs, absl::MakeConstSpan(inputs, 1), {}, args);
  ASSERT_TRUE(first.ok()) << first.status();
  AnswerStates({InDefaultGraph()});
  const Array gx((*first)[0]);
  EXPECT_TRUE(gx.IsBackpropRequired());
  // The second pass goes through what the first one made: which inputs it reaches is not known.
  GraphState absent;
  absent.value = GraphState::Value::kNoGradient;
  AnswerStates({GraphState(), absent});
  ArrayBody* const grads[] = {gx.body().get()};
  const auto second = session_->gradients().Grad(grads, inputs, {}, {});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE((*second)[0]);
  EXPECT_FALSE((*second)[1]);
  // Nor is which leaves get a gradient. An old one counts if it is still the same.
  const Array old = X();
  ASSERT_TRUE(x.SetGrad(old).ok());
  ASSERT_TRUE(Backward(gx).ok());
  GraphState kept = InDefaultGraph();
  kept.has_grad = kept.same_grad = true;
  AnswerStates({kept});
  EXPECT_EQ(x.Grad().body(), old.body());
  AnswerStates({InDefaultGraph()});
  EXPECT_FALSE(unused.HasGrad());
  EXPECT_FALSE(unused.HasGrad());
  const std::vector<command::QueryGraphs> sent = Sent<command::QueryGraphs>();
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(sent[2].handles[0], x.body()->handle);
  EXPECT_EQ(sent[2].handles[1], old.body()->handle);
}

TEST_F(GradientTest, AnInnerGraphGoesBeforeTheOuterOnesThatItIsTiedTo) {
  const BackpropId outer = session_->graphs().NewBackpropId("outer").value();
  const BackpropId inner = session_->graphs().NewBackpropId("inner").value();
  const BackpropId apart = session_->graphs().NewBackpropId("apart").value();
  const Array y = Leaf(outer) * Leaf(inner);
  const Array z = Leaf(apart) * 2.0;
  ASSERT_TRUE(Backward(y, {outer}).ok());
  const absl::Status status = Backward(y, {inner});
  EXPECT_EQ(KindOf(status), ErrorKind::kChainerx);
  EXPECT_NE(status.message().find("'inner' because backprop ID 'outer'"), std::string::npos);
  EXPECT_TRUE(Backward(z, {apart}).ok());
  EXPECT_TRUE(Backward(y, {outer}).ok());
  // In the right order, with new graphs.
  const BackpropId last = session_->graphs().NewBackpropId("last").value();
  const Array v = Leaf(outer) * Leaf(last);
  EXPECT_TRUE(Backward(v, {last}).ok());
  EXPECT_TRUE(Backward(v, {outer}).ok());
  EXPECT_FALSE(Backward(v, {last}).ok());
}

TEST_F(GradientTest, ClosedGraphsAreErrorsAndForgotten) {
  Array x = X();
  for (int i = 0; i < 5; ++i) {
    const BackpropId id = session_->graphs().NewBackpropId().value();
    x.RequireGrad(id);
    ASSERT_TRUE(x.ok()) << x.status();
    ASSERT_TRUE(session_->graphs().ReleaseBackpropId(id).ok());
    EXPECT_FALSE(x.IsBackpropRequired(id));
    EXPECT_FALSE((x + 1.0).IsBackpropRequired(id));
    EXPECT_EQ(KindOf(x.SetGrad(X(), id)), ErrorKind::kChainerx);
    EXPECT_EQ(KindOf(Backward(x, {id})), ErrorKind::kChainerx);
    EXPECT_EQ(KindOf(X().RequireGrad(id).status()), ErrorKind::kChainerx);
    EXPECT_EQ(KindOf(session_->graphs().ReleaseBackpropId(id)), ErrorKind::kChainerx);
  }
  EXPECT_EQ(x.body()->memberships.size(), 1u);
  EXPECT_TRUE((x += 1.0).ok());  // what was the graph's is nobody's
  EXPECT_EQ(KindOf(session_->graphs().ReleaseBackpropId(0)), ErrorKind::kChainerx);
  EXPECT_EQ(Sent<command::ReleaseBackpropId>().size(), 5u);
}

TEST_F(GradientTest, GradOfArraysInAScope) {
  const Array x = X();
  BackpropId id = 0;
  {
    BackpropScope scope(*session_, "scope");
    ASSERT_TRUE(scope.status().ok()) << scope.status();
    id = scope.id();
    const Array leaf = x.AsGradStopped().RequireGrad(id);
    const Array y = leaf * leaf;
    EXPECT_FALSE((y * y.AsGradStopped({&id, 1})).AsGradStopped({&id, 1}).IsBackpropRequired(id));
    const Array inputs[] = {leaf, x};
    const auto grads = Grad({y}, inputs, {X()}, {id});
    ASSERT_TRUE(grads.ok()) << grads.status();
    EXPECT_TRUE((*grads)[0].ok());
    EXPECT_EQ(KindOf((*grads)[1].status()), ErrorKind::kGradient);
    EXPECT_EQ(KindOf(Grad({y}, inputs, {X(), X()}, {id}).status()), ErrorKind::kGradient);
    EXPECT_TRUE(y.Unchain(id).ok());
    EXPECT_FALSE((*Grad({y}, {leaf}, {}, {id}))[0].ok());
  }
  EXPECT_EQ(KindOf(Grad({x}, {x}, {}, {id}).status()), ErrorKind::kChainerx);
}

TEST_F(GradientTest, UnchainingMakesALeaf) {
  const Array x = Leaf();
  const Array y = x * 2.0;
  const Array z = y * 3.0;
  EXPECT_TRUE(session_->graphs().IsChained(y.body().get(), 0).value());
  ASSERT_TRUE(session_->graphs().Unchain(y.body().get(), 0).ok());
  ASSERT_TRUE(session_->graphs().Unchain(y.body().get(), 0).ok());
  EXPECT_FALSE(session_->graphs().IsChained(y.body().get(), 0).value());
  EXPECT_TRUE(y.IsBackpropRequired());
  EXPECT_FALSE(x.body()->MembershipIn(0)->node->creator);
  EXPECT_TRUE(x.body()->MembershipIn(0)->node->unique());  // nothing above keeps it
  ASSERT_TRUE(Backward(z).ok());
  EXPECT_FALSE(x.HasGrad());
  EXPECT_EQ(Sent<command::Unchain>().size(), 1u);
  EXPECT_EQ(KindOf(session_->graphs().Unchain(X().body().get(), 0)), ErrorKind::kChainerx);
}

TEST_F(GradientTest, MoreArraysThanACommandHoldsAreRefused) {
  const Array x = Leaf();
  const Array y = x * 2.0;
  const std::vector<Array> many(70000, x);
  const auto grads = Grad({y}, many);
  ASSERT_FALSE(grads.ok());
  EXPECT_EQ(KindOf(grads.status()), ErrorKind::kValue);
  const std::vector<Array> outputs(70000, y);
  EXPECT_EQ(KindOf(Backward(outputs)), ErrorKind::kValue);
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
  EXPECT_FALSE(copyto(y, x).ok());
  NoBackpropMode none;
  EXPECT_TRUE(copyto(y, x).ok());
  EXPECT_TRUE((y -= x).ok());
  EXPECT_TRUE((y /= 2.0).ok());
  EXPECT_FALSE(y.IsBackpropRequired());
  Array stopped = x.AsGradStopped();
  EXPECT_TRUE((stopped += 1.0).ok());
  EXPECT_TRUE(fill(stopped, Scalar(0.0)).ok());
  EXPECT_EQ(Sent<command::ApplyOp>().size(), 8u);  // x, y, view, and five writes
}

}  // namespace
}  // namespace chx
