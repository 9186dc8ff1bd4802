// Triangles, evenly spaced values and grids. Compositions.
#include <algorithm>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// A bool (n, m) array: whether column - row <= k.
Value Triangle(OpContext& c, int64_t n, int64_t m, int64_t k) {
  const auto range = [&](int64_t start, int64_t size) {
    return c.Apply(
        "arange", {},
        {{"start", Scalar(start)}, {"stop", Scalar(start + size)}, {"dtype", Dtype::kInt64}});
  };
  return c.Apply("greater_equal", {Reshape(range(0, n), {n, 1}), range(-k, m)});
}

// k, bounded so that adding it to a size cannot overflow. The bound is beyond any size.
int64_t BoundedK(const AttrValue& k) {
  constexpr int64_t kFar = int64_t{1} << 60;
  return std::min(std::max(k.AsInt(), -kFar), kFar);
}

// Triangle creates an array of n and one of m elements, even where the result has no elements.
absl::Status CheckTriangle(const InferContext& c, int64_t n, int64_t m) {
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), {n}, Dtype::kInt64));
  return CheckShape(c.name(), {m}, Dtype::kInt64);
}

absl::Status TriRule(InferContext& c) {
  const int64_t n = c.attr(0).AsInt();
  const int64_t m = c.attr(1).has_value() ? c.attr(1).AsInt() : n;
  CHX_RETURN_IF_ERROR(CheckTriangle(c, n, m));
  return c.AddOutput(c.attr(3).AsDtype(), {n, m});
}

absl::Status PartRule(InferContext& c) {
  const int ndim = c.input(0).ndim();
  if (ndim == 0) return DimensionError("[", c.name(), "] expects at least one dimension, got ()");
  const Shape& shape = c.input(0).shape;
  const int64_t n = shape[ndim - 1];
  CHX_RETURN_IF_ERROR(CheckTriangle(c, ndim == 1 ? n : shape[ndim - 2], n));
  return ndim == 1 ? c.AddOutput(c.input(0).dtype, {n, n}) : rules::Same(c);
}

// m where the triangle is, or is not, `below`; 0 elsewhere.
void Triangle(ComposeContext& c, bool below) {
  const Value m = c.input(0);
  const int64_t columns = m.shape().back();
  const int64_t rows = m.ndim() == 1 ? columns : m.shape()[m.ndim() - 2];
  const Value triangle = Triangle(c, rows, columns, BoundedK(c.attr(0)) - (below ? 0 : 1));
  c.SetOutput(0, below ? c.Apply("where", {triangle, m, Scalar(false)})
                       : c.Apply("where", {triangle, Scalar(false), m}));
}

absl::Status LinspaceRule(InferContext& c) {
  const int64_t num = c.attr(2).AsInt();
  if (num < 0) return ValueError("[linspace] expects num from 0 on, got ", num);
  return c.AddOutput(c.attr(4).AsDtype(), {num});
}

void Linspace(ComposeContext& c) {
  const double start = c.attr(0).AsScalar().AsDouble();
  const double stop = c.attr(1).AsScalar().AsDouble();
  const int64_t num = c.attr(2).AsInt();
  const bool endpoint = c.attr(3).AsBool();
  const Dtype dtype = c.attr(4).AsDtype();
  const double steps = static_cast<double>(endpoint ? num - 1 : num);
  Value i = c.Apply("arange", {}, {{"start", Scalar(num)}, {"dtype", Dtype::kFloat64}});
  Value y = i * (steps > 0 ? (stop - start) / steps : 0.0) + start;
  if (endpoint && num > 1) {
    y = c.Apply("where", {c.Apply("equal", {i, static_cast<double>(num - 1)}), stop, y});
  }
  if (IsInt(dtype)) y = c.Apply("floor", {y});
  c.SetOutput(0, c.Apply("astype", {y}, {{"dtype", dtype}}));
}

// Output i has the elements of input i, in C order, along its own axis and is broadcast along the
// others.
absl::Status MeshgridRule(InferContext& c) {
  const int n = c.num_inputs();
  if (n > kMaxNdim) return DimensionError("[meshgrid] expects at most ", kMaxNdim, " arrays");
  Shape shape;
  for (int i = 0; i < n; ++i) {
    shape.push_back(c.input(i).size());
  }
  if (c.attr(0).AsInt() == 0 && n > 1) {
    const int64_t first = shape[0];
    shape[0] = shape[1];
    shape[1] = first;
  }
  for (int i = 0; i < n; ++i) CHX_RETURN_IF_ERROR(c.AddOutput(c.input(i).dtype, shape));
  return absl::OkStatus();
}

void Meshgrid(ComposeContext& c) {
  const int n = c.num_inputs();
  const bool swapped = c.attr(0).AsInt() == 0 && n > 1;
  const auto axis_of = [swapped](int i) { return swapped && i < 2 ? 1 - i : i; };
  Shape shape(n, 1);
  for (int i = 0; i < n; ++i) shape[axis_of(i)] = NumElements(c.input(i).shape());
  for (int i = 0; i < n; ++i) {
    Shape apart(n, 1);
    apart[axis_of(i)] = shape[axis_of(i)];
    c.SetOutput(i, BroadcastTo(Reshape(c.input(i), apart), shape));
  }
}

// Output i depends on input i alone.
void MeshgridGradient(GradContext& g) {
  const int n = g.num_inputs();
  const bool swapped = g.attr(0).AsInt() == 0 && n > 1;
  for (int i = 0; i < n; ++i) {
    if (!g.needs_grad(i)) continue;
    const ArraySpec& x = g.input_spec(i);
    if (g.output_grad(i).absent()) {
      g.SetInputGrad(i, g.Apply("zeros", {}, {{"shape", ShapeAttr(x.shape)}, {"dtype", x.dtype}}));
      continue;
    }
    Ints others;
    for (int axis = 0; axis < n; ++axis) {
      if (axis != (swapped && i < 2 ? 1 - i : i)) others.push_back(axis);
    }
    const Value sum = g.Apply("sum", {g.output_grad(i)}, {{"axis", AttrValue(others)}});
    g.SetInputGrad(i, Reshape(sum, x.shape));
  }
}

}  // namespace

void RegisterCreationGrids(OpRegistry& r) {
  r.Add("tri")
      .Doc("An (N, M) array of ones up to diagonal k and zeros beyond.")
      .Outputs({"y"})
      .Attr("N", AttrType::kInt)
      .Attr("M", AttrType::kInt, AttrValue())
      .Attr("k", AttrType::kInt, 0)
      .Attr("dtype", AttrType::kDtype, Dtype::kFloat32)
      .NoGradient()
      .Compose(TriRule, [](ComposeContext& c) {
        const int64_t m = c.attr(1).has_value() ? c.attr(1).AsInt() : c.attr(0).AsInt();
        const Value triangle = Triangle(c, c.attr(0).AsInt(), m, BoundedK(c.attr(2)));
        c.SetOutput(0, c.Apply("astype", {triangle}, {{"dtype", c.attr(3)}}));
      });
  const auto part = [&r](const char* name, const char* doc, ComposeFn compose) {
    r.Add(name)
        .Doc(doc)
        .Inputs({"m"})
        .Outputs({"y"})
        .Attr("k", AttrType::kInt, 0)
        .Compose(PartRule, compose);
  };
  part("tril", "The matrices m with zeros above diagonal k.",
       [](ComposeContext& c) { Triangle(c, true); });
  part("triu", "The matrices m with zeros below diagonal k.",
       [](ComposeContext& c) { Triangle(c, false); });
  r.Add("linspace")
      .Doc("`num` evenly spaced values from start to stop; stop is the last one with `endpoint`.")
      .Outputs({"y"})
      .Attr("start", AttrType::kScalar)
      .Attr("stop", AttrType::kScalar)
      .Attr("num", AttrType::kInt, 50)
      .Attr("endpoint", AttrType::kBool, true)
      .Attr("dtype", AttrType::kDtype, Dtype::kFloat32)
      .NoGradient()
      .Compose(LinspaceRule, Linspace);
  r.Add("meshgrid")
      .Doc(
          "Coordinate arrays of a grid from one-dimensional ones; 'xy' swaps the first two axes. "
          "Arrays with more dimensions are flattened.")
      .Inputs({"xi..."})
      .Outputs({"ys..."})
      .Choice("indexing", {"xy", "ij"}, 0)
      .Compose(MeshgridRule, Meshgrid)
      .Gradient(MeshgridGradient);
}

}  // namespace chx
