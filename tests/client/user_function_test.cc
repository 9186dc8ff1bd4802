// chx::UserFunction: gradients against finite differences, double backward, errors.
#include "client/user_function.h"

#include <cmath>
#include <functional>
#include <memory>

#include "client/autograd.h"
#include "client/modes.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

using Gradients = UserFunction::Gradients;

class Cube : public UserFunction {
 public:
  std::vector<Array> Forward(absl::Span<const Array> x, Retained* retained) override {
    retained->inputs = {0};
    return {x[0] * x[0] * x[0]};
  }
  absl::StatusOr<Gradients> Backward(const BackwardContext& context) override {
    const Array x = context.input(0);
    return Gradients{3.0 * x * x * context.output_grad(0)};
  }
};

// exp and sin of a sum, by arithmetic of this process.
class ExpAndSin : public UserFunction {
 public:
  std::vector<Array> Forward(absl::Span<const Array> x, Retained* retained) override {
    retained->inputs = {0, 1};
    retained->outputs = {0};
    const size_t size = static_cast<size_t>(x[0].spec().size());
    std::vector<double> sums(size), exps(size), sines(size);
    const absl::Status read = (x[0] + x[1]).CopyTo(sums.data(), size * sizeof(double));
    if (!read.ok()) return {Array(read)};
    for (size_t i = 0; i < size; ++i) {
      exps[i] = std::exp(sums[i]);
      sines[i] = std::sin(sums[i]);
    }
    Session& session = *x[0].body()->session;
    return {Array::FromHost(session, exps.data(), x[0].shape(), Dtype::kFloat64),
            Array::FromHost(session, sines.data(), x[0].shape(), Dtype::kFloat64)};
  }
  absl::StatusOr<Gradients> Backward(const BackwardContext& context) override {
    had_grads = {context.has_output_grad(0), context.has_output_grad(1)};
    wanted = {context.IsWanted(0), context.IsWanted(1)};
    const Array grad = context.output_grad(0) * context.output(0) +
                       context.output_grad(1) * cos(context.input(0) + context.input(1));
    return Gradients{grad, grad};
  }
  std::vector<bool> had_grads, wanted;
};

// y = 2 x, with any Backward.
class Doubled : public UserFunction {
 public:
  using Rule = std::function<absl::StatusOr<Gradients>(const BackwardContext&)>;
  explicit Doubled(Rule rule) : rule_(std::move(rule)) {}
  std::vector<Array> Forward(absl::Span<const Array> x, Retained*) override { return {x[0] * 2.0}; }
  absl::StatusOr<Gradients> Backward(const BackwardContext& context) override {
    return rule_(context);
  }

 private:
  const Rule rule_;
};

class UserFunctionTest : public ClientTest {
 protected:
  static Array CubeOf(const Array& x) {
    return ApplyFunctionToArray(std::make_shared<Cube>(), {x});
  }
  // d f / d x by differences.
  Vector Differences(const std::function<Array(const Array&)>& f, const Vector& x) {
    const double h = 1e-6;
    Vector result;
    for (size_t i = 0; i < x.size(); ++i) {
      Vector above = x, below = x;
      above[i] += h;
      below[i] -= h;
      result.push_back((Values(f(Make(above)))[0] - Values(f(Make(below)))[0]) / (2 * h));
    }
    return result;
  }
  // What Backward of 2x returns if its rule is this.
  absl::Status BackwardWith(Doubled::Rule rule) {
    Array x = MakeParam({1, 2});
    const absl::Status status =
        Backward(sum(ApplyFunctionToArray(std::make_shared<Doubled>(std::move(rule)), {x})));
    EXPECT_EQ(x.HasGrad(), false);
    return status;
  }
};

TEST_F(UserFunctionTest, GradientIsThatOfDifferences) {
  const Vector values = {0.5, -1.5, 2};
  const auto f = [](const Array& x) { return sum(CubeOf(x) * x); };
  Array x = MakeParam(values);
  ASSERT_OK(Backward(f(x)));
  ExpectNear(Values(x.Grad()), Differences(f, values), 1e-7);
}

TEST_F(UserFunctionTest, DoubleBackward) {
  const Vector values = {0.5, -1.5, 2};
  // d/dx of sum((d/dx sum(x^3))^2) = sum(9 x^4): 36 x^3.
  Array x = MakeParam(values);
  const Array y = sum(CubeOf(x));
  BackwardArgs args;
  args.enable_double_backprop = true;
  const absl::StatusOr<std::vector<Array>> grads = Grad({y}, {x}, {}, args);
  ASSERT_OK(grads.status());
  ASSERT_OK(Backward(sum((*grads)[0] * (*grads)[0])));
  Vector want;
  for (double v : values) want.push_back(36 * v * v * v);
  ExpectNear(Values(x.Grad()), want, 1e-9);
}

TEST_F(UserFunctionTest, SeveralInputsAndOutputs) {
  const Vector a = {0.3, -0.7};
  const Vector b = {0.2, 1.1};
  const auto f = [&](const Array& x, const Array& y) {
    const auto outputs = ApplyFunction(std::make_shared<ExpAndSin>(), {x, y});
    if (!outputs.ok()) return Array(outputs.status());
    return sum((*outputs)[0] * (*outputs)[1] * y);
  };
  Array x = MakeParam(a), y = MakeParam(b);
  ASSERT_OK(Backward(f(x, y)));
  ExpectNear(Values(x.Grad()), Differences([&](const Array& v) { return f(v, Make(b)); }, a), 1e-7);
  ExpectNear(Values(y.Grad()), Differences([&](const Array& v) { return f(Make(a), v); }, b), 1e-7);
}

TEST_F(UserFunctionTest, AnOutputWithoutGradientAndAnInputThatWantsNone) {
  const auto function = std::make_shared<ExpAndSin>();
  Array x = MakeParam({0.3});
  const auto outputs = ApplyFunction(function, {x, Make({0.2})});
  ASSERT_OK(outputs.status());
  ASSERT_OK(Backward(sum((*outputs)[1])));
  EXPECT_EQ(function->had_grads, (std::vector<bool>{false, true}));
  EXPECT_EQ(function->wanted, (std::vector<bool>{true, false}));
  ExpectNear(Values(x.Grad()), {std::cos(0.5)}, 1e-12);
}

TEST_F(UserFunctionTest, NoGradientLeavesTheInputWithout) {
  ASSERT_OK(BackwardWith([](const BackwardContext&) { return Gradients{absl::nullopt}; }));
}

TEST_F(UserFunctionTest, ErrorsEndThePass) {
  EXPECT_TRUE(absl::IsDataLoss(
      BackwardWith([](const BackwardContext&) { return absl::DataLossError("no"); })));
  EXPECT_TRUE(absl::IsDataLoss(BackwardWith(
      [](const BackwardContext&) { return Gradients{Array(absl::DataLossError("no"))}; })));
  EXPECT_EQ(KindOf(BackwardWith([](const BackwardContext&) { return Gradients{}; })),
            ErrorKind::kGradient);
  EXPECT_EQ(KindOf(BackwardWith([](const BackwardContext& context) {
              return Gradients{sum(context.output_grad(0))};
            })),
            ErrorKind::kGradient);  // of another shape
  const absl::Status not_retained =
      BackwardWith([](const BackwardContext& context) { return Gradients{context.input(0)}; });
  EXPECT_EQ(KindOf(not_retained), ErrorKind::kValue);
  EXPECT_NE(not_retained.message().find("retain input 0"), absl::string_view::npos) << not_retained;
  EXPECT_EQ(KindOf(BackwardWith(
                [](const BackwardContext& context) { return Gradients{context.output_grad(1)}; })),
            ErrorKind::kIndex);
  // The session goes on.
  Array x = MakeParam({2});
  ASSERT_OK(Backward(CubeOf(x)));
  EXPECT_EQ(Values(x.Grad()), Vector{12});
}

TEST_F(UserFunctionTest, BackwardMayCallFunctionsAndOtherPasses) {
  const auto rule = [](const BackwardContext& context) -> absl::StatusOr<Gradients> {
    Array inner = context.output_grad(0).AsGradStopped().RequireGrad();
    CHX_RETURN_IF_ERROR(Backward(sum(CubeOf(inner))));  // 3 g^2
    return Gradients{inner.Grad()};
  };
  Array x = MakeParam({1});
  {
    const ForceBackpropMode record;
    ASSERT_OK(Backward(ApplyFunctionToArray(std::make_shared<Doubled>([&](const auto& context) {
                                              const ForceBackpropMode inner;
                                              return rule(context);
                                            }),
                                            {x})));
  }
  EXPECT_EQ(Values(x.Grad()), Vector{3});
}

TEST_F(UserFunctionTest, OneObjectManyTimes) {
  const auto cube = std::make_shared<Cube>();
  Array x = MakeParam({1.1});
  ASSERT_OK(Backward(ApplyFunctionToArray(cube, {ApplyFunctionToArray(cube, {x})})));
  ExpectNear(Values(x.Grad()), {9 * std::pow(1.1, 8)}, 1e-12);
}

class Identity : public UserFunction {
 public:
  std::vector<Array> Forward(absl::Span<const Array> x, Retained*) override { return {x[0], x[0]}; }
  absl::StatusOr<Gradients> Backward(const BackwardContext& context) override {
    return Gradients{context.output_grad(0) + 10.0 * context.output_grad(1)};
  }
};

TEST_F(UserFunctionTest, OutputsMayBeInputs) {
  Array x = MakeParam({4});
  const auto outputs = ApplyFunction(std::make_shared<Identity>(), {x});
  ASSERT_OK(outputs.status());
  ASSERT_OK(Backward((*outputs)[0] + 2.0 * (*outputs)[1]));
  EXPECT_EQ(Values(x.Grad()), Vector{21});
}

TEST_F(UserFunctionTest, LivesAsLongAsTheGraph) {
  auto cube = std::make_shared<Cube>();
  const std::weak_ptr<Cube> watch = cube;
  ApplyFunctionToArray(cube, {Make({1})});  // in no graph
  EXPECT_EQ(cube.use_count(), 1);
  Array x = MakeParam({1});
  {
    const Array y = ApplyFunctionToArray(std::move(cube), {x});
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

TEST_F(UserFunctionTest, RefusesCallsThatMakeNoSense) {
  EXPECT_EQ(KindOf(ApplyFunction(std::make_shared<Cube>(), {}).status()), ErrorKind::kType);
  EXPECT_TRUE(absl::IsDataLoss(CubeOf(Array(absl::DataLossError("gone"))).status()));
  const Array two = ApplyFunctionToArray(std::make_shared<Identity>(), {Make({1})});
  EXPECT_EQ(KindOf(two.status()), ErrorKind::kValue);
}

}  // namespace
}  // namespace chx
