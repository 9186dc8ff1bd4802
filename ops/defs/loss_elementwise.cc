// Elementwise losses, not reduced: compositions, most of which get their gradients from their
// parts.
#include <string>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// Two arrays that broadcast; integers give float32.
OpDef& Loss(OpRegistry& r, const char* name, const char* doc) {
  return r.Add(name)
      .Doc(std::string(doc) + " Elementwise, not reduced. Integers give float32.")
      .Inputs({"x1", "x2"})
      .Outputs({"y"});
}

// The dtype that both inputs are computed in.
Dtype CommonFloat(ComposeContext& c) {
  return AtLeastFloat(PromoteTypes(c.input(0).dtype(), c.input(1).dtype()));
}

Value FloatDifference(ComposeContext& c) {
  return Cast(c.input(0), CommonFloat(c)) - Cast(c.input(1), CommonFloat(c));
}

void HuberLoss(ComposeContext& c) {
  const double delta = c.attr(0).AsFloat();
  const Value difference = FloatDifference(c);
  const Value distance = c.Apply("abs", {difference});
  const Value near = c.Apply("square", {difference}) * 0.5;
  const Value far = (distance - 0.5 * delta) * delta;
  c.SetOutput(0, Where(c.Apply("less", {distance, delta}), near, far));
}

// x1, x2, gy; delta.
absl::Status HuberGradRule(InferContext& c) {
  Shape shape;
  CHX_RETURN_IF_ERROR(rules::BroadcastInputs(c, 0, &shape));
  return c.AddOutput(AtLeastFloat(rules::PromoteInputs(c, 0)), shape);
}

void HuberGrad(ComposeContext& c) {
  const double delta = c.attr(0).AsFloat();
  const Dtype dtype = PromoteTypes(CommonFloat(c), c.input(2).dtype());
  const Value difference = Cast(c.input(0), dtype) - Cast(c.input(1), dtype);
  const Value near = c.Apply("less", {c.Apply("abs", {difference}), delta});
  const Value slope = Where(near, difference, c.Apply("sign", {difference}) * delta);
  c.SetOutput(0, Cast(c.input(2), dtype) * slope);
}

void HuberGradient(GradContext& g) {
  const Value gx = g.Apply("huber_loss_grad", {g.input(0), g.input(1), g.output_grad(0)},
                           {{"delta", g.attr(0)}});
  if (g.needs_grad(0)) g.SetInputGrad(0, gx);
  if (g.needs_grad(1)) g.SetInputGrad(1, -gx);
}

// x1 (N, C) scores, x2 (N,) integer labels.
absl::Status HingeRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  const ArraySpec& t = c.input(1);
  if (!IsInt(t.dtype)) {
    return DtypeError("[hinge] expects integer labels, got ", DtypeName(t.dtype));
  }
  if (x.ndim() != 2 || t.ndim() != 1 || x.shape[0] != t.shape[0]) {
    return DimensionError("[hinge] expects shapes (N, C) and (N,), got ", x.shape.ToString(),
                          " and ", t.shape.ToString());
  }
  const double norm = c.attr(0).AsFloat();
  if (norm != 1 && norm != 2) return ValueError("[hinge] expects norm 1 or 2, got ", norm);
  return c.AddOutput(AtLeastFloat(x.dtype), x.shape);
}

void Hinge(ComposeContext& c) {
  const Value x = FloatInput(c, 0);
  const Value labels = ExpandDims(c.input(1), 1);
  const Value classes =
      c.Apply("arange", {}, {{"start", Scalar(x.shape()[1])}, {"dtype", Dtype::kInt64}});
  const Value own = c.Apply("equal", {labels, classes});
  const Value margin = c.Apply("maximum", {1.0 + Where(own, -x, x), 0.0});
  c.SetOutput(0, c.attr(0).AsFloat() == 1 ? margin : c.Apply("square", {margin}));
}

}  // namespace

void RegisterLossElementwise(OpRegistry& r) {
  Loss(r, "absolute_error", "abs(x1 - x2).").Compose(rules::TrueDivide, [](ComposeContext& c) {
    c.SetOutput(0, c.Apply("abs", {FloatDifference(c)}));
  });
  Loss(r, "squared_error", "(x1 - x2) ** 2.")
      .Alias("squared_difference")
      .Compose(rules::TrueDivide,
               [](ComposeContext& c) { c.SetOutput(0, c.Apply("square", {FloatDifference(c)})); });
  Loss(r, "huber_loss", "d * d / 2 where d = abs(x1 - x2) < delta, else delta * (d - delta / 2).")
      .Attr("delta", AttrType::kFloat)
      .Compose(rules::TrueDivide, HuberLoss)
      .Saves({"x1", "x2"})
      .Gradient(HuberGradient);
  r.Add("huber_loss_grad")
      .Doc("Gradient of huber_loss's x1, from that of y.")
      .Inputs({"x1", "x2", "gy"})
      .Outputs({"gx"})
      .Attr("delta", AttrType::kFloat)
      .Compose(HuberGradRule, HuberGrad)
      .Internal();
  r.Add("gaussian_kl_divergence")
      .Doc(
          "KL divergence of a Gaussian, given by its mean and the logarithm of its variance, from "
          "the standard one. Elementwise, not reduced.")
      .Inputs({"mean", "ln_var"})
      .Outputs({"y"})
      .Compose(rules::TrueDivide, [](ComposeContext& c) {
        const Value mean = Cast(c.input(0), CommonFloat(c));
        const Value ln_var = Cast(c.input(1), CommonFloat(c));
        const Value sum = c.Apply("square", {mean}) + c.Apply("exp", {ln_var});
        c.SetOutput(0, (sum - ln_var - 1.0) * 0.5);
      });
  r.Add("hinge")
      .Doc(
          "max(0, 1 - x) for the score of each row's own label, max(0, 1 + x) for the others; "
          "squared if norm is 2. x1 (N, C), x2 (N,) integers. Not reduced.")
      .Inputs({"x1", "x2"})
      .Outputs({"y"})
      .Attr("norm", AttrType::kFloat, 1.0)
      .Compose(HingeRule, Hinge);
}

}  // namespace chx
