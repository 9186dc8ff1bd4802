// What all optimizers of C++ share: parameters, hooks, state, and what they refuse.
#include <cmath>
#include <functional>

#include "client/autograd.h"
#include "client/optimizers.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

using ::testing::Test;

class OptimizerStateTest : public ClientTest {
 protected:
  // The gradient after `hook`, as SGD with lr 1 sees it: p - p_new.
  Vector GradAfter(optimizers::Hook hook, const Vector& param, const Vector& grad) {
    Array p = MakeParam(param);
    EXPECT_TRUE(p.SetGrad(Make(grad)).ok());
    optimizers::SGD sgd;
    sgd.lr = 1;
    EXPECT_TRUE(sgd.Setup({p}).ok());
    EXPECT_TRUE(sgd.AddHook("hook", std::move(hook)).ok());
    EXPECT_TRUE(sgd.Update().ok());
    Vector got = Values(p);
    for (size_t i = 0; i < got.size(); ++i) got[i] = param[i] - got[i];
    return got;
  }
  absl::Status Step(optimizers::Optimizer* optimizer, const Array& param, const Vector& grad) {
    const absl::Status set = param.SetGrad(Make(grad));
    return set.ok() ? optimizer->Update() : set;
  }
};

TEST_F(OptimizerStateTest, Hooks) {
  const Vector p = {3, -4};
  const Vector g = {0.6, 0.8};
  ExpectNear(GradAfter(optimizers::WeightDecay{0.1}, p, g), {0.9, 0.4}, 1e-12);
  ExpectNear(GradAfter(optimizers::Lasso{0.1}, p, g), {0.7, 0.7}, 1e-12);
  ExpectNear(GradAfter(optimizers::GradientClipping{0.5}, p, g), {0.3, 0.4}, 1e-12);
  ExpectNear(GradAfter(optimizers::GradientClipping{2}, p, g), g, 1e-12);
  ExpectNear(GradAfter(optimizers::GradientHardClipping{-1, 0.7}, p, g), {0.6, 0.7}, 1e-12);
  // |p| = 5, |g| = 1.
  const double rate = 5 / (1e-9 + 1 + 0.1 * 5);
  ExpectNear(GradAfter(optimizers::GradientLARS{1e-2, 0.1}, p, g),
             {rate * (0.6 + 0.3), rate * (0.8 - 0.4)}, 1e-12);
}

TEST_F(OptimizerStateTest, NoiseHasItsVariance) {
  session_->Seed(3);
  const size_t count = 20000;
  for (const int64_t t : {0, 9}) {
    const Vector noise =
        GradAfter(optimizers::GradientNoise{0.09, t}, Vector(count, 0), Vector(count, 0));
    double sum = 0, squares = 0;
    for (double x : noise) {
      sum += x;
      squares += x * x;
    }
    const double variance = 0.09 / std::pow(1.0 + static_cast<double>(t), 0.55);
    EXPECT_NEAR(sum / count, 0, 5 * std::sqrt(variance / count));
    EXPECT_NEAR(squares / count, variance, 5 * variance * std::sqrt(2.0 / count));
  }
}

TEST_F(OptimizerStateTest, AHookByReferenceCanChange) {
  Array p = MakeParam({1});
  optimizers::SGD sgd;
  sgd.lr = 1;
  ASSERT_OK(sgd.Setup({p}));
  optimizers::WeightDecay decay{0.5};
  ASSERT_OK(sgd.AddHook("decay", std::ref(decay)));
  EXPECT_EQ(KindOf(sgd.AddHook("decay", decay)), ErrorKind::kValue);
  ASSERT_OK(Step(&sgd, p, {0}));
  EXPECT_EQ(Values(p), Vector{0.5});
  decay.rate = 1;
  ASSERT_OK(Step(&sgd, p, {0}));
  EXPECT_EQ(Values(p), Vector{0});
  ASSERT_OK(sgd.RemoveHook("decay"));
  EXPECT_EQ(KindOf(sgd.RemoveHook("decay")), ErrorKind::kValue);
}

TEST_F(OptimizerStateTest, AFailedStepDoesNotCount) {
  Array p = MakeParam({1});
  optimizers::SGD sgd;
  ASSERT_OK(sgd.Setup({p}));
  ASSERT_OK(sgd.AddHook("refuse", [](auto, auto) { return absl::DataLossError("no"); }));
  EXPECT_TRUE(absl::IsDataLoss(Step(&sgd, p, {1})));
  EXPECT_EQ(sgd.t(), 0);
  EXPECT_EQ(Values(p), Vector{1});
}

TEST_F(OptimizerStateTest, UpdatesByGradientsOfBackward) {
  Array w = MakeParam({2, 3});
  Array unused = MakeParam({7});
  optimizers::MomentumSGD optimizer;
  optimizer.lr = 0.5;
  ASSERT_OK(optimizer.Setup({w, unused}));
  ASSERT_OK(Backward(sum(w * w)));
  ASSERT_OK(optimizer.Update());
  EXPECT_EQ(Values(w), (Vector{0, 0}));
  EXPECT_EQ(Values(unused), Vector{7});
  EXPECT_TRUE(w.HasGrad());
  ASSERT_OK(optimizer.ClearGrads());
  EXPECT_FALSE(w.HasGrad());
  // The parameter is a leaf as before.
  ASSERT_OK(Backward(sum(w)));
  EXPECT_EQ(Values(w.Grad()), (Vector{1, 1}));
}

TEST_F(OptimizerStateTest, AGradientInAGraphStaysAsItIs) {
  Array w = MakeParam({2});
  optimizers::SGD sgd;
  ASSERT_OK(sgd.Setup({w}));
  ASSERT_OK(sgd.AddHook("decay", optimizers::WeightDecay{1}));
  BackwardArgs args;
  args.enable_double_backprop = true;
  ASSERT_OK(Backward(sum(w * w * w), args));
  EXPECT_TRUE(w.Grad().IsBackpropRequired());
  ASSERT_OK(sgd.Update());
  ExpectNear(Values(w), {2 - 0.01 * (12 + 2)}, 1e-12);
}

TEST_F(OptimizerStateTest, AStepIsOneCommand) {
  std::vector<Array> params;
  for (int i = 0; i < 20; ++i) params.push_back(MakeParam({1.0 * i}));
  optimizers::Adam adam;
  ASSERT_OK(adam.Setup(params));
  std::vector<Array> grads;  // known here: nothing asks for them
  for (const Array& param : params) {
    grads.push_back(Make({1}));
    ASSERT_OK(param.SetGrad(grads.back()));
  }
  ASSERT_OK(adam.Update());  // makes the states
  const int64_t before = session_->stats().commands;
  ASSERT_OK(adam.Update());
  EXPECT_EQ(session_->stats().commands, before + 1);
}

TEST_F(OptimizerStateTest, StateComesBack) {
  const std::vector<Vector> grads = {{1, -2}, {0.5, 3}, {2, 1}};
  ArrayMap params = {{"w", MakeParam({1, 2})}};
  optimizers::AMSBound first;
  first.alpha = 0.1;
  ASSERT_OK(first.SetupNamed(params));
  first.alpha = 0.05;  // differs from the initial one
  ASSERT_OK(Step(&first, params["w"], grads[0]));
  ASSERT_OK(Step(&first, params["w"], grads[1]));
  const Vector middle = Values(params["w"]);
  absl::StatusOr<ArrayMap> state = first.State();
  ASSERT_OK(state.status());
  EXPECT_EQ(state->count("w/vhat"), 1u);
  EXPECT_EQ(*state->at("initial_alpha").Item(), 0.1);
  EXPECT_EQ(state->at("t").dtype(), Dtype::kInt64);
  EXPECT_EQ(*state->at("amsgrad").Item(), 1);

  ArrayMap others = {{"w", MakeParam(middle)}};
  optimizers::AMSBound second;
  ASSERT_OK(second.SetupNamed(others));
  ASSERT_OK(second.LoadState(*state));
  EXPECT_EQ(second.t(), 2);
  EXPECT_EQ(second.alpha, 0.05);
  ASSERT_OK(Step(&first, params["w"], grads[2]));  // not seen by the copies
  ASSERT_OK(Step(&second, others["w"], grads[2]));
  EXPECT_EQ(Values(others["w"]), Values(params["w"]));
}

TEST_F(OptimizerStateTest, RefusesAnotherState) {
  Array p = MakeParam({1, 2});
  optimizers::Adam adam;
  EXPECT_EQ(KindOf(adam.State().status()), ErrorKind::kValue);
  ASSERT_OK(adam.Setup({p}));
  ASSERT_OK(Step(&adam, p, {1, 1}));
  const absl::StatusOr<ArrayMap> state = adam.State();
  ASSERT_OK(state.status());
  adam.alpha = 0.7;
  for (const char* name : {"t", "alpha", "0/m"}) {
    ArrayMap without = *state;
    without.erase(name);
    EXPECT_EQ(KindOf(adam.LoadState(without)), ErrorKind::kValue) << name;
  }
  ArrayMap more = *state;
  more["1/m"] = Make({1});
  EXPECT_EQ(KindOf(adam.LoadState(more)), ErrorKind::kValue);
  ArrayMap shape = *state;
  shape["0/m"] = Make({1, 2, 3});
  EXPECT_EQ(KindOf(adam.LoadState(shape)), ErrorKind::kDimension);
  optimizers::SGD sgd;
  ASSERT_OK(sgd.Setup({p}));
  EXPECT_EQ(KindOf(sgd.LoadState(*state)), ErrorKind::kValue);
  EXPECT_EQ(adam.alpha, 0.7);  // nothing has changed
  EXPECT_EQ(adam.t(), 1);
}

TEST_F(OptimizerStateTest, RefusesWhatRequiresNoGradient) {
  optimizers::SGD sgd;
  EXPECT_EQ(KindOf(sgd.Setup({Make({1})})), ErrorKind::kValue);
  EXPECT_FALSE(sgd.Setup({Array(absl::DataLossError("gone"))}).ok());
}

}  // namespace
}  // namespace chx
