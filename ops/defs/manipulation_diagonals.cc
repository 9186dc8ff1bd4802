// Diagonals of matrices, as views and as new matrices, and their sums.
#include <algorithm>

#include "ops/basic_index.h"
#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

constexpr int64_t kMaxOffset = int64_t{1} << 31;  // of a new matrix's diagonal

// attrs: offset, axis1, axis2.
struct Diagonal {
  int axis1;
  int axis2;
  int64_t row;  // where the diagonal starts
  int64_t column;
  int64_t length;
};

absl::StatusOr<Diagonal> ResolveDiagonal(const OpDef& op, const AttrValue& offset,
                                         const AttrValue& axis1, const AttrValue& axis2,
                                         const Shape& shape) {
  Diagonal diagonal = {};
  CHX_ASSIGN_OR_RETURN(diagonal.axis1, rules::NormalizeAxis(op.name, axis1.AsInt(), shape.size()));
  CHX_ASSIGN_OR_RETURN(diagonal.axis2, rules::NormalizeAxis(op.name, axis2.AsInt(), shape.size()));
  if (diagonal.axis1 == diagonal.axis2) {
    return DimensionError("[", op.name, "] expects two distinct axes, got ", diagonal.axis1,
                          " twice");
  }
  const int64_t rows = shape[diagonal.axis1];
  const int64_t columns = shape[diagonal.axis2];
  // A diagonal beyond the sizes is empty, however far away it is.
  const int64_t k = std::min(std::max(offset.AsInt(), -rows), columns);
  diagonal.row = std::max<int64_t>(0, -k);
  diagonal.column = std::max<int64_t>(0, k);
  diagonal.length = std::min(rows - diagonal.row, columns - diagonal.column);
  return diagonal;
}

absl::Status DiagonalView(InferContext& c, const AttrValue& axis1, const AttrValue& axis2) {
  const ArraySpec& a = c.input(0);
  CHX_ASSIGN_OR_RETURN(const Diagonal diagonal,
                       ResolveDiagonal(c.op(), c.attr(0), axis1, axis2, a.shape));
  ArraySpec view = a;
  view.shape = Shape();
  view.strides = Strides();
  for (int i = 0; i < a.ndim(); ++i) {
    if (i == diagonal.axis1 || i == diagonal.axis2) continue;
    view.shape.push_back(a.shape[i]);
    view.strides.push_back(a.strides[i]);
  }
  view.shape.push_back(diagonal.length);
  view.strides.push_back(a.strides[diagonal.axis1] + a.strides[diagonal.axis2]);
  if (view.size() > 0) {
    view.offset +=
        diagonal.row * a.strides[diagonal.axis1] + diagonal.column * a.strides[diagonal.axis2];
  }
  c.AddView(view);
  return absl::OkStatus();
}

absl::Status DiagonalRule(InferContext& c) { return DiagonalView(c, c.attr(1), c.attr(2)); }

// Zeros of (..., rows, columns) with `values` (..., n) on a diagonal, which is an evenly spaced
// slice of the flattened matrix.
Value OnDiagonal(OpContext& c, Value values, int64_t rows, int64_t columns, int64_t row,
                 int64_t column) {
  Shape flat = values.shape();
  const int last = flat.size() - 1;
  const int64_t length = flat[last];
  flat[last] = rows * columns;
  const int64_t first = row * columns + column;
  IndexBuilder index;
  index.Ellipsis().Slice(first, first + length * (columns + 1), columns + 1);
  const Value placed =
      c.Apply("getitem_grad", {values}, {{"shape", ShapeAttr(flat)}, {"index", index.Build()}});
  Shape shape = flat;
  shape[last] = rows;
  shape.push_back(columns);
  return Reshape(placed, shape);
}

void DiagonalGradient(GradContext& g) {
  const Shape& shape = g.input_spec(0).shape;
  const Diagonal diagonal = *ResolveDiagonal(g.op(), g.attr(0), g.attr(1), g.attr(2), shape);
  const Value matrices = OnDiagonal(g, g.output_grad(0), shape[diagonal.axis1],
                                    shape[diagonal.axis2], diagonal.row, diagonal.column);
  g.SetInputGrad(0, g.Apply("moveaxis", {matrices},
                            {{"source", AttrValue(Ints{-2, -1})},
                             {"destination", AttrValue(Ints{diagonal.axis1, diagonal.axis2})}}));
}

// (N,): a matrix with v on diagonal k; (M, N): its diagonal k.
absl::Status DiagRule(InferContext& c) {
  const Shape& shape = c.input(0).shape;
  if (shape.size() == 2) return DiagonalView(c, 0, 1);
  if (shape.size() != 1) {
    return DimensionError("[diag] expects 1 or 2 dimensions, got shape ", shape.ToString());
  }
  const int64_t k = c.attr(0).AsInt();
  if (k < -kMaxOffset || k > kMaxOffset) {
    return DimensionError("[diag] expects a smaller k, got ", k);
  }
  const int64_t n = shape[0] + (k < 0 ? -k : k);
  return c.AddOutput(c.input(0).dtype, {n, n});
}

Value DiagMatrix(ComposeContext& c, Value v) {
  const int64_t k = c.attr(0).AsInt();
  const int64_t n = v.shape()[0] + (k < 0 ? -k : k);
  return OnDiagonal(c, v, n, n, std::max<int64_t>(0, -k), std::max<int64_t>(0, k));
}

absl::Status DiagFlatRule(InferContext& c) {
  const int64_t k = c.attr(0).AsInt();
  if (k < -kMaxOffset || k > kMaxOffset) {
    return DimensionError("[diagflat] expects a smaller k, got ", k);
  }
  const int64_t n = c.input(0).size() + (k < 0 ? -k : k);
  return c.AddOutput(c.input(0).dtype, {n, n});
}

absl::Status TraceRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  CHX_ASSIGN_OR_RETURN(const Diagonal diagonal,
                       ResolveDiagonal(c.op(), c.attr(0), c.attr(1), c.attr(2), a.shape));
  Shape shape;
  for (int i = 0; i < a.ndim(); ++i) {
    if (i != diagonal.axis1 && i != diagonal.axis2) shape.push_back(a.shape[i]);
  }
  return c.AddOutput(IsFloat(a.dtype) ? a.dtype : Dtype::kInt64, shape);
}

}  // namespace

void RegisterManipulationDiagonals(OpRegistry& r) {
  const auto diagonal = [&r](const char* name, const char* doc) -> OpDef& {
    return r.Add(name)
        .Doc(doc)
        .Inputs({"a"})
        .Outputs({"y"})
        .Attr("offset", AttrType::kInt, 0)
        .Attr("axis1", AttrType::kInt, 0)
        .Attr("axis2", AttrType::kInt, 1)
        .Method();
  };
  diagonal("diagonal", "A diagonal of the matrices along two axes, as the last axis. A view.")
      .View(DiagonalRule)
      .Gradient(DiagonalGradient);
  diagonal("trace", "The sum of a diagonal. Bool and integers give int64.")
      .Compose(TraceRule, [](ComposeContext& c) {
        const Value diagonal =
            c.Apply("diagonal", {c.input(0)},
                    {{"offset", c.attr(0)}, {"axis1", c.attr(1)}, {"axis2", c.attr(2)}});
        c.SetOutput(0, c.Apply("sum", {diagonal}, {{"axis", AttrValue(Ints{-1})}}));
      });
  r.Add("diag")
      .Doc("Of a matrix, diagonal k, a view; of (N,), the square matrix with v on diagonal k.")
      .Inputs({"v"})
      .Outputs({"y"})
      .Attr("k", AttrType::kInt, 0)
      .Compose(DiagRule, [](ComposeContext& c) {
        const Value v = c.input(0);
        c.SetOutput(0, v.ndim() == 2 ? c.Apply("diagonal", {v}, {{"offset", c.attr(0)}})
                                     : DiagMatrix(c, v));
      });
  r.Add("diagflat")
      .Doc("The square matrix with the flattened v on diagonal k.")
      .Inputs({"v"})
      .Outputs({"y"})
      .Attr("k", AttrType::kInt, 0)
      .Compose(DiagFlatRule, [](ComposeContext& c) {
        c.SetOutput(0, DiagMatrix(c, c.Apply("ravel", {c.input(0)})));
      });
}

}  // namespace chx
