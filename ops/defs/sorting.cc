// Sorting, running sums, and reading and writing along an axis by positions.
#include "ops/defs/common/expressions.h"
#include "ops/defs/common/reductions.h"
#include "ops/defs/common/running_products.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// attr 0: axis; None works on the flattened array.
absl::Status AlongAxis(InferContext& c, Dtype dtype) {
  const ArraySpec& a = c.input(0);
  if (!c.attr(0).has_value()) return c.AddOutput(dtype, {a.size()});
  CHX_RETURN_IF_ERROR(rules::NormalizeAxis(c.name(), c.attr(0).AsInt(), a.ndim()).status());
  return c.AddOutput(dtype, a.shape);
}

// An array without dimensions is flattened over axis 0 and -1, too.
absl::Status AlongAxisOrFlat(InferContext& c, Dtype dtype) {
  return StandsForNone(c.attr(0), c.input(0).ndim()) ? c.AddOutput(dtype, {1})
                                                     : AlongAxis(c, dtype);
}

absl::Status SortRule(InferContext& c) { return AlongAxis(c, c.input(0).dtype); }
absl::Status ArgSortRule(InferContext& c) { return AlongAxisOrFlat(c, Dtype::kInt64); }
// attr 1: dtype.
absl::Status ScanRule(InferContext& c) {
  const Dtype own = IsFloat(c.input(0).dtype) ? c.input(0).dtype : Dtype::kInt64;
  const Dtype dtype = c.attr(1).has_value() ? c.attr(1).AsDtype() : own;
  c.CastInput(0, dtype);
  return AlongAxisOrFlat(c, dtype);
}

void SortGradient(GradContext& g) {
  const ArraySpec& a = g.input_spec(0);
  const Value order = g.Apply("argsort", {g.input(0)}, {{"axis", g.attr(0)}});
  const bool flat = !g.attr(0).has_value();
  const AttrValue axis = flat ? AttrValue(0) : g.attr(0);
  const AttrValue shape = flat ? AttrValue(Ints{a.size()}) : ShapeAttr(a.shape);
  const Value gx = g.Apply("take_along_axis_grad", {g.output_grad(0), order},
                           {{"shape", shape}, {"axis", axis}});
  g.SetInputGrad(0, flat ? Reshape(gx, a.shape) : gx);
}

// x summed from the end along the axis.
Value ReverseCumsum(GradContext& g, Value x) {
  const bool flat = !g.attr(0).has_value() || g.input_spec(0).ndim() == 0;
  const AttrValue axes(Ints{flat ? 0 : g.attr(0).AsInt()});
  const AttrValue axis = flat ? AttrValue(0) : g.attr(0);
  const Value reversed = g.Apply("flip", {x}, {{"axes", axes}});
  const Value summed = g.Apply("cumsum", {reversed}, {{"axis", axis}});
  const Value result = g.Apply("flip", {summed}, {{"axes", axes}});
  return flat ? Reshape(result, g.input_spec(0).shape) : result;
}

// float16 is computed in float32.
void CumprodGradient(GradContext& g) {
  const auto wide = [&g](Value x, const Shape& shape) {
    const Dtype dtype = PromoteTypes(g.output_spec(0).dtype, Dtype::kFloat32);
    x = Cast(x, dtype);
    return x.shape() == shape ? x : Reshape(x, shape);
  };
  const ArraySpec& a = g.input_spec(0);
  const Shape shape = g.output_spec(0).shape;  // flattened if there is no axis
  if (a.size() == 0) return g.SetInputGrad(0, wide(g.output_grad(0), a.shape));
  const int axis = g.attr(0).has_value()
                       ? rules::NormalizeAxis("cumprod", g.attr(0).AsInt(), a.ndim()).value_or(0)
                       : 0;
  const Value ga = RunningProductGradient(wide(g.input(0), shape), wide(g.output(0), shape),
                                          wide(g.output_grad(0), shape), axis);
  g.SetInputGrad(0, wide(ga, a.shape));
}

void RegisterAlong(OpRegistry& r) {
  const auto along = [&r](const char* name, const char* doc, AttrValue axis) -> OpDef& {
    OpDef& op = r.Add(name).Doc(doc).Inputs({"a"}).Outputs({"y"});
    return axis.has_value() ? op.NullableAttr("axis", AttrType::kInt, axis)
                            : op.Attr("axis", AttrType::kInt, AttrValue());
  };
  along("sort", "A copy sorted along an axis (the last by default; None: flattened), NaNs last.",
        -1)
      .Infer(SortRule)
      .Saves({"a"})
      .Gradient(SortGradient);
  along("argsort",
        "The indices (int64) that sort along an axis (the last by default; None: flattened). "
        "Equal elements keep their order; NaNs come last.",
        -1)
      .Infer(ArgSortRule)
      .StableInputs()  // a sort relies on an order
      .Method();
  along("cumsum",
        "Running sums along an axis (flattened by default). Integers give int64, unless a dtype is "
        "given.",
        AttrValue())
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Infer(ScanRule)
      .Method()
      .Gradient([](GradContext& g) { g.SetInputGrad(0, ReverseCumsum(g, g.output_grad(0))); });
  along(
      "cumprod",
      "Running products along an axis (flattened by default). Integers give int64, unless a dtype "
      "is given. The gradient takes log2(n) steps over all elements.",
      AttrValue())
      .Attr("dtype", AttrType::kDtype, AttrValue())
      .Infer(ScanRule)
      .Method()
      .Saves({"a", "y"})
      .Gradient(CumprodGradient);
}

absl::Status CheckIndices(const InferContext& c, int i) {
  if (IsInt(c.input(i).dtype)) return absl::OkStatus();
  return DtypeError("[", c.name(), "] expects integer indices, got ", DtypeName(c.input(i).dtype));
}

// Whether `other` equals `shape` but for one axis.
bool AgreesBut(const Shape& shape, const Shape& other, int axis) {
  if (shape.size() != other.size()) return false;
  for (int i = 0; i < shape.size(); ++i) {
    if (i != axis && shape[i] != other[i]) return false;
  }
  return true;
}

// `shape` is that of the array that is read or written.
absl::Status CheckAlong(InferContext& c, const Shape& shape, int indices, const AttrValue& axis) {
  CHX_RETURN_IF_ERROR(CheckIndices(c, indices));
  CHX_ASSIGN_OR_RETURN(const int normal,
                       rules::NormalizeAxis(c.name(), axis.AsInt(), shape.size()));
  const Shape& at = c.input(indices).shape;
  if (!AgreesBut(shape, at, normal)) {
    return DimensionError("[", c.name(), "] expects shapes that agree but for axis ", normal,
                          ", got ", shape.ToString(), " and indices ", at.ToString());
  }
  if (shape[normal] == 0 && c.input(indices).size() != 0) {
    return IndexError("[", c.name(), "] expects elements along axis ", normal, ", got shape ",
                      shape.ToString());
  }
  c.CastInput(indices, Dtype::kInt64);
  return absl::OkStatus();
}

absl::Status TakeAlongRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckAlong(c, c.input(0).shape, 1, c.attr(0)));
  return c.AddOutput(c.input(0).dtype, c.input(1).shape);
}

// gy, indices; shape, axis.
absl::Status TakeAlongGradRule(InferContext& c) {
  const Ints& dims = c.attr(0).ints();
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), dims, c.input(0).dtype));
  const Shape shape(dims);
  CHX_RETURN_IF_ERROR(CheckAlong(c, shape, 1, c.attr(1)));
  if (c.input(0).shape != c.input(1).shape) {
    return DimensionError("[", c.name(), "] expects a gradient of shape ",
                          c.input(1).shape.ToString(), ", got ", c.input(0).shape.ToString());
  }
  return c.AddOutput(c.input(0).dtype, shape);
}

absl::Status PutRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  const ArraySpec& indices = c.input(1);
  CHX_RETURN_IF_ERROR(CheckIndices(c, 1));
  if (a.ndim() == 0) return DimensionError("[index_put] expects at least one dimension, got ()");
  if (a.shape[0] == 0 && indices.size() != 0) {
    return IndexError("[index_put] expects elements along axis 0, got shape ", a.shape.ToString());
  }
  if (indices.ndim() != 1) {
    return DimensionError("[index_put] expects indices of one dimension, got shape ",
                          indices.shape.ToString());
  }
  Shape shape = a.shape;
  shape[0] = indices.shape[0];
  if (c.input(2).shape != shape) {
    return DimensionError("[index_put] expects values of shape ", shape.ToString(), ", got ",
                          c.input(2).shape.ToString());
  }
  c.CastInput(1, Dtype::kInt64);
  c.CastInput(2, a.dtype);
  return absl::OkStatus();
}

// attr 0: how many there are. The client has read the count before.
absl::Status NonzeroRule(InferContext& c) {
  const int64_t count = c.attr(0).AsInt();
  if (count < 0 || count > c.input(0).size()) {
    return ValueError("[nonzero_positions] expects a count in [0, ", c.input(0).size(), "], got ",
                      count);
  }
  c.CastInput(0, Dtype::kBool);
  return c.AddOutput(Dtype::kInt64, {count});
}

void RegisterPositions(OpRegistry& r) {
  r.Add("take_along_axis")
      .Doc(
          "Elements of a along an axis, at the indices of an integer array that has a's shape but "
          "for that axis. Out of range is an IndexError.")
      .Inputs({"a", "indices"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInt)
      .Infer(TakeAlongRule)
      .Saves({"indices"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0,
                       g.Apply("take_along_axis_grad", {g.output_grad(0), g.input(1)},
                               {{"shape", ShapeAttr(g.input_spec(0).shape)}, {"axis", g.attr(0)}}));
      });
  r.Add("take_along_axis_grad")
      .Doc("Zeros of a shape, with gy added at the places that take_along_axis read.")
      .Inputs({"gy", "indices"})
      .Outputs({"gx"})
      .Attr("shape", AttrType::kInts)
      .Attr("axis", AttrType::kInt)
      .Infer(TakeAlongGradRule)
      .Saves({"indices"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(
            0, g.Apply("take_along_axis", {g.output_grad(0), g.input(1)}, {{"axis", g.attr(1)}}));
      });
  r.Add("index_put")
      .Doc(
          "a[indices] = values, in place: rows of a, by an integer array of one dimension; of "
          "equal "
          "indices the last one counts. Out of range is an IndexError.")
      .Inputs({"a", "indices", "values"})
      .Infer(PutRule)
      .InPlace();
  r.Add("nonzero_positions")
      .Doc("Positions (int64) in C order of the `count` elements that are non-zero.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("count", AttrType::kInt)
      .Infer(NonzeroRule);
}

}  // namespace

void RegisterSorting(OpRegistry& r) {
  RegisterAlong(r);
  RegisterPositions(r);
}

}  // namespace chx
