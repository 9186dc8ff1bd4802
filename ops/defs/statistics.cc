// Tests, products, moments and medians over axes: mostly compositions of reductions.
#include <limits>

#include "ops/defs/common/expressions.h"
#include "ops/defs/common/reductions.h"
#include "ops/defs/common/root_or_zero.h"
#include "ops/defs/common/running_products.h"
#include "ops/defs/register_groups.h"

namespace chx {
namespace {

absl::Status TruthRule(InferContext& c) {
  c.CastInput(0, Dtype::kBool);
  return Reduce(c, Dtype::kBool);
}

absl::Status CountRule(InferContext& c) { return Reduce(c, Dtype::kInt64); }

// The input is cast to the result's dtype.
absl::Status ProdRule(InferContext& c) {
  const Dtype dtype = DtypeOr(c.attr(2), SumDtype(c.input(0).dtype));
  c.CastInput(0, dtype);
  return Reduce(c, dtype);
}

absl::Status PtpRule(InferContext& c) {
  if (!IsBool(c.input(0).dtype)) return ExtremumRule(c);
  return DtypeError("[ptp] expects a numeric dtype, got bool");
}

// Several axes are joined into one, the last. float16 is computed in float32.
void ProdGradient(GradContext& g) {
  const Dtype dtype = g.output_spec(0).dtype;
  const Value a = Cast(g.input(0), PromoteTypes(dtype, Dtype::kFloat32));
  const uint32_t axes = rules::NormalizeAxes("prod", g.attr(0), a.ndim()).value_or(0);
  const Value gy =
      Cast(Reshape(g.output_grad(0), rules::ReducedShape(a.shape(), axes, true)), a.dtype());
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
  const Value ga = TimesTheOthers(Reshape(moved, flat), Reshape(gy, seed), flat.size() - 1);
  g.SetInputGrad(0,
                 g.Apply("transpose", {Reshape(ga, moved.shape())}, {{"axes", AttrValue(back)}}));
}

// float16 and integers are computed in float32. attrs 2 and 3: ddof, dtype.
Value Variance(ComposeContext& c) {
  const Dtype dtype = DtypeOr(c.attr(3), AtLeastFloat(c.input(0).dtype()));
  const Value a = Cast(c.input(0), MeanComputeDtype(dtype));
  const Value squares = c.Apply("square", {a - OverKept(c, "mean", a)});
  const double count = ReducedCount(c) - static_cast<double>(c.attr(2).AsInt());
  return Over(c, "sum", squares) / count;
}

void RegisterMoments(OpRegistry& r) {
  AddReduction(r, "var",
               "Variance over axes (all by default): the mean of squared distances from the mean, "
               "with `ddof` taken off the count. Integers give float32, unless a dtype is given.")
      .Attr("ddof", AttrType::kInt, 0)
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Method()
      .Compose(MomentRule<3>, [](ComposeContext& c) {
        c.SetOutput(0, Cast(Variance(c), DtypeOr(c.attr(3), AtLeastFloat(c.input(0).dtype()))));
      });
  AddReduction(
      r, "std",
      "Standard deviation over axes: the square root of var. The gradient is 0 where it is 0.")
      .Attr("ddof", AttrType::kInt, 0)
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Method()
      .Compose(MomentRule<3>, [](ComposeContext& c) {
        const Value deviation = SqrtOrZero(Variance(c));
        c.SetOutput(0, Cast(deviation, DtypeOr(c.attr(3), AtLeastFloat(c.input(0).dtype()))));
      });
  AddReduction(r, "ptp", "The greatest minus the least element over axes.")
      .Method()
      .Compose(PtpRule, [](ComposeContext& c) {
        const Value a = c.input(0);
        c.SetOutput(0, Over(c, "amax", a) - Over(c, "amin", a));
      });
}

absl::Status MedianRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, OneAxisOrAll(c.name(), c.attr(0), a.ndim()));
  CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), a.shape, axes));
  return c.AddOutput(AtLeastFloat(a.dtype), rules::ReducedShape(a.shape, axes, c.attr(1).AsBool()));
}

void Median(ComposeContext& c) {
  const Value a = c.input(0);
  Value x = Cast(a, AtLeastFloat(a.dtype()));
  const bool flat = !c.attr(0).has_value();
  if (flat) x = c.Apply("ravel", {x});
  const int axis = flat ? 0 : rules::NormalizeAxis("median", c.attr(0).AsInt(), a.ndim()).value();
  const int64_t size = x.shape()[axis];
  const Value sorted = c.Apply("sort", {x}, {{"axis", int64_t{axis}}});
  const Value values = SliceAxis(sorted, axis, (size - 1) / 2, size / 2 + 1);
  const AttrValue along(Ints{axis});
  const Value mean = c.Apply("mean", {values}, {{"axis", along}, {"keepdims", true}});
  const Value nan = c.Apply("any", {c.Apply("isnan", {x})}, {{"axis", along}, {"keepdims", true}});
  const uint32_t axes = flat ? (uint32_t{1} << a.ndim()) - 1 : uint32_t{1} << axis;
  const Shape shape = rules::ReducedShape(a.shape(), axes, c.attr(1).AsBool());
  c.SetOutput(0, Reshape(Where(nan, std::numeric_limits<double>::quiet_NaN(), mean), shape));
}

void RegisterMedian(OpRegistry& r) {
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
}

}  // namespace

void RegisterStatistics(OpRegistry& r) {
  AddReduction(r, "all", "Whether all elements over axes are non-zero.").Infer(TruthRule).Method();
  AddReduction(r, "any", "Whether any element over axes is non-zero.").Infer(TruthRule).Method();
  AddReduction(
      r, "prod",
      "Product over axes (all by default). Bool and integers give int64, unless a dtype is "
      "given.")
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Infer(ProdRule)
      .Method()
      .Saves({"a"})
      .Gradient(ProdGradient);
  AddReduction(r, "count_nonzero",
               "How many elements over axes (all by default) are non-zero, as int64.")
      .NoGradient()
      .Compose(CountRule, [](ComposeContext& c) {
        c.SetOutput(0, Over(c, "sum", c.Apply("not_equal", {c.input(0), 0})));
      });
  RegisterMoments(r);
  RegisterMedian(r);
}

}  // namespace chx
