// Reductions that leave out NaNs: compositions.
#include <limits>

#include "ops/defs/common/expressions.h"
#include "ops/defs/common/reductions.h"
#include "ops/defs/common/root_or_zero.h"
#include "ops/defs/register_groups.h"

namespace chx {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Value IsNan(Value a) { return a.context()->Apply("isnan", {a}); }

// a with `identity` in place of NaNs.
Value Filled(Value a, double identity) {
  return IsFloat(a.dtype()) ? Where(IsNan(a), identity, a) : a;
}

// The extremum of elements that are not NaN; NaN where there are none.
void NanExtremum(ComposeContext& c, const char* op, double identity) {
  const Value a = c.input(0);
  if (!IsFloat(a.dtype())) return c.SetOutput(0, Over(c, op, a));
  c.SetOutput(0, Where(Over(c, "all", IsNan(a)), kNan, Over(c, op, Filled(a, identity))));
}

Value SumFilled(ComposeContext& c, absl::string_view op, double identity) {
  return c.Apply(op, {Filled(c.input(0), identity)},
                 {{"axis", c.attr(0)}, {"keepdims", c.attr(1)}, {"dtype", c.attr(2)}});
}

// As Variance in statistics.cc, over elements that are not NaN. NaN where `ddof` leaves no degrees
// of freedom.
Value NanVariance(ComposeContext& c) {
  const Dtype dtype = DtypeOr(c.attr(3), AtLeastFloat(c.input(0).dtype()));
  const Value a = Cast(c.input(0), MeanComputeDtype(dtype));
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
    AddReduction(r, name, doc)
        .Attr("ddof", AttrType::kInt, 0)
        .Attr("dtype", AttrType::kDtype, AttrValue())
        .Compose(MeanRule<3>, compose);
  };
  add("nanvar", "Variance over axes of what is not NaN; NaN where `ddof` leaves nothing.",
      [](ComposeContext& c) {
        c.SetOutput(0, Cast(NanVariance(c), DtypeOr(c.attr(3), AtLeastFloat(c.input(0).dtype()))));
      });
  add("nanstd",
      "Standard deviation over axes of what is not NaN: the square root of nanvar. The gradient is "
      "0 where it is 0.",
      [](ComposeContext& c) {
        const Value deviation = SqrtOrZero(NanVariance(c));
        c.SetOutput(0, Cast(deviation, DtypeOr(c.attr(3), AtLeastFloat(c.input(0).dtype()))));
      });
}

void RegisterNanSums(OpRegistry& r) {
  AddReduction(r, "nansum", "Sum over axes, NaNs counting as 0. Bool and integers give int64.")
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Compose(SumRule, [](ComposeContext& c) { c.SetOutput(0, SumFilled(c, "sum", 0)); });
  AddReduction(r, "nanprod", "Product over axes, NaNs counting as 1. Bool and integers give int64.")
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Compose(SumRule, [](ComposeContext& c) { c.SetOutput(0, SumFilled(c, "prod", 1)); });
  AddReduction(r, "nanmean", "Mean over axes of what is not NaN. Integers give float32.")
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Compose(MeanRule<2>, [](ComposeContext& c) {
        const Dtype dtype = DtypeOr(c.attr(2), AtLeastFloat(c.input(0).dtype()));
        const Value a = Cast(c.input(0), MeanComputeDtype(dtype));
        const Value count = Over(c, "sum", c.Apply("logical_not", {IsNan(a)}));
        c.SetOutput(0, Cast(Over(c, "sum", Filled(a, 0)) / Cast(count, a.dtype()), dtype));
      });
}

void RegisterNanExtrema(OpRegistry& r) {
  AddReduction(r, "nanmax", "Greatest element over axes that is not NaN; NaN if there is none.")
      .Compose(ExtremumRule, [](ComposeContext& c) { NanExtremum(c, "amax", -kInfinity); });
  AddReduction(r, "nanmin", "Least element over axes that is not NaN; NaN if there is none.")
      .Compose(ExtremumRule, [](ComposeContext& c) { NanExtremum(c, "amin", kInfinity); });
  const auto arg = [&r](const char* name, const char* doc, ComposeFn compose) {
    AddArgReduction(r, name, doc).NoGradient().Compose(ArgExtremumRule, compose);
  };
  arg("nanargmax", "Index (int64) of the first greatest element that is not NaN; 0 if all are.",
      [](ComposeContext& c) { c.SetOutput(0, Over(c, "argmax", Filled(c.input(0), -kInfinity))); });
  arg("nanargmin", "Index (int64) of the first least element that is not NaN; 0 if all are.",
      [](ComposeContext& c) { c.SetOutput(0, Over(c, "argmin", Filled(c.input(0), kInfinity))); });
}

}  // namespace

void RegisterStatisticsNan(OpRegistry& r) {
  RegisterNanSums(r);
  RegisterNanMoments(r);
  RegisterNanExtrema(r);
}

}  // namespace chx
