// Rows of tables by ids, and elements replaced where a mask holds: compositions.
#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// ids, weight; padding_idx.
absl::Status EmbeddingRule(InferContext& c) {
  const ArraySpec& ids = c.input(0);
  const ArraySpec& weight = c.input(1);
  if (!IsInt(ids.dtype)) {
    return DtypeError("[embedding] expects integer ids, got ", DtypeName(ids.dtype));
  }
  if (weight.ndim() == 0 || ids.ndim() + weight.ndim() - 1 > kMaxNdim) {
    return DimensionError("[embedding] expects a table of rows and at most ", kMaxNdim,
                          " dimensions in the result, got ", ids.shape.ToString(), " and ",
                          weight.shape.ToString());
  }
  const int64_t rows = weight.shape[0];
  if (rows == 0 && ids.size() != 0) {
    return IndexError("[embedding] expects a table with rows, got ", weight.shape.ToString());
  }
  if (c.attr(0).has_value() && (c.attr(0).AsInt() < -rows || c.attr(0).AsInt() >= rows)) {
    return ValueError("[embedding] expects padding_idx in [", -rows, ", ", rows, "), got ",
                      c.attr(0).AsInt());
  }
  Shape shape = ids.shape;
  for (int i = 1; i < weight.ndim(); ++i) shape.push_back(weight.shape[i]);
  return c.AddOutput(weight.dtype, shape);
}

// The row padding_idx has no part in the gradient.
void EmbeddingGradient(GradContext& g) {
  if (!g.needs_grad(1)) return;
  const Shape& table = g.input_spec(1).shape;
  Value gy = g.output_grad(0);
  if (g.attr(0).has_value()) {
    const Value ids = Cast(g.input(0), Dtype::kInt64);
    const int64_t rows = table[0];
    const int64_t padding = g.attr(0).AsInt() < 0 ? g.attr(0).AsInt() + rows : g.attr(0).AsInt();
    // As in take, ids count from the end too.
    const Value same = g.Apply("logical_or", {g.Apply("equal", {ids, Scalar(padding)}),
                                              g.Apply("equal", {ids, Scalar(padding - rows)})});
    Shape column = ids.shape();
    while (column.size() < gy.ndim()) column.push_back(1);
    gy = Where(Reshape(same, column), 0, gy);
  }
  g.SetInputGrad(
      1, g.Apply("take_grad", {gy, g.input(0)}, {{"shape", ShapeAttr(table)}, {"axis", 0}}));
}

// x, mask, value: an array without dimensions or a number.
absl::Status MaskedFillRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  if (!IsBool(c.input(1).dtype)) {
    return DtypeError("[masked_fill] expects a bool mask, got ", DtypeName(c.input(1).dtype));
  }
  const ScalarKind kind = c.is_scalar(2) ? c.scalar(2).kind() : KindOf(c.input(2).dtype);
  if (kind > KindOf(x.dtype)) {
    return DtypeError("[masked_fill] expects a value that ", DtypeName(x.dtype),
                      " has, got one of a higher kind");
  }
  if (!c.is_scalar(2) && c.input(2).ndim() != 0) {
    return DimensionError("[masked_fill] expects one value, got shape ",
                          c.input(2).shape.ToString());
  }
  Shape shape;
  CHX_RETURN_IF_ERROR(rules::BroadcastInputs(c, 0, &shape));
  return c.AddOutput(x.dtype, shape);
}

}  // namespace

void RegisterIndexingEmbedding(OpRegistry& r) {
  r.Add("embedding")
      .Doc(
          "Rows of weight (V, ...), chosen by integer ids of any shape. The row padding_idx gets "
          "no "
          "gradient. Ids out of range are an IndexError.")
      .Inputs({"ids", "weight"})
      .Outputs({"y"})
      .Attr("padding_idx", AttrType::kInt, AttrValue())
      .Compose(EmbeddingRule,
               [](ComposeContext& c) {
                 c.SetOutput(0, c.Apply("take", {c.input(1), c.input(0)}, {{"axis", 0}}));
               })
      .Saves({"ids"})
      .Gradient(EmbeddingGradient);
  r.Add("masked_fill")
      .Doc(
          "x with a value, a number or an array without dimensions, where a bool mask holds. x and "
          "the mask broadcast. Of x's dtype.")
      .Inputs({"x", "mask", "value|scalar"})
      .Outputs({"y"})
      .Compose(MaskedFillRule, [](ComposeContext& c) {
        const Value x = c.input(0);
        const Value value = c.input(2);
        c.SetOutput(0, Where(c.input(1), value.is_scalar() ? value : Cast(value, x.dtype()), x));
      });
}

}  // namespace chx
