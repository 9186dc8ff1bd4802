// Reductions over axes.
#include "ops/defs/groups.h"
#include "ops/defs/zero_dims.h"
#include "ops/op_context.h"
#include "ops/rules.h"

namespace chx {
namespace {

// Attributes of all of these: axis, keepdims.
absl::Status Reduce(InferContext& c, Dtype dtype, bool empty_allowed) {
  const ArraySpec& a = c.input(0);
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, ReductionAxes(c.name(), c.attr(0), a.ndim()));
  if (!empty_allowed) CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), a.shape, axes));
  return c.AddOutput(dtype, rules::ReducedShape(a.shape, axes, c.attr(1).AsBool()));
}

// attr 2: the dtype that is summed in.
absl::Status SumRule(InferContext& c) {
  Dtype dtype = c.input(0).dtype;
  if (!c.attr(2).has_value()) return Reduce(c, IsFloat(dtype) ? dtype : Dtype::kInt64, true);
  dtype = c.attr(2).AsDtype();
  c.CastInput(0, dtype);
  return Reduce(c, dtype, true);
}

Dtype MeanDtype(Dtype of_input, const AttrValue& dtype) {
  return dtype.has_value() ? dtype.AsDtype() : IsFloat(of_input) ? of_input : Dtype::kFloat32;
}

absl::Status CheckAxes(InferContext& c) {
  return rules::NormalizeAxes(c.name(), c.attr(0), c.input(0).ndim()).status();
}

absl::Status MeanRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckAxes(c));
  return Reduce(c, MeanDtype(c.input(0).dtype, c.attr(2)), true);
}

absl::Status ExtremumRule(InferContext& c) { return Reduce(c, c.input(0).dtype, false); }

absl::Status ArgRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, SingleReductionAxis(c.name(), c.attr(0), a.ndim()));
  CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), a.shape, axes));
  return c.AddOutput(Dtype::kInt64, rules::ReducedShape(a.shape, axes, c.attr(1).AsBool()));
}

absl::Status LogSumExpRule(InferContext& c) {
  const Dtype dtype = c.input(0).dtype;
  const Dtype result = IsFloat(dtype) ? dtype : Dtype::kFloat32;
  c.CastInput(0, result);
  CHX_RETURN_IF_ERROR(CheckAxes(c));
  return Reduce(c, result, false);
}

// `reduced` with the reduced dimensions put back as ones, so that it broadcasts against input 0.
Value Expand(GradContext& g, Value reduced) {
  const ArraySpec& a = g.input_spec(0);
  const absl::StatusOr<uint32_t> axes = rules::NormalizeAxes(g.op().name, g.attr(0), a.ndim());
  const Shape shape = rules::ReducedShape(a.shape, axes.value_or(0), true);
  if (reduced.shape() == shape) return reduced;
  return g.Apply("reshape", {reduced}, {{"newshape", AttrValue::FromInts(shape.span())}});
}

Value BroadcastLikeInput(GradContext& g, Value reduced) {
  return g.Apply("broadcast_to", {Expand(g, reduced)},
                 {{"shape", AttrValue::FromInts(g.input_spec(0).shape.span())}});
}

// The gradient goes to every element that equals the extremum.
void ExtremumGradient(GradContext& g) {
  const Value chosen = g.Apply("equal", {g.input(0), Expand(g, g.output(0))});
  g.SetInputGrad(0, g.Apply("where", {chosen, Expand(g, g.output_grad(0)), 0}));
}

// Of softmax and log_softmax, where it defaults to 1.
AttrValue SoftmaxAxis(const AttrValue& axis) {
  return axis.has_value() ? axis : AttrValue(Ints{1});
}

absl::Status SoftmaxRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  CHX_ASSIGN_OR_RETURN(const uint32_t axes,
                       rules::NormalizeAxes(c.name(), SoftmaxAxis(c.attr(0)), x.ndim()));
  CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), x.shape, axes));
  return c.AddOutput(IsFloat(x.dtype) ? x.dtype : Dtype::kFloat32, x.shape);
}

Value LogSoftmax(ComposeContext& c) {
  Value x = c.input(0);
  if (IsBool(x.dtype())) x = c.Apply("astype", {x}, {{"dtype", Dtype::kFloat32}});
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

void RegisterReduction(OpRegistry& r) {
  const auto reduction = [&r](const char* name, const char* doc) -> OpDef& {
    return r.Add(name)
        .Doc(doc)
        .Inputs({"a"})
        .Outputs({"y"})
        .Attr("axis", AttrType::kInts, AttrValue())
        .Attr("keepdims", AttrType::kBool, false)
        .Method();
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
      .Compose(MeanRule, [](ComposeContext& c) {
        Value a = c.input(0);
        const Dtype result = MeanDtype(a.dtype(), c.attr(2));
        // The sum of float16 overflows long before its mean does.
        const Dtype wide =
            !IsFloat(result) || result == Dtype::kFloat64 ? Dtype::kFloat64 : Dtype::kFloat32;
        if (a.dtype() != wide) a = c.Apply("astype", {a}, {{"dtype", wide}});
        const Value sum = c.Apply("sum", {a}, {{"axis", c.attr(0)}, {"keepdims", c.attr(1)}});
        double count = 1;
        const uint32_t axes = rules::NormalizeAxes("mean", c.attr(0), a.ndim()).value_or(0);
        for (int i = 0; i < a.ndim(); ++i) {
          if ((axes >> i) & 1) count *= static_cast<double>(a.shape()[i]);
        }
        const Value mean = sum / count;
        c.SetOutput(0,
                    mean.dtype() == result ? mean : c.Apply("astype", {mean}, {{"dtype", result}}));
      });
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
  const auto arg = [&r](const char* name, const char* doc) {
    r.Add(name)
        .Doc(doc)
        .Inputs({"a"})
        .Outputs({"y"})
        .Attr("axis", AttrType::kInt, AttrValue())
        .Attr("keepdims", AttrType::kBool, false)
        .Infer(ArgRule)
        .Method();
  };
  arg("argmax", "Index (int64) of the first greatest element along an axis, or of the flat array.");
  arg("argmin", "Index (int64) of the first least element along an axis, or of the flat array.");
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
