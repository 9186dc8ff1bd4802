// Gradients, graphs and backprop modes.
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/chainerx/chainerx_fixture.h"

namespace chainerx {
namespace {

using Arrays = std::vector<Array>;

class BackpropTest : public ChainerxTest {};

TEST_F(BackpropTest, BackwardAddsGradients) {
  const Array x = Floats({2}, {1, 2});
  x.RequireGrad();
  EXPECT_TRUE(x.IsGradRequired());
  EXPECT_TRUE(x.IsBackpropRequired());
  EXPECT_TRUE(x.IsBackpropRequired(AnyGraph{}));
  EXPECT_FALSE(x.GetGrad().has_value());
  Backward((x * x).Sum());
  const Array& grad = *x.GetGrad();  // a reference, as in ChainerX
  ExpectArray(grad, {2}, {2, 4});
  Backward((x * x).Sum());
  ExpectArray(*x.GetGrad(), {2}, {4, 8});
  x.ClearGrad();
  EXPECT_FALSE(x.GetGrad().has_value());
  x.SetGrad(Floats({2}, {5, 6}));
  ExpectArray(*x.GetGrad(), {2}, {5, 6});
  const Array sum = x.Sum();
  const Array twice = (2 * x).Sum();
  Backward({sum, twice}, absl::nullopt, DoubleBackpropOption::kDisable, 2.F);
  ExpectArray(*x.GetGrad(), {2}, {8, 9});  // the scale is taken out again
}

TEST_F(BackpropTest, ErrorsOfGradients) {
  const Array x = Floats({2}, {1, 2});
  EXPECT_THROW(Backward(x), ChainerxError);
  EXPECT_THROW(x.GetGrad(), ChainerxError);
  EXPECT_THROW(x.SetGrad(x), ChainerxError);
  EXPECT_THROW(Backward(std::vector<ConstArrayRef>{}), ValueError);
  x.RequireGrad();
  EXPECT_THROW(x.SetGrad(Floats({3}, {1, 2, 3})), GradientError);
  EXPECT_THROW((x * 2) += 1, ChainerxError);  // in a graph
}

TEST_F(BackpropTest, UpdatesInPlaceOutsideOfTheGraph) {
  Array w = Floats({2}, {1, 2}).RequireGrad();
  Backward((w * w).Sum());
  Array values = w.AsGradStopped();
  EXPECT_FALSE(values.IsBackpropRequired());
  values -= w.GetGrad()->AsGradStopped() * 0.25;
  ExpectArray(w, {2}, {0.5, 1});
  const Array copy = w.AsGradStopped(CopyKind::kCopy);
  copy += 1;
  ExpectArray(w, {2}, {0.5, 1});
}

TEST_F(BackpropTest, GradLeavesGradientsAlone) {
  const Array x = Floats({2}, {1, 2}).RequireGrad();
  const Array other = Floats({2}, {1, 2}).RequireGrad();
  const Array y = x * x;
  const Array gy = Floats({2}, {1, 10});
  const auto grads =
      Grad({y}, {x, other}, absl::nullopt, DoubleBackpropOption::kDisable, false, false, {gy});
  ASSERT_EQ(grads.size(), 2U);
  ExpectArray(*grads[0], {2}, {2, 40});
  EXPECT_FALSE(grads[1].has_value());
  EXPECT_FALSE(x.GetGrad().has_value());
  Grad({y}, {x}, absl::nullopt, DoubleBackpropOption::kDisable, true);
  ExpectArray(*x.GetGrad(), {2}, {2, 4});
}

TEST_F(BackpropTest, DoubleBackprop) {
  const Array x = Doubles({2}, {2, 3}).RequireGrad();
  Backward(Power(x, 3).Sum(), absl::nullopt, DoubleBackpropOption::kEnable);
  const Array gx = *x.GetGrad();
  ExpectArray(gx, {2}, {12, 27});
  EXPECT_TRUE(gx.IsBackpropRequired());
  x.ClearGrad();
  Backward(gx.Sum());
  ExpectArray(*x.GetGrad(), {2}, {12, 18});
}

TEST_F(BackpropTest, ScopesOfGraphs) {
  const Array x = Doubles({1}, {3});
  x.RequireGrad();
  BackpropScope outer("outer");
  EXPECT_EQ(outer.backprop_id().GetName(), "outer");
  x.RequireGrad(outer.backprop_id());
  {
    BackpropScope inner("inner");
    EXPECT_TRUE(outer.backprop_id() < inner.backprop_id());
    EXPECT_EQ(context_->GetInnerBackpropIds(outer.backprop_id()).size(), 1U);
    const Array y = x * x;
    EXPECT_TRUE(y.IsBackpropRequired(outer.backprop_id()));
    EXPECT_FALSE(y.IsBackpropRequired(inner.backprop_id()));
    const Array stopped = x.AsGradStopped({outer.backprop_id()});
    EXPECT_FALSE(stopped.IsBackpropRequired(outer.backprop_id()));
    EXPECT_TRUE(stopped.IsBackpropRequired());
    Backward(y, outer.backprop_id());
  }
  ExpectArray(*x.GetGrad(outer.backprop_id()), {1}, {6});
  EXPECT_FALSE(x.GetGrad().has_value());
  const BackpropId released = context_->MakeBackpropId("short");
  context_->ReleaseBackpropId(released);
  EXPECT_THROW(released.CheckValid(), ChainerxError);
  EXPECT_THROW(x.RequireGrad(released), ChainerxError);
}

TEST_F(BackpropTest, ModesNest) {
  const Array x = Doubles({1}, {3}).RequireGrad();
  EXPECT_TRUE(IsBackpropRequired());
  {
    NoBackpropModeScope none{};
    EXPECT_FALSE(IsBackpropRequired());
    EXPECT_FALSE(x.IsBackpropRequired());
    EXPECT_TRUE(x.IsGradRequired());
    EXPECT_FALSE((x * 2).IsBackpropRequired());
    {
      ForceBackpropModeScope force{};
      EXPECT_TRUE(IsBackpropRequired());
      EXPECT_TRUE((x * 2).IsBackpropRequired());
      NoBackpropModeScope again(*context_);
      EXPECT_FALSE((x * 2).IsBackpropRequired());
    }
    EXPECT_FALSE(IsBackpropRequired());
  }
  EXPECT_TRUE(IsBackpropRequired());
  BackpropScope graph("graph");
  x.RequireGrad(graph.backprop_id());
  {
    NoBackpropModeScope none{graph.backprop_id()};
    EXPECT_FALSE(IsBackpropRequired(graph.backprop_id()));
    EXPECT_TRUE(IsBackpropRequired());
    EXPECT_FALSE((x * 2).IsBackpropRequired(graph.backprop_id()));
    EXPECT_TRUE((x * 2).IsBackpropRequired());
  }
  EXPECT_TRUE(IsBackpropRequired(graph.backprop_id()));
  Context other(UnixAddress());
  NoBackpropModeScope elsewhere(other);
  EXPECT_TRUE((x * 2).IsBackpropRequired());
}

TEST_F(BackpropTest, GraphsAsText) {
  const Array x = Doubles({1}, {3}).RequireGrad();
  std::ostringstream os;
  DebugDumpComputationalGraph(os, Exp(x));
  EXPECT_NE(os.str().find("exp"), std::string::npos) << os.str();
}

// A function of one or more inputs in the middle of each routine's domain.
struct Case {
  const char* name;
  std::function<Array(const Arrays&)> function;
  std::vector<Shape> shapes;
};

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {"mul", [](const Arrays& x) { return x[0] * x[1]; }, {{2, 3}, {3}}},
      {"div", [](const Arrays& x) { return 2 / x[0]; }, {{2}}},
      {"empty", [](const Arrays& x) { return Exp(x[0]); }, {{0, 2}}},
      {"0-d", [](const Arrays& x) { return Tanh(x[0]) * x[0]; }, {{}}},
      {"transpose", [](const Arrays& x) { return Square(x[0].Transpose()) * x[1]; }, {{2, 3}, {2}}},
      {"at",
       [](const Arrays& x) {
         return Square(x[0].At({1, Slice{0, 3, 2}}));
       },
       {{2, 3}}},
      {"sum", [](const Arrays& x) { return Square(x[0].Sum(1, true)); }, {{2, 3}}},
      {"log_softmax", [](const Arrays& x) { return LogSoftmax(x[0], 1); }, {{2, 3}}},
      {"linear", [](const Arrays& x) { return Linear(x[0], x[1], x[2]); }, {{2, 3}, {2, 3}, {2}}},
      {"conv",
       [](const Arrays& x) {
         return Conv(x[0], x[1], x[2], {1, 1}, {1, 0});
       },
       {{1, 2, 3, 3}, {1, 2, 2, 2}, {1}}},
      {"average_pool",
       [](const Arrays& x) {
         return Square(AveragePool(x[0], {2, 2}, {1, 1}, {0, 0}));
       },
       {{1, 1, 3, 3}}},
      {"concatenate",
       [](const Arrays& x) {
         return Square(Concatenate({x[0], x[1]}, 1));
       },
       {{2, 1}, {2, 2}}},
      {"solve",
       [](const Arrays& x) { return Solve(x[0] + Eye(2, 2, 0, Dtype::kFloat64), x[1]); },
       {{2, 2}, {2}}},
      {"take",
       [](const Arrays& x) {
         return Square(Take(x[0], Build<int64_t>({3}, {1, 0, 1}), 0));
       },
       {{2, 2}}},
      {"add_at",
       [](const Arrays& x) {
         return Square(AddAt(x[0], Build<int64_t>({2}, {1, 1}), 0, x[1]));
       },
       {{2, 2}, {2, 2}}},
      {"lstm", [](const Arrays& x) { return Lstm(x[0], x[1])[1]; }, {{1, 2}, {1, 8}}},
  };
  return *cases;
}

Arrays Ramps(const std::vector<Shape>& shapes, double first, double step) {
  Arrays arrays;
  for (const Shape& shape : shapes) {
    arrays.push_back(Ramp(shape, first, step));
    first += 0.17;
  }
  return arrays;
}

Arrays Filled(const Arrays& like, double value) {
  Arrays arrays;
  for (const Array& array : like) arrays.push_back(Full(array.shape(), value, Dtype::kFloat64));
  return arrays;
}

TEST_F(BackpropTest, GradientsAreNumericalOnes) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const auto function = [&c](const Arrays& x) { return Arrays{c.function(x)}; };
    Arrays inputs = Ramps(c.shapes, 0.3, 0.11);
    const Arrays outputs = function(inputs);
    const Arrays grads = {Ramp(outputs[0].shape(), 0.5, 0.25)};
    for (Array& input : inputs) input.RequireGrad();
    EXPECT_NO_THROW(CheckBackward(function, inputs, grads, Filled(inputs, 1e-4)));
    Arrays eps = Filled(inputs, 1e-4);
    eps.push_back(Filled(grads, 1e-4)[0]);
    grads[0].RequireGrad();
    EXPECT_NO_THROW(
        CheckDoubleBackwardComputation(function, inputs, grads, Ramps(c.shapes, -0.4, 0.3), eps));
  }
}

TEST_F(BackpropTest, WrongGradientsAreFound) {
  const Array x = Doubles({2}, {0.3, 0.7}).RequireGrad();
  const Arrays ones = {Ones({2}, Dtype::kFloat64)};
  const Arrays eps = Filled({x}, 1e-4);
  // The gradient of the second factor is lost.
  const auto stopped = [](const Arrays& xs) { return Arrays{xs[0] * xs[0].AsGradStopped()}; };
  EXPECT_THROW(CheckBackward(stopped, {x}, ones, eps), GradientCheckError);
  EXPECT_NO_THROW(CheckBackward(stopped, {x}, ones, eps, 0, 10.0));  // within atol
  // Its first gradient is right, but is a constant for the second pass.
  const auto once = [](const Arrays& xs) {
    const Array slope = Cos(xs[0].AsGradStopped());
    return Arrays{slope * xs[0] + (Sin(xs[0]) - slope * xs[0]).AsGradStopped()};
  };
  EXPECT_NO_THROW(CheckBackward(once, {x}, ones, eps));
  const Array gy = Ones({2}, Dtype::kFloat64).RequireGrad();
  EXPECT_THROW(CheckDoubleBackwardComputation(once, {x}, {gy}, ones, {eps[0], eps[0]}),
               GradientCheckError);
  EXPECT_THROW(CheckDoubleBackwardComputation(once, {x}, ones, ones, {eps[0], eps[0]}),
               ChainerxError);
}

TEST_F(BackpropTest, NumericalGradient) {
  const Array x = Doubles({2}, {1, 2});
  const Arrays grads =
      CalculateNumericalGradient([](const Arrays& xs) { return Arrays{xs[0] * xs[0]}; }, {x},
                                 {Doubles({2}, {1, 10})}, Filled({x}, 1e-3));
  ExpectArray(grads[0], {2}, {2, 40}, 1e-6);
}

}  // namespace
}  // namespace chainerx
