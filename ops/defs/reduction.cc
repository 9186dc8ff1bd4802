// Reductions over axes.
#include "ops/defs/common/expressions.h"
#include "ops/defs/common/reductions.h"
#include "ops/defs/register_groups.h"

namespace chx {
namespace {

absl::Status LogSumExpRule(InferContext& c) {
  const Dtype result = AtLeastFloat(c.input(0).dtype);
  c.CastInput(0, result);
  CHX_RETURN_IF_ERROR(CheckAxes(c));
  return Reduce(c, result, false);
}

// `reduced` with dimensions of size 1 in place of the reduced ones, so that it broadcasts against
// input 0.
Value Expand(GradContext& g, Value reduced) {
  const ArraySpec& a = g.input_spec(0);
  const absl::StatusOr<uint32_t> axes = rules::NormalizeAxes(g.op().name, g.attr(0), a.ndim());
  const Shape shape = rules::ReducedShape(a.shape, axes.value_or(0), true);
  if (reduced.shape() == shape) return reduced;
  return Reshape(reduced, shape);
}

Value BroadcastLikeInput(GradContext& g, Value reduced) {
  return BroadcastTo(Expand(g, reduced), g.input_spec(0).shape);
}

// The gradient goes to every element that equals the extremum.
void ExtremumGradient(GradContext& g) {
  const Value chosen = g.Apply("equal", {g.input(0), Expand(g, g.output(0))});
  g.SetInputGrad(0, Where(chosen, Expand(g, g.output_grad(0)), 0));
}

void Mean(ComposeContext& c) {
  const Dtype result = DtypeOr(c.attr(2), AtLeastFloat(c.input(0).dtype()));
  const Value a = Cast(c.input(0), MeanComputeDtype(result));
  c.SetOutput(0, Cast(Over(c, "sum", a) / ReducedCount(c), result));
}

}  // namespace

void RegisterReduction(OpRegistry& r) {
  const auto reduction = [&r](const char* name, const char* doc) -> OpDef& {
    return AddReduction(r, name, doc).Method();
  };
  reduction(
      "sum",
      "Sum over axes (all by default). Bool and integers give int64, unless a dtype is given.")
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Infer(SumRule)
      .Gradient([](GradContext& g) { g.SetInputGrad(0, BroadcastLikeInput(g, g.output_grad(0))); });
  reduction("mean",
            "Mean over axes (all by default). Integers give float32, unless a dtype is given.")
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Compose(MomentRule<2>, Mean);
  reduction("amax", "Greatest element along axes; NaN if there is one. An empty axis is an error.")
      .Alias("max")
      .Infer(ExtremumRule)
      .Saves({"a", "y"})
      .Gradient(ExtremumGradient);
  reduction("amin", "Least element along axes; NaN if there is one. An empty axis is an error.")
      .Alias("min")
      .Infer(ExtremumRule)
      .Saves({"a", "y"})
      .Gradient(ExtremumGradient);
  AddArgReduction(
      r, "argmax",
      "Index (int64) of the first greatest element along an axis, or of the flat array.")
      .Infer(ArgExtremumRule)
      .Method();
  AddArgReduction(r, "argmin",
                  "Index (int64) of the first least element along an axis, or of the flat array.")
      .Infer(ArgExtremumRule)
      .Method();
  r.Add("logsumexp")
      .Doc("log(sum(exp(x))) over axes, without overflow. Integers give float32.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInts, AttrValue())
      .Attr("keepdims", AttrType::kBool, false)
      .Infer(LogSumExpRule)
      .Saves({"x", "y"})
      .Gradient([](GradContext& g) {
        const Value softmax = g.Apply("exp", {g.input(0) - Expand(g, g.output(0))});
        g.SetInputGrad(0, softmax * Expand(g, g.output_grad(0)));
      });
}

}  // namespace chx
