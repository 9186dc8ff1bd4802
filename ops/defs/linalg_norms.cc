// Norms of vectors and matrices.
#include <cmath>
#include <limits>

#include "ops/defs/common/matrices.h"
#include "ops/defs/common/root_or_zero.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// The axes in the order given: for matrices, rows and columns. All axes if none are given.
absl::StatusOr<Ints> AxesOf(absl::string_view op, const AttrValue& axis, int ndim) {
  CHX_RETURN_IF_ERROR(rules::NormalizeAxes(op, axis, ndim).status());
  Ints axes;
  if (!axis.has_value()) {
    for (int i = 0; i < ndim; ++i) axes.push_back(i);
    return axes;
  }
  for (const int64_t i : axis.ints()) axes.push_back(i < 0 ? i + ndim : i);
  return axes;
}

bool IsMatrixOrd(double ord) {
  return std::isinf(ord) || std::fabs(ord) == 1 || std::fabs(ord) == 2;
}

absl::Status NormRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  if (!IsFloat(x.dtype)) {
    return DtypeError("[norm] expects floats, got ", DtypeName(x.dtype));
  }
  CHX_ASSIGN_OR_RETURN(const uint32_t mask, rules::NormalizeAxes(c.name(), c.attr(1), x.ndim()));
  CHX_ASSIGN_OR_RETURN(const Ints axes, AxesOf(c.name(), c.attr(1), x.ndim()));
  if (c.attr(0).has_value()) {
    const double ord = c.attr(0).AsFloat();
    if (axes.empty() || axes.size() > 2) {
      return ValueError("[norm] expects one axis or two with ord, got ", axes.size());
    }
    if (std::isnan(ord) || (axes.size() == 2 && !IsMatrixOrd(ord))) {
      return ValueError("[norm] expects ord to be 1, -1, 2, -2, inf or -inf for matrices, got ",
                        ord);
    }
    if (axes.size() == 2 || std::isinf(ord)) {
      CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), x.shape, mask));
    }
  }
  return c.AddOutput(x.dtype, rules::ReducedShape(x.shape, mask, c.attr(2).AsBool()));
}

Value Over(Value x, absl::string_view op, int64_t axis) {
  return x.context()->Apply(op, {x}, {{"axis", AttrValue(Ints{axis})}, {"keepdims", true}});
}

Value VectorNorm(OpContext& c, Value x, double ord, int64_t axis) {
  const Value magnitudes = c.Apply("abs", {x});
  if (std::isinf(ord)) return Over(magnitudes, ord > 0 ? "amax" : "amin", axis);
  if (ord == 1) return Over(magnitudes, "sum", axis);
  if (ord == 0) {
    // This norm is in the graph, too, with a gradient of zeros.
    const Value ones = c.Apply("where", {c.Apply("equal", {x, 0}), magnitudes * 0.0, 1.0});
    return Over(ones, "sum", axis);
  }
  // At 0 the gradient is 0, and not that of a power, which may be infinite.
  const Value zero = c.Apply("equal", {x, 0});
  const Value powers = c.Apply("power", {c.Apply("where", {zero, 1, magnitudes}), Value(ord)});
  const Value at_zero = ord > 0 ? 0.0 : std::numeric_limits<double>::infinity();
  const Value sum = Over(c.Apply("where", {zero, at_zero, powers}), "sum", axis);
  const auto root = [&c, ord](Value y) { return c.Apply("power", {y, Value(1 / ord)}); };
  return ord > 0 ? RootOrZero(sum, root) : root(sum);
}

// By singular values, or by the sums of magnitudes along rows or columns.
Value MatrixNorm(OpContext& c, Value x, double ord, const Ints& axes) {
  const char* const extremum = ord > 0 ? "amax" : "amin";
  if (std::fabs(ord) == 2) {
    const Value moved = c.Apply(
        "moveaxis", {x}, {{"source", AttrValue(axes)}, {"destination", AttrValue(Ints{-2, -1})}});
    const Value u = c.Apply("svd", {matrices::Wide(moved)}, {{"full_matrices", false}});
    return Cast(Over(Value(u.context(), u.id() + 1), extremum, -1), x.dtype());
  }
  const bool by_columns = !std::isinf(ord);
  const Value sums = Over(c.Apply("abs", {x}), "sum", axes[by_columns ? 0 : 1]);
  return Over(sums, extremum, axes[by_columns ? 1 : 0]);
}

void NormCompose(ComposeContext& c) {
  const Value x = c.input(0);
  const Ints axes = AxesOf(c.op().name, c.attr(1), x.ndim()).value_or(Ints());
  const bool has_ord = c.attr(0).has_value();
  if (!has_ord || (axes.size() == 1 && c.attr(0).AsFloat() == 2)) {
    const Value sum = c.Apply("sum", {x * x}, {{"axis", c.attr(1)}, {"keepdims", c.attr(2)}});
    return c.SetOutput(0, SqrtOrZero(sum));
  }
  const double ord = c.attr(0).AsFloat();
  const Value norm =
      axes.size() == 1 ? VectorNorm(c, x, ord, axes[0]) : MatrixNorm(c, x, ord, axes);
  const uint32_t mask = rules::NormalizeAxes(c.op().name, c.attr(1), x.ndim()).value_or(0);
  const Shape shape = rules::ReducedShape(x.shape(), mask, c.attr(2).AsBool());
  c.SetOutput(0,
              norm.shape() == shape
                  ? norm
                  : c.Apply("reshape", {norm}, {{"newshape", AttrValue::FromInts(shape.span())}}));
}

}  // namespace

void RegisterLinalgNorms(OpRegistry& r) {
  r.Add("norm")
      .Doc(
          "Square root of the sum of squares over axes (all by default). With ord, of vectors "
          "along "
          "one axis: (sum |x|^ord)^(1/ord), the greatest or least magnitude for inf or -inf, the "
          "number of non-zeros for 0. Of matrices along two axes: the greatest (least, if "
          "negative) "
          "sum of magnitudes of a column (1) or row (inf), or singular value (2). The gradient of "
          "roots is 0 where they are 0.")
      .Module("linalg")
      .Inputs({"x"})
      .Outputs({"y"})
      .Attr("ord", AttrType::kFloat, AttrValue())
      .Attr("axis", AttrType::kInts, AttrValue())
      .Attr("keepdims", AttrType::kBool, false)
      .Compose(NormRule, NormCompose);
}

}  // namespace chx
