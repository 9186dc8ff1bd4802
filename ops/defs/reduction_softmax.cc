// softmax, log_softmax and their gradients: compositions of reductions.
#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// The axes default to axis 1.
AttrValue SoftmaxAxis(const AttrValue& axis) {
  return axis.has_value() ? axis : AttrValue(Ints{1});
}

absl::Status SoftmaxRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  CHX_ASSIGN_OR_RETURN(const uint32_t axes,
                       rules::NormalizeAxes(c.name(), SoftmaxAxis(c.attr(0)), x.ndim()));
  CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), x.shape, axes));
  return c.AddOutput(AtLeastFloat(x.dtype), x.shape);
}

Value LogSoftmax(ComposeContext& c) {
  const Value a = c.input(0);
  const Value x = IsBool(a.dtype()) ? Cast(a, Dtype::kFloat32) : a;
  return x - c.Apply("logsumexp", {x}, {{"axis", SoftmaxAxis(c.attr(0))}, {"keepdims", true}});
}

Value SumAlong(ComposeContext& c, Value x) {
  return c.Apply("sum", {x}, {{"axis", SoftmaxAxis(c.attr(0))}, {"keepdims", true}});
}

// Of y and gy, both of the result's shape.
absl::Status SoftmaxGradRule(InferContext& c) {
  const ArraySpec& y = c.input(0);
  const ArraySpec& gy = c.input(1);
  if (!IsFloat(y.dtype) || !IsFloat(gy.dtype)) {
    return DtypeError("[", c.name(), "] expects floats, got ", DtypeName(y.dtype), " and ",
                      DtypeName(gy.dtype));
  }
  if (y.shape != gy.shape) {
    return DimensionError("[", c.name(), "] expects equal shapes, got ", y.shape.ToString(),
                          " and ", gy.shape.ToString());
  }
  CHX_ASSIGN_OR_RETURN(const uint32_t axes,
                       rules::NormalizeAxes(c.name(), SoftmaxAxis(c.attr(0)), y.ndim()));
  CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), y.shape, axes));
  return c.AddOutput(PromoteTypes(y.dtype, gy.dtype), y.shape);
}

void SoftmaxGrad(ComposeContext& c) {
  const Value y = c.input(0);
  const Value gy = c.input(1);
  c.SetOutput(0, y * (gy - SumAlong(c, y * gy)));
}

void LogSoftmaxGrad(ComposeContext& c) {
  const Value gy = c.input(1);
  c.SetOutput(0, gy - c.Apply("exp", {c.input(0)}) * SumAlong(c, gy));
}

// The operator of that name on the result and its gradient.
void GradientBy(GradContext& g, const char* op) {
  g.SetInputGrad(0, g.Apply(op, {g.output(0), g.output_grad(0)}, {{"axis", g.attr(0)}}));
}

}  // namespace

void RegisterReductionSoftmax(OpRegistry& r) {
  r.Add("log_softmax")
      .Doc("x - logsumexp(x) along axes (axis 1 by default).")
      .Inputs({"x"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInts, AttrValue())
      .Compose(SoftmaxRule, [](ComposeContext& c) { c.SetOutput(0, LogSoftmax(c)); })
      .Saves({"y"})
      .Gradient([](GradContext& g) { GradientBy(g, "log_softmax_grad"); });
  r.Add("softmax")
      .Doc("exp(log_softmax(x)) along axes (axis 1 by default).")
      .Inputs({"x"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInts, AttrValue())
      .Compose(SoftmaxRule,
               [](ComposeContext& c) { c.SetOutput(0, c.Apply("exp", {LogSoftmax(c)})); })
      .Saves({"y"})
      .Gradient([](GradContext& g) { GradientBy(g, "softmax_grad"); });
  const auto gradient = [&r](const char* name, const char* doc, void (*parts)(ComposeContext&)) {
    r.Add(name)
        .Doc(doc)
        .Inputs({"y", "gy"})
        .Outputs({"gx"})
        .Attr("axis", AttrType::kInts, AttrValue())
        .Internal()
        .Compose(SoftmaxGradRule, parts);
  };
  gradient("softmax_grad", "y (gy - sum(y gy)), sums along axes.", SoftmaxGrad);
  gradient("log_softmax_grad", "gy - exp(y) sum(gy), sums along axes.", LogSoftmaxGrad);
}

}  // namespace chx
