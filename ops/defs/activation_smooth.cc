// Smooth activation functions. Each has a kernel for its gradient, which computes what it needs
// again from x; gradients of that are made of other operators.
#include <string>

#include "absl/strings/str_cat.h"
#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// What the gradient is multiplied by to be differentiated: f''(x).
Value SiluSecond(Value x) {
  const Value s = Sigmoid(x);
  return s * (1.0 - s) * (x * (1.0 - s * 2.0) + 2.0);
}

Value GeluErfSecond(Value x) {
  const Value square = x * x;
  const Value density = x.context()->Apply("exp", {square * -0.5}) * 0.39894228040143268;
  return density * (2.0 - square);
}

// Of x s(v(x)), with the sigmoid s.
Value GeluTanhSecond(Value x) {
  constexpr double kScale = 1.5957691216057308;  // 2 sqrt(2 / pi)
  constexpr double kCubic = 0.044715;
  const Value square = x * x;
  const Value s = Sigmoid(x * (square * (kScale * kCubic) + kScale));
  const Value v1 = square * (3 * kScale * kCubic) + kScale;
  const Value v2 = x * (6 * kScale * kCubic);
  return s * (1.0 - s) * (v1 * 2.0 + x * ((1.0 - s * 2.0) * v1 * v1 + v2));
}

// Of x w(x), with w = tanh(softplus(x)) and w' = (1 - w^2) s.
Value MishSecond(Value x) {
  const Value s = Sigmoid(x);
  const Value w = x.context()->Apply("tanh", {x.context()->Apply("softplus", {x})});
  return (1.0 - w * w) * s * (x * (1.0 - s - w * s * 2.0) + 2.0);
}

Value HardswishSecond(Value x) {
  const Value inside = x.context()->Apply("less", {x.context()->Apply("abs", {x}), 3.0});
  return Cast(inside, x.dtype()) * (1.0 / 3);
}

void ByGradientKernel(GradContext& g) {
  g.SetInputGrad(0, g.Apply(absl::StrCat(g.op().name, "_grad"), {g.input(0), g.output_grad(0)}));
}

template <Value (*kSecond)(Value x)>
void SecondGradient(GradContext& g) {
  const Value x = FloatInput(g, 0);
  if (g.needs_grad(0)) {
    g.SetInputGrad(0, g.output_grad(0) * FloatInput(g, 1) * kSecond(x));
  }
  if (g.needs_grad(1)) g.SetInputGrad(1, g.Apply(g.op().name, {x, g.output_grad(0)}));
}

// The operator and that of its gradient.
template <Value (*kSecond)(Value x)>
OpDef& Add(OpRegistry& r, const std::string& name, const std::string& doc) {
  r.Add(name + "_grad")
      .Doc(absl::StrCat("The gradient of ", name, "'s x, from that of y."))
      .Inputs({"x", "gy"})
      .Outputs({"gx"})
      .Elementwise(rules::TrueDivide)
      .Internal()
      .Saves({"x", "gy"})
      .Gradient(SecondGradient<kSecond>);
  return r.Add(name)
      .Doc(doc + " Integers give float32.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Elementwise(rules::FloatUnary)
      .Saves({"x"})
      .Gradient(ByGradientKernel);
}

}  // namespace

void RegisterActivationSmooth(OpRegistry& r) {
  Add<SiluSecond>(r, "silu", "x * sigmoid(x), also called swish.");
  Add<MishSecond>(r, "mish", "x * tanh(log(1 + exp(x))).");
  Add<HardswishSecond>(r, "hardswish", "x * min(max(x + 3, 0), 6) / 6.");
  Add<GeluErfSecond>(r, "gelu_erf", "x * (1 + erf(x / sqrt(2))) / 2.").Internal();
  Add<GeluTanhSecond>(r, "gelu_tanh", "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2.")
      .Internal();
  r.Add("gelu")
      .Doc(
          "x * (1 + erf(x / sqrt(2))) / 2, or its approximation with 'tanh', "
          "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2. Integers give float32.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Choice("approximate", {"none", "tanh"}, 0)
      .Compose(rules::FloatUnary, [](ComposeContext& c) {
        const Value x = FloatInput(c, 0);
        c.SetOutput(0, c.Apply(c.attr(0).AsInt() == 1 ? "gelu_tanh" : "gelu_erf", {x}));
      });
}

}  // namespace chx
