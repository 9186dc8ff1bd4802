// Views that rearrange axes or pick diagonals.
#include <algorithm>
#include <utility>

#include "ops/basic_index.h"
#include "ops/defs/groups.h"
#include "ops/op_context.h"
#include "ops/rules.h"

namespace chx {
namespace {

constexpr int64_t kMaxOffset = int64_t{1} << 31;  // of a new matrix's diagonal

// --- Permutations of axes: `order` says where each axis of the view comes from. ---

absl::StatusOr<Ints> SwapAxes(const OpDef& op, absl::Span<const AttrValue> attrs, int ndim) {
  CHX_ASSIGN_OR_RETURN(const int first, rules::NormalizeAxis(op.name, attrs[0].AsInt(), ndim));
  CHX_ASSIGN_OR_RETURN(const int second, rules::NormalizeAxis(op.name, attrs[1].AsInt(), ndim));
  Ints order;
  for (int i = 0; i < ndim; ++i) order.push_back(i);
  std::swap(order[first], order[second]);
  return order;
}

absl::StatusOr<Ints> RollAxis(const OpDef& op, absl::Span<const AttrValue> attrs, int ndim) {
  CHX_ASSIGN_OR_RETURN(const int axis, rules::NormalizeAxis(op.name, attrs[0].AsInt(), ndim));
  int64_t start = attrs[1].AsInt();
  if (start < -ndim || start > ndim) {
    return DimensionError("[rollaxis] expects a start in [", -ndim, ", ", ndim, "], got ", start);
  }
  if (start < 0) start += ndim;
  if (axis < start) --start;
  Ints order;
  for (int i = 0; i < ndim; ++i) {
    if (i != axis) order.push_back(i);
  }
  order.insert(order.begin() + start, axis);
  return order;
}

absl::StatusOr<Ints> MoveAxis(const OpDef& op, absl::Span<const AttrValue> attrs, int ndim) {
  for (int i = 0; i < 2; ++i) {
    if (!attrs[i].has_value()) continue;  // none, not all
    CHX_RETURN_IF_ERROR(rules::NormalizeAxes(op.name, attrs[i], ndim).status());
  }
  const Ints& source = attrs[0].ints();
  const Ints& destination = attrs[1].ints();
  if (source.size() != destination.size()) {
    return DimensionError("[moveaxis] expects as many destinations as sources, got ",
                          attrs[0].ToString(), " and ", attrs[1].ToString());
  }
  const auto normal = [ndim](int64_t axis) { return axis < 0 ? axis + ndim : axis; };
  Ints order(ndim, -1);
  uint32_t moved = 0;
  for (size_t i = 0; i < source.size(); ++i) {
    order[normal(destination[i])] = normal(source[i]);
    moved |= uint32_t{1} << normal(source[i]);
  }
  int next = 0;
  for (int64_t& from : order) {
    if (from >= 0) continue;
    while ((moved >> next) & 1) ++next;
    from = next++;
  }
  return order;
}

using OrderFn = absl::StatusOr<Ints> (*)(const OpDef& op, absl::Span<const AttrValue> attrs,
                                         int ndim);

template <OrderFn kOrder>
absl::Status PermuteRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  const auto attrs = absl::MakeConstSpan(&c.attr(0), 2);
  CHX_ASSIGN_OR_RETURN(const Ints order, kOrder(c.op(), attrs, a.ndim()));
  ArraySpec view = a;
  for (int i = 0; i < a.ndim(); ++i) {
    view.shape[i] = a.shape[static_cast<int>(order[i])];
    view.strides[i] = a.strides[static_cast<int>(order[i])];
  }
  c.AddView(view);
  return absl::OkStatus();
}

template <OrderFn kOrder>
void PermuteGradient(GradContext& g) {
  const Ints order = kOrder(g.op(), g.attrs(), g.input_spec(0).ndim()).value_or(Ints());
  Ints inverse(order.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  g.SetInputGrad(0, g.Apply("transpose", {g.output_grad(0)}, {{"axes", AttrValue(inverse)}}));
}

void RegisterPermutations(OpRegistry& r) {
  r.Add("swapaxes")
      .Doc("Two axes exchanged. A view.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("axis1", AttrType::kInt)
      .Attr("axis2", AttrType::kInt)
      .View(PermuteRule<SwapAxes>)
      .Method()
      .Gradient(PermuteGradient<SwapAxes>);
  r.Add("rollaxis")
      .Doc("An axis moved before another one. A view.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInt)
      .Attr("start", AttrType::kInt, 0)
      .View(PermuteRule<RollAxis>)
      .Gradient(PermuteGradient<RollAxis>);
  r.Add("moveaxis")
      .Doc("Axes (none by default) moved to other positions; the rest keeps its order. A view.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("source", AttrType::kInts, AttrValue())
      .Attr("destination", AttrType::kInts, AttrValue())
      .View(PermuteRule<MoveAxis>)
      .Gradient(PermuteGradient<MoveAxis>);
}

// --- Reversed axes ---

absl::Status Flip(InferContext& c, uint32_t axes) {
  ArraySpec view = c.input(0);
  for (int i = 0; i < view.ndim(); ++i) {
    if (((axes >> i) & 1) == 0) continue;
    if (view.size() > 0) view.offset += (view.shape[i] - 1) * view.strides[i];
    view.strides[i] = -view.strides[i];
  }
  c.AddView(view);
  return absl::OkStatus();
}

template <int kAxis>
absl::Status FlipOneRule(InferContext& c) {
  if (c.input(0).ndim() > kAxis) return Flip(c, uint32_t{1} << kAxis);
  return DimensionError("[", c.name(), "] expects at least ", kAxis + 1, " dimensions, got shape ",
                        c.input(0).shape.ToString());
}

void RegisterFlips(OpRegistry& r) {
  r.Add("flip")
      .Doc("The order along axes (all by default) reversed. A view.")
      .Inputs({"m"})
      .Outputs({"y"})
      .Attr("axes", AttrType::kInts, AttrValue())
      .View([](InferContext& c) -> absl::Status {
        CHX_ASSIGN_OR_RETURN(const uint32_t axes,
                             rules::NormalizeAxes(c.name(), c.attr(0), c.input(0).ndim()));
        return Flip(c, axes);
      })
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.Apply("flip", {g.output_grad(0)}, {{"axes", g.attr(0)}}));
      });
  r.Add("flipud")
      .Doc("The order along axis 0 reversed. A view.")
      .Inputs({"m"})
      .Outputs({"y"})
      .View(FlipOneRule<0>)
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.Apply("flipud", {g.output_grad(0)})); });
  r.Add("fliplr")
      .Doc("The order along axis 1 reversed. A view.")
      .Inputs({"m"})
      .Outputs({"y"})
      .View(FlipOneRule<1>)
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.Apply("fliplr", {g.output_grad(0)})); });
}

// --- More dimensions ---

// Inserts `before` axes of size 1 in front, and as many behind as make `ndim` dimensions.
absl::Status AtLeast(InferContext& c, int ndim, int before) {
  const ArraySpec& a = c.input(0);
  ArraySpec view = a;
  if (a.ndim() < ndim) {
    view.shape = Shape();
    view.strides = Strides();
    const auto ones = [&](int n) {
      for (int i = 0; i < n; ++i) {
        view.shape.push_back(1);
        view.strides.push_back(a.ndim() == 0 ? a.item_size() : 0);  // as in NumPy
      }
    };
    ones(before);
    for (int i = 0; i < a.ndim(); ++i) {
      view.shape.push_back(a.shape[i]);
      view.strides.push_back(a.strides[i]);
    }
    ones(ndim - a.ndim() - before);
  }
  c.AddView(view);
  return absl::OkStatus();
}

void RegisterAtLeast(OpRegistry& r) {
  const auto add = [&r](const char* name, const char* doc, InferFn rule) {
    r.Add(name).Doc(doc).Inputs({"a"}).Outputs({"y"}).View(rule).Gradient([](GradContext& g) {
      g.SetInputGrad(0, g.Apply("reshape", {g.output_grad(0)},
                                {{"newshape", AttrValue::FromInts(g.input_spec(0).shape.span())}}));
    });
  };
  add("atleast_1d", "a, with one dimension if it had none. A view.",
      [](InferContext& c) { return AtLeast(c, 1, 0); });
  add("atleast_2d", "a, with two dimensions if it had fewer: () and (N,) become (1, N). A view.",
      [](InferContext& c) { return AtLeast(c, 2, std::max(0, 2 - c.input(0).ndim())); });
  add("atleast_3d",
      "a, with three dimensions if it had fewer: (N,) becomes (1, N, 1), (M, N) (M, N, 1). A view.",
      [](InferContext& c) { return AtLeast(c, 3, c.input(0).ndim() < 2 ? 1 : 0); });
}

// --- Diagonals ---

// attrs: offset, axis1, axis2.
struct DiagonalPlace {
  int axis1;
  int axis2;
  int64_t row;  // where the diagonal starts
  int64_t column;
  int64_t length;
};

absl::StatusOr<DiagonalPlace> PlaceOf(const OpDef& op, const AttrValue& offset,
                                      const AttrValue& axis1, const AttrValue& axis2,
                                      const Shape& shape) {
  DiagonalPlace place = {};
  CHX_ASSIGN_OR_RETURN(place.axis1, rules::NormalizeAxis(op.name, axis1.AsInt(), shape.size()));
  CHX_ASSIGN_OR_RETURN(place.axis2, rules::NormalizeAxis(op.name, axis2.AsInt(), shape.size()));
  if (place.axis1 == place.axis2) {
    return DimensionError("[", op.name, "] expects two distinct axes, got ", place.axis1, " twice");
  }
  const int64_t rows = shape[place.axis1];
  const int64_t columns = shape[place.axis2];
  // Beyond the sizes there is nothing, however far.
  const int64_t k = std::min(std::max(offset.AsInt(), -rows), columns);
  place.row = std::max<int64_t>(0, -k);
  place.column = std::max<int64_t>(0, k);
  place.length = std::min(rows - place.row, columns - place.column);
  return place;
}

absl::Status DiagonalView(InferContext& c, const AttrValue& axis1, const AttrValue& axis2) {
  const ArraySpec& a = c.input(0);
  CHX_ASSIGN_OR_RETURN(const DiagonalPlace place,
                       PlaceOf(c.op(), c.attr(0), axis1, axis2, a.shape));
  ArraySpec view = a;
  view.shape = Shape();
  view.strides = Strides();
  for (int i = 0; i < a.ndim(); ++i) {
    if (i == place.axis1 || i == place.axis2) continue;
    view.shape.push_back(a.shape[i]);
    view.strides.push_back(a.strides[i]);
  }
  view.shape.push_back(place.length);
  view.strides.push_back(a.strides[place.axis1] + a.strides[place.axis2]);
  if (view.size() > 0) {
    view.offset += place.row * a.strides[place.axis1] + place.column * a.strides[place.axis2];
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
      c.Apply("getitem_grad", {values},
              {{"shape", AttrValue::FromInts(flat.span())}, {"index", index.Build()}});
  Shape shape = flat;
  shape[last] = rows;
  shape.push_back(columns);
  return c.Apply("reshape", {placed}, {{"newshape", AttrValue::FromInts(shape.span())}});
}

void DiagonalGradient(GradContext& g) {
  const Shape& shape = g.input_spec(0).shape;
  const DiagonalPlace place = *PlaceOf(g.op(), g.attr(0), g.attr(1), g.attr(2), shape);
  const Value matrices = OnDiagonal(g, g.output_grad(0), shape[place.axis1], shape[place.axis2],
                                    place.row, place.column);
  g.SetInputGrad(0, g.Apply("moveaxis", {matrices},
                            {{"source", AttrValue(Ints{-2, -1})},
                             {"destination", AttrValue(Ints{place.axis1, place.axis2})}}));
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
  CHX_ASSIGN_OR_RETURN(const DiagonalPlace place,
                       PlaceOf(c.op(), c.attr(0), c.attr(1), c.attr(2), a.shape));
  Shape shape;
  for (int i = 0; i < a.ndim(); ++i) {
    if (i != place.axis1 && i != place.axis2) shape.push_back(a.shape[i]);
  }
  return c.AddOutput(IsFloat(a.dtype) ? a.dtype : Dtype::kInt64, shape);
}

void RegisterDiagonals(OpRegistry& r) {
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

// --- Any strides ---

// Adds the bytes from the first to the last element along an axis; false if they are too many.
bool Extend(int64_t dim, int64_t stride, int64_t* begin, int64_t* end) {
  constexpr int64_t kMax = int64_t{1} << 58;  // kMaxNdim of them can be added
  if (stride > kMax || stride < -kMax) return false;
  if (dim < 2 || stride == 0) return true;
  if (dim - 1 > kMax / (stride < 0 ? -stride : stride)) return false;
  (stride < 0 ? *begin : *end) += (dim - 1) * stride;
  return true;
}

absl::Status AsStridedRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  const Ints& strides = c.attr(1).ints();
  const int64_t offset = c.attr(2).AsInt();
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), c.attr(0).ints(), a.dtype));
  ArraySpec view(a.dtype, Shape(c.attr(0).ints()), a.device);
  bool valid = a.is_contiguous() && view.shape.size() == static_cast<int>(strides.size()) &&
               offset >= 0 && offset <= a.nbytes() && offset % a.item_size() == 0;
  int64_t begin = offset;
  int64_t end = valid ? offset + a.item_size() : 0;
  for (int i = 0; valid && i < view.ndim(); ++i) {
    valid = strides[i] % a.item_size() == 0 && Extend(view.shape[i], strides[i], &begin, &end);
  }
  if (!valid || (view.size() > 0 && (begin < 0 || end > a.nbytes()))) {
    return DimensionError("[as_strided] expects strides and an offset within the ", a.nbytes(),
                          " bytes of a contiguous array, got shape ", view.shape.ToString(),
                          ", strides ", c.attr(1).ToString(), " and offset ", offset);
  }
  view.strides = Strides(strides);
  view.offset = a.offset + offset;
  c.AddView(view);
  return absl::OkStatus();
}

void RegisterAsStrided(OpRegistry& r) {
  r.Add("as_strided")
      .Doc("Elements of a contiguous array at any distances, in bytes. A view.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("shape", AttrType::kInts)
      .Attr("strides", AttrType::kInts)
      .Attr("offset", AttrType::kInt)
      .View(AsStridedRule)
      .Internal()
      .NoGradient();
}

}  // namespace

void RegisterViews(OpRegistry& r) {
  RegisterPermutations(r);
  RegisterFlips(r);
  RegisterAtLeast(r);
  RegisterDiagonals(r);
  RegisterAsStrided(r);
}

}  // namespace chx
