// Products, tests and statistics over axes: compositions around the reductions.
#include <limits>

#include "ops/basic_index.h"
#include "ops/defs/groups.h"
#include "ops/defs/roots.h"
#include "ops/defs/running_products.h"
#include "ops/defs/zero_dims.h"
#include "ops/op_context.h"
#include "ops/rules.h"

namespace chx {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

OpDef& Reduction(OpRegistry& r, const char* name, const char* doc) {
  return r.Add(name)
      .Doc(doc)
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInts, AttrValue())
      .Attr("keepdims", AttrType::kBool, false);
}

absl::Status Reduce(InferContext& c, Dtype dtype, bool empty_allowed = true) {
  const ArraySpec& a = c.input(0);
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, ReductionAxes(c.name(), c.attr(0), a.ndim()));
  if (!empty_allowed) CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), a.shape, axes));
  return c.AddOutput(dtype, rules::ReducedShape(a.shape, axes, c.attr(1).AsBool()));
}

absl::Status TestRule(InferContext& c) {
  c.CastInput(0, Dtype::kBool);
  return Reduce(c, Dtype::kBool);
}

absl::Status CountRule(InferContext& c) { return Reduce(c, Dtype::kInt64); }
absl::Status SameRule(InferContext& c) { return Reduce(c, c.input(0).dtype, false); }

absl::Status PtpRule(InferContext& c) {
  if (!IsBool(c.input(0).dtype)) return SameRule(c);
  return DtypeError("[ptp] expects a numeric dtype, got bool");
}

// The attribute `dtype`, or what the operator makes of its input's.
Dtype DtypeOr(const AttrValue& dtype, Dtype otherwise) {
  return dtype.has_value() ? dtype.AsDtype() : otherwise;
}
Dtype SumDtype(Dtype dtype) { return IsFloat(dtype) ? dtype : Dtype::kInt64; }
Dtype MeanDtype(Dtype dtype) { return IsFloat(dtype) ? dtype : Dtype::kFloat32; }
// What a mean that has a dtype is computed in.
Dtype WideDtype(Dtype dtype) {
  return dtype == Dtype::kFloat32 || dtype == Dtype::kFloat16 ? Dtype::kFloat32 : Dtype::kFloat64;
}

absl::Status SumRule(InferContext& c) {
  const Dtype dtype = DtypeOr(c.attr(2), SumDtype(c.input(0).dtype));
  c.CastInput(0, dtype);
  return Reduce(c, dtype);
}

// attr `kDtype`: dtype.
template <int kDtype>
absl::Status MeanRule(InferContext& c) {
  return Reduce(c, DtypeOr(c.attr(kDtype), MeanDtype(c.input(0).dtype)));
}

// A reduction over the same axes.
Value Over(ComposeContext& c, absl::string_view op, Value a) {
  return c.Apply(op, {a}, {{"axis", c.attr(0)}, {"keepdims", c.attr(1)}});
}
Value OverKept(OpContext& c, absl::string_view op, Value a) {
  return c.Apply(op, {a}, {{"axis", c.attr(0)}, {"keepdims", true}});
}

Value IsNan(Value a) { return a.context()->Apply("isnan", {a}); }
Value Where(Value condition, Value x, Value y) {
  return condition.context()->Apply("where", {condition, x, y});
}
Value Cast(Value a, Dtype dtype) {
  return a.dtype() == dtype ? a : a.context()->Apply("astype", {a}, {{"dtype", dtype}});
}

int64_t ReducedSize(ComposeContext& c) {
  const Shape& shape = c.input(0).shape();
  const uint32_t axes = rules::NormalizeAxes(c.op().name, c.attr(0), shape.size()).value_or(0);
  int64_t size = 1;
  for (int i = 0; i < shape.size(); ++i) {
    if ((axes >> i) & 1) size *= shape[i];
  }
  return size;
}

// --- prod ---

// Several axes become one, the last. float16 is computed in float32.
void ProdGradient(GradContext& g) {
  const Dtype dtype = g.output_spec(0).dtype;
  const Value a = Cast(g.input(0), PromoteTypes(dtype, Dtype::kFloat32));
  const uint32_t axes = rules::NormalizeAxes("prod", g.attr(0), a.ndim()).value_or(0);
  const auto reshape = [&g](Value x, const Shape& shape) {
    return g.Apply("reshape", {x}, {{"newshape", AttrValue::FromInts(shape.span())}});
  };
  const Value gy =
      Cast(reshape(g.output_grad(0), rules::ReducedShape(a.shape(), axes, true)), a.dtype());
  Ints order;
  Ints back(a.ndim());
  Shape flat;
  int64_t size = 1;
  for (int i = 0; i < a.ndim(); ++i) {
    if ((axes >> i) & 1) continue;
    order.push_back(i);
    flat.push_back(a.shape()[i]);
  }
  const int count = a.ndim() - flat.size();
  if (count == 0) return g.SetInputGrad(0, gy);
  if (g.input_spec(0).size() == 0) return g.SetInputGrad(0, gy * a);
  for (int i = 0; i < a.ndim(); ++i) {
    if (((axes >> i) & 1) == 0) continue;
    if (count == 1) return g.SetInputGrad(0, TimesTheOthers(a, gy, i));
    order.push_back(i);
    size *= a.shape()[i];
  }
  for (int i = 0; i < a.ndim(); ++i) back[order[i]] = i;
  flat.push_back(size);
  const Value moved = g.Apply("transpose", {a}, {{"axes", AttrValue(order)}});
  Shape seed = flat;
  seed[seed.size() - 1] = 1;
  const Value ga = TimesTheOthers(reshape(moved, flat), reshape(gy, seed), flat.size() - 1);
  g.SetInputGrad(0,
                 g.Apply("transpose", {reshape(ga, moved.shape())}, {{"axes", AttrValue(back)}}));
}

// --- var and std ---

// Of float16 and integers in float32. attrs 2 and 3: ddof, dtype.
Value Variance(ComposeContext& c) {
  const Dtype dtype = DtypeOr(c.attr(3), MeanDtype(c.input(0).dtype()));
  const Value a = Cast(c.input(0), WideDtype(dtype));
  const Value squares = c.Apply("square", {a - OverKept(c, "mean", a)});
  const double count = static_cast<double>(ReducedSize(c)) - static_cast<double>(c.attr(2).AsInt());
  return Over(c, "sum", squares) / count;
}

// Not over an axis of an array without dimensions.
absl::Status VarRule(InferContext& c) {
  const int ndim = c.input(0).ndim();
  CHX_RETURN_IF_ERROR(rules::NormalizeAxes(c.name(), c.attr(0), ndim).status());
  return MeanRule<3>(c);
}

void RegisterMoments(OpRegistry& r) {
  Reduction(r, "var",
            "Variance over axes (all by default): the mean of squared distances from the mean, "
            "with `ddof` taken off the count. Integers give float32, unless a dtype is given.")
      .Attr("ddof", AttrType::kInt, 0)
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Method()
      .Compose(VarRule, [](ComposeContext& c) {
        c.SetOutput(0, Cast(Variance(c), DtypeOr(c.attr(3), MeanDtype(c.input(0).dtype()))));
      });
  Reduction(
      r, "std",
      "Standard deviation over axes: the square root of var. The gradient is 0 where it is 0.")
      .Attr("ddof", AttrType::kInt, 0)
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Method()
      .Compose(VarRule, [](ComposeContext& c) {
        const Value deviation = SqrtOrZero(Variance(c));
        c.SetOutput(0, Cast(deviation, DtypeOr(c.attr(3), MeanDtype(c.input(0).dtype()))));
      });
  Reduction(r, "ptp", "The greatest minus the least element over axes.")
      .Method()
      .Compose(PtpRule, [](ComposeContext& c) {
        const Value a = c.input(0);
        c.SetOutput(0, Over(c, "amax", a) - Over(c, "amin", a));
      });
}

// --- Without NaNs ---

// `kIdentity` in place of NaNs.
Value Filled(Value a, double identity) {
  return IsFloat(a.dtype()) ? Where(IsNan(a), identity, a) : a;
}

// NaN where there was nothing else.
void NanExtremum(ComposeContext& c, const char* op, double identity) {
  const Value a = c.input(0);
  if (!IsFloat(a.dtype())) return c.SetOutput(0, Over(c, op, a));
  c.SetOutput(0, Where(Over(c, "all", IsNan(a)), kNan, Over(c, op, Filled(a, identity))));
}

absl::Status ArgRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, SingleReductionAxis(c.name(), c.attr(0), a.ndim()));
  CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), a.shape, axes));
  return c.AddOutput(Dtype::kInt64, rules::ReducedShape(a.shape, axes, c.attr(1).AsBool()));
}

Value SumFilled(ComposeContext& c, absl::string_view op, double identity) {
  return c.Apply(op, {Filled(c.input(0), identity)},
                 {{"axis", c.attr(0)}, {"keepdims", c.attr(1)}, {"dtype", c.attr(2)}});
}

// As Variance, of what is not NaN; NaN where `ddof` leaves no degrees of freedom.
Value NanVariance(ComposeContext& c) {
  const Dtype dtype = DtypeOr(c.attr(3), MeanDtype(c.input(0).dtype()));
  const Value a = Cast(c.input(0), WideDtype(dtype));
  const Value nan = IsNan(a);
  const Value count = Cast(OverKept(c, "sum", c.Apply("logical_not", {nan})), a.dtype());
  const Value mean = OverKept(c, "sum", Where(nan, 0, a)) / count;
  // NaNs are filled before the maths, so that they have no part in the gradient.
  const Value centred = Where(nan, 0, Where(nan, 0, a) - mean);
  const Value free =
      Over(c, "sum", c.Apply("logical_not", {nan})) - Value(Scalar(c.attr(2).AsInt()));
  const Value squares = Over(c, "sum", c.Apply("square", {centred}));
  const Value left = c.Apply("greater", {free, 0});
  return Where(left, squares / Cast(Where(left, free, 1), a.dtype()), kNan);
}

void RegisterNanMoments(OpRegistry& r) {
  const auto add = [&r](const char* name, const char* doc, ComposeFn compose) {
    Reduction(r, name, doc)
        .Attr("ddof", AttrType::kInt, 0)
        .Attr("dtype", AttrType::kDtype, AttrValue())
        .Compose(MeanRule<3>, compose);
  };
  add("nanvar", "Variance over axes of what is not NaN; NaN where `ddof` leaves nothing.",
      [](ComposeContext& c) {
        c.SetOutput(0, Cast(NanVariance(c), DtypeOr(c.attr(3), MeanDtype(c.input(0).dtype()))));
      });
  add("nanstd",
      "Standard deviation over axes of what is not NaN: the square root of nanvar. The gradient is "
      "0 where it is 0.",
      [](ComposeContext& c) {
        const Value deviation = SqrtOrZero(NanVariance(c));
        c.SetOutput(0, Cast(deviation, DtypeOr(c.attr(3), MeanDtype(c.input(0).dtype()))));
      });
}

void RegisterNan(OpRegistry& r) {
  Reduction(r, "nansum", "Sum over axes, NaNs counting as 0. Bool and integers give int64.")
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Compose(SumRule, [](ComposeContext& c) { c.SetOutput(0, SumFilled(c, "sum", 0)); });
  Reduction(r, "nanprod", "Product over axes, NaNs counting as 1. Bool and integers give int64.")
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Compose(SumRule, [](ComposeContext& c) { c.SetOutput(0, SumFilled(c, "prod", 1)); });
  Reduction(r, "nanmean", "Mean over axes of what is not NaN. Integers give float32.")
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Compose(MeanRule<2>, [](ComposeContext& c) {
        const Dtype dtype = DtypeOr(c.attr(2), MeanDtype(c.input(0).dtype()));
        const Value a = Cast(c.input(0), WideDtype(dtype));
        const Value count = Over(c, "sum", c.Apply("logical_not", {IsNan(a)}));
        c.SetOutput(0, Cast(Over(c, "sum", Filled(a, 0)) / Cast(count, a.dtype()), dtype));
      });
  Reduction(r, "nanmax", "Greatest element over axes that is not NaN; NaN if there is none.")
      .Compose(SameRule, [](ComposeContext& c) { NanExtremum(c, "amax", -kInf); });
  Reduction(r, "nanmin", "Least element over axes that is not NaN; NaN if there is none.")
      .Compose(SameRule, [](ComposeContext& c) { NanExtremum(c, "amin", kInf); });
  const auto arg = [&r](const char* name, const char* doc, ComposeFn compose) {
    r.Add(name)
        .Doc(doc)
        .Inputs({"a"})
        .Outputs({"y"})
        .Attr("axis", AttrType::kInt, AttrValue())
        .Attr("keepdims", AttrType::kBool, false)
        .NoGradient()
        .Compose(ArgRule, compose);
  };
  arg("nanargmax", "Index (int64) of the first greatest element that is not NaN; 0 if all are.",
      [](ComposeContext& c) { c.SetOutput(0, Over(c, "argmax", Filled(c.input(0), -kInf))); });
  arg("nanargmin", "Index (int64) of the first least element that is not NaN; 0 if all are.",
      [](ComposeContext& c) { c.SetOutput(0, Over(c, "argmin", Filled(c.input(0), kInf))); });
  r.Add("nan_to_num")
      .Doc(
          "x with NaN replaced by `nan`, and infinities by `posinf` and `neginf`: by default the "
          "greatest and least finite values.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Attr("nan", AttrType::kFloat, 0.0)
      .Attr("posinf", AttrType::kFloat, AttrValue())
      .Attr("neginf", AttrType::kFloat, AttrValue())
      .Compose(rules::Same, [](ComposeContext& c) {
        const Value x = c.input(0);
        if (!IsFloat(x.dtype())) return c.SetOutput(0, x);
        const double greatest = x.dtype() == Dtype::kFloat16   ? 65504.0
                                : x.dtype() == Dtype::kFloat32 ? std::numeric_limits<float>::max()
                                                               : std::numeric_limits<double>::max();
        Value y = c.Apply("maximum", {c.Apply("minimum", {x, greatest}), -greatest});
        for (int i = 1; i <= 2; ++i) {
          if (!c.attr(i).has_value()) continue;
          y = Where(c.Apply("equal", {x, i == 1 ? kInf : -kInf}), c.attr(i).AsFloat(), y);
        }
        c.SetOutput(0, Where(IsNan(x), c.attr(0).AsFloat(), y));
      });
}

// --- median ---

absl::Status MedianRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  uint32_t axes = (uint32_t{1} << a.ndim()) - 1;
  if (c.attr(0).has_value()) {
    CHX_ASSIGN_OR_RETURN(const int axis,
                         rules::NormalizeAxis(c.name(), c.attr(0).AsInt(), a.ndim()));
    axes = uint32_t{1} << axis;
  }
  CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), a.shape, axes));
  return c.AddOutput(MeanDtype(a.dtype), rules::ReducedShape(a.shape, axes, c.attr(1).AsBool()));
}

void Median(ComposeContext& c) {
  const Value a = c.input(0);
  Value x = Cast(a, MeanDtype(a.dtype()));
  const bool flat = !c.attr(0).has_value();
  if (flat) x = c.Apply("ravel", {x});
  const int axis = flat ? 0 : rules::NormalizeAxis("median", c.attr(0).AsInt(), a.ndim()).value();
  const int64_t size = x.shape()[axis];
  const Value sorted = c.Apply("sort", {x}, {{"axis", int64_t{axis}}});
  IndexBuilder middle;
  for (int i = 0; i < axis; ++i) middle.Slice({}, {}, {});
  middle.Slice((size - 1) / 2, size / 2 + 1, {});
  const AttrValue along(Ints{axis});
  const Value values = c.Apply("getitem", {sorted}, {{"index", middle.Build()}});
  const Value mean = c.Apply("mean", {values}, {{"axis", along}, {"keepdims", true}});
  const Value nan = c.Apply("any", {IsNan(x)}, {{"axis", along}, {"keepdims", true}});
  const uint32_t axes = flat ? (uint32_t{1} << a.ndim()) - 1 : uint32_t{1} << axis;
  const Shape shape = rules::ReducedShape(a.shape(), axes, c.attr(1).AsBool());
  c.SetOutput(0, c.Apply("reshape", {Where(nan, kNan, mean)},
                         {{"newshape", AttrValue::FromInts(shape.span())}}));
}

// --- Comparison of whole arrays ---

Value IsClose(ComposeContext& c) {
  const Dtype dtype = MeanDtype(PromoteTypes(c.input(0).dtype(), c.input(1).dtype()));
  const Value a = Cast(c.input(0), dtype);
  const Value b = Cast(c.input(1), dtype);
  const Value bound = c.Apply("abs", {b}) * c.attr(0).AsFloat() + c.attr(1).AsFloat();
  const Value near = c.Apply("less_equal", {c.Apply("abs", {a - b}), bound});
  // An infinite bound says nothing.
  const Value finite = c.Apply("logical_and", {near, c.Apply("isfinite", {b})});
  const Value close = c.Apply("logical_or", {finite, c.Apply("equal", {a, b})});
  if (!c.attr(2).AsBool()) return close;
  return c.Apply("logical_or", {close, c.Apply("logical_and", {IsNan(a), IsNan(b)})});
}

void RegisterCloseness(OpRegistry& r) {
  const auto add = [&r](const char* name, const char* doc, InferFn rule, ComposeFn compose) {
    r.Add(name)
        .Doc(doc)
        .Inputs({"a", "b"})
        .Outputs({"y"})
        .Attr("rtol", AttrType::kFloat, 1e-5)
        .Attr("atol", AttrType::kFloat, 1e-8)
        .Attr("equal_nan", AttrType::kBool, false)
        .NoGradient()
        .Compose(rule, compose);
  };
  add("isclose", "abs(a - b) <= atol + rtol * abs(b), elementwise; equal infinities are close.",
      rules::Comparison, [](ComposeContext& c) { c.SetOutput(0, IsClose(c)); });
  add(
      "allclose", "Whether all elements are close, as a 0-d bool.",
      [](InferContext& c) -> absl::Status {
        Shape shape;
        CHX_RETURN_IF_ERROR(rules::BroadcastInputs(c, 0, &shape));
        return c.AddOutput(Dtype::kBool, {});
      },
      [](ComposeContext& c) { c.SetOutput(0, c.Apply("all", {IsClose(c)})); });
}

}  // namespace

void RegisterStatistics(OpRegistry& r) {
  Reduction(r, "all", "Whether all elements over axes are non-zero.").Infer(TestRule).Method();
  Reduction(r, "any", "Whether any element over axes is non-zero.").Infer(TestRule).Method();
  Reduction(r, "prod",
            "Product over axes (all by default). Bool and integers give int64, unless a dtype is "
            "given.")
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Infer(SumRule)
      .Method()
      .Saves({"a"})
      .Gradient(ProdGradient);
  r.Add("count_nonzero")
      .Doc("How many elements over axes (all by default) are non-zero, as int64.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInts, AttrValue())
      .Attr("keepdims", AttrType::kBool, false)
      .NoGradient()
      .Compose(CountRule, [](ComposeContext& c) {
        c.SetOutput(0, Over(c, "sum", c.Apply("not_equal", {c.input(0), 0})));
      });
  RegisterMoments(r);
  RegisterNan(r);
  r.Add("median")
      .Doc(
          "The middle element along an axis (of all by default), or the mean of the middle two; "
          "NaN "
          "if there is a NaN. Integers give float32.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInt, AttrValue())
      .Attr("keepdims", AttrType::kBool, false)
      .Compose(MedianRule, Median);
  RegisterCloseness(r);
  RegisterNanMoments(r);
}

}  // namespace chx
