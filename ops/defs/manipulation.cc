// Operators that change shapes: views wherever strides allow it.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "ops/basic_index.h"
#include "ops/defs/common/expressions.h"
#include "ops/defs/common/reductions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"

namespace chx {
namespace {

void ReshapeBack(GradContext& g) {
  g.SetInputGrad(
      0, g.Apply("reshape", {g.output_grad(0)}, {{"newshape", ShapeAttr(g.input_spec(0).shape)}}));
}

absl::Status ViewAs(InferContext& c, const Shape& shape) {
  ArraySpec spec = c.input(0);
  if (!rules::ReshapeStrides(c.input(0), shape, &spec.strides)) {
    c.CopyFirst();
    spec = c.base();
    spec.strides = ContiguousStrides(shape, spec.item_size());
  }
  spec.shape = shape;
  c.AddView(spec);
  return absl::OkStatus();
}

absl::Status ReshapeRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  const Ints& dims = c.attr(0).ints();
  const auto mismatch = [&] {
    return DimensionError("[reshape] expects a shape of ", a.size(), " elements for ",
                          a.shape.ToString(), ", got ", c.attr(0).ToString());
  };
  if (dims.size() > kMaxNdim) return mismatch();
  Shape shape(dims);
  int unknown = -1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] >= 0) continue;
    if (unknown >= 0) return DimensionError("[reshape] expects at most one negative dimension");
    unknown = i;
    shape[i] = 1;
  }
  CHX_RETURN_IF_ERROR(CheckShape("reshape", shape.span(), a.dtype));
  const int64_t known = NumElements(shape);
  if (unknown >= 0) {
    if (known == 0 || a.size() % known != 0) return mismatch();
    shape[unknown] = a.size() / known;
  }
  if (NumElements(shape) != a.size()) return mismatch();
  return ViewAs(c, shape);
}

absl::Status TransposeRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  ArraySpec spec = a;
  if (!c.attr(0).has_value()) {
    for (int i = 0; i < a.ndim(); ++i) {
      spec.shape[i] = a.shape[a.ndim() - 1 - i];
      spec.strides[i] = a.strides[a.ndim() - 1 - i];
    }
  } else {
    const Ints& axes = c.attr(0).ints();
    CHX_RETURN_IF_ERROR(rules::NormalizeAxes(c.name(), c.attr(0), a.ndim()).status());
    if (static_cast<int>(axes.size()) != a.ndim()) {
      return DimensionError("[transpose] expects ", a.ndim(), " axes, got ", c.attr(0).ToString());
    }
    for (int i = 0; i < a.ndim(); ++i) {
      const int from = static_cast<int>(axes[i] < 0 ? axes[i] + a.ndim() : axes[i]);
      spec.shape[i] = a.shape[from];
      spec.strides[i] = a.strides[from];
    }
  }
  c.AddView(spec);
  return absl::OkStatus();
}

void TransposeGradient(GradContext& g) {
  if (!g.attr(0).has_value()) {
    g.SetInputGrad(0, g.Apply("transpose", {g.output_grad(0)}));
    return;
  }
  const Ints& axes = g.attr(0).ints();
  const int64_t ndim = static_cast<int64_t>(axes.size());
  Ints inverse(axes.size(), 0);
  for (int64_t i = 0; i < ndim; ++i) inverse[axes[i] < 0 ? axes[i] + ndim : axes[i]] = i;
  g.SetInputGrad(0, g.Apply("transpose", {g.output_grad(0)}, {{"axes", AttrValue(inverse)}}));
}

absl::Status SqueezeRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  uint32_t drop = 0;
  if (c.attr(0).has_value()) {
    CHX_ASSIGN_OR_RETURN(drop, ReductionAxes(c.name(), c.attr(0), a.ndim()));
  } else {
    for (int i = 0; i < a.ndim(); ++i) drop |= uint32_t{a.shape[i] == 1} << i;
  }
  ArraySpec spec = a;
  spec.shape = Shape();
  spec.strides = Strides();
  for (int i = 0; i < a.ndim(); ++i) {
    if ((drop >> i) & 1) {
      if (a.shape[i] == 1) continue;
      return DimensionError("[squeeze] expects axis ", i, " to have size 1, got shape ",
                            a.shape.ToString());
    }
    spec.shape.push_back(a.shape[i]);
    spec.strides.push_back(a.strides[i]);
  }
  c.AddView(spec);
  return absl::OkStatus();
}

// Only where no axes are named: with an empty list of axes the result is another array.
bool HasNothingToSqueeze(const ArraySpec& a, absl::Span<const AttrValue> attrs) {
  return !attrs[0].has_value() && !absl::c_linear_search(a.shape.span(), 1);
}

absl::Status ExpandDimsRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  if (a.ndim() == kMaxNdim) {
    return DimensionError("[expand_dims] expects fewer than ", kMaxNdim, " dimensions");
  }
  CHX_ASSIGN_OR_RETURN(const int axis,
                       rules::NormalizeAxis(c.name(), c.attr(0).AsInt(), a.ndim() + 1));
  Shape shape;
  for (int i = 0; i <= a.ndim(); ++i) {
    if (i == axis) shape.push_back(1);
    if (i < a.ndim()) shape.push_back(a.shape[i]);
  }
  return ViewAs(c, shape);  // never needs a copy
}

absl::Status BroadcastToRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  const Ints& dims = c.attr(0).ints();
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), dims, a.dtype));
  const Shape shape(dims);
  Shape joined = shape;
  if (a.ndim() > shape.size() || !BroadcastInto(&joined, a.shape) || joined != shape) {
    return DimensionError("[broadcast_to] expects a shape that ", a.shape.ToString(),
                          " broadcasts to, got ", shape.ToString());
  }
  ArraySpec spec = a;
  spec.shape = shape;
  spec.strides = Strides(shape.size(), 0);
  const int missing = shape.size() - a.ndim();
  for (int i = 0; i < a.ndim(); ++i) {
    if (a.shape[i] != 1) spec.strides[missing + i] = a.strides[i];
  }
  c.AddView(spec);
  return absl::OkStatus();
}

// Boundaries of split's parts along its axis: 0, ..., dim.
absl::StatusOr<Ints> SplitBounds(const AttrValue& sections_attr, const AttrValue& indices,
                                 int64_t dim) {
  const bool by_sections = sections_attr.has_value();
  if (by_sections == indices.has_value()) {
    return TypeError("[split] expects either sections or indices");
  }
  Ints bounds{0};
  if (by_sections) {
    const int64_t sections = sections_attr.AsInt();
    if (sections < 1 || sections > 4096 || dim % sections != 0) {
      return DimensionError("[split] expects a number of sections that divides ", dim, ", got ",
                            sections);
    }
    for (int64_t i = 1; i <= sections; ++i) bounds.push_back(dim / sections * i);
    return bounds;
  }
  if (indices.ints().size() > 4095) return DimensionError("[split] expects at most 4095 indices");
  for (int64_t index : indices.ints()) {
    if (index < 0) index = std::max<int64_t>(0, index + dim);
    bounds.push_back(std::min(index, dim));
  }
  bounds.push_back(dim);
  return bounds;
}

absl::Status SplitRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  CHX_ASSIGN_OR_RETURN(const int axis, rules::NormalizeAxis(c.name(), c.attr(2).AsInt(), a.ndim()));
  CHX_ASSIGN_OR_RETURN(const Ints bounds, SplitBounds(c.attr(0), c.attr(1), a.shape[axis]));
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    ArraySpec part = a;
    part.shape[axis] = std::max<int64_t>(0, bounds[i + 1] - bounds[i]);
    if (part.shape[axis] > 0) part.offset += bounds[i] * a.strides[axis];
    c.AddView(part);
  }
  return absl::OkStatus();
}

// Where indices decrease, parts overlap: each is added at its place.
void OverlappingSplitGradient(GradContext& g, int axis) {
  const ArraySpec& a = g.input_spec(0);
  const Ints bounds = SplitBounds(g.attr(0), g.attr(1), a.shape[axis]).value_or(Ints());
  Value sum;
  for (int i = 0; i < g.num_outputs(); ++i) {
    if (g.output_grad(i).absent()) continue;
    IndexBuilder index;
    for (int k = 0; k < axis; ++k) index.Slice({}, {}, {});
    index.Slice(bounds[i], bounds[i + 1], {});
    const Value part = g.Apply("getitem_grad", {g.output_grad(i)},
                               {{"shape", ShapeAttr(a.shape)}, {"index", index.Build()}});
    sum = sum.absent() ? part : sum + part;
  }
  g.SetInputGrad(0, sum);
}

// Parts without a gradient are zeros.
void SplitGradient(GradContext& g) {
  const ArraySpec& a = g.input_spec(0);
  const int axis = static_cast<int>(g.attr(2).AsInt() + (g.attr(2).AsInt() < 0 ? a.ndim() : 0));
  int64_t total = 0;
  for (int i = 0; i < g.num_outputs(); ++i) total += g.output_spec(i).shape[axis];
  if (total != a.shape[axis]) return OverlappingSplitGradient(g, axis);
  absl::InlinedVector<Value, 4> parts;
  for (int i = 0; i < g.num_outputs(); ++i) {
    const ArraySpec& spec = g.output_spec(i);
    parts.push_back(
        !g.output_grad(i).absent()
            ? g.output_grad(i)
            : g.Apply("zeros", {}, {{"shape", ShapeAttr(spec.shape)}, {"dtype", spec.dtype}}));
  }
  g.SetInputGrad(0, g.Apply("concatenate", parts, {{"axis", g.attr(2)}}));
}

absl::Status ConcatenateRule(InferContext& c) {
  Dtype dtype = c.input(0).dtype;
  for (int i = 1; i < c.num_inputs(); ++i) dtype = PromoteTypes(dtype, c.input(i).dtype);
  c.CastInputs(dtype);
  if (!c.attr(0).has_value()) {
    Shape flat{0};
    for (int i = 0; i < c.num_inputs(); ++i) {
      flat[0] += c.input(i).size();
      CHX_RETURN_IF_ERROR(CheckShape(c.name(), flat.span(), dtype));
    }
    return c.AddOutput(dtype, flat);
  }
  Shape shape = c.input(0).shape;
  if (shape.empty()) return DimensionError("[concatenate] expects at least one dimension, got ()");
  CHX_ASSIGN_OR_RETURN(const int axis,
                       rules::NormalizeAxis(c.name(), c.attr(0).AsInt(), shape.size()));
  for (int i = 1; i < c.num_inputs(); ++i) {
    CHX_RETURN_IF_ERROR(rules::ExtendAlong(c, i, axis, c.input(i).shape, dtype, &shape));
  }
  return c.AddOutput(dtype, shape);
}

void ConcatenateGradient(GradContext& g) {
  Value gy = g.output_grad(0);
  const bool flat = !g.attr(0).has_value();
  const int64_t given = flat ? 0 : g.attr(0).AsInt();
  const int ndim = flat ? 1 : g.input_spec(0).ndim();
  const int axis = static_cast<int>(given < 0 ? given + ndim : given);
  Ints indices;
  int64_t position = 0;
  for (int i = 0; i + 1 < g.num_inputs(); ++i) {
    position += flat ? g.input_spec(i).size() : g.input_spec(i).shape[axis];
    indices.push_back(position);
  }
  const Value first =
      g.Apply("split", {gy}, {{"indices", AttrValue(indices)}, {"axis", int64_t{axis}}});
  for (int i = 0; i < g.num_inputs(); ++i) {
    const Value part(first.context(), first.id() + i);
    g.SetInputGrad(
        i,
        flat ? g.Apply("reshape", {part}, {{"newshape", ShapeAttr(g.input_spec(i).shape)}}) : part);
  }
}

absl::Status StackRule(InferContext& c) {
  Shape shape = c.input(0).shape;
  if (shape.size() == kMaxNdim) return DimensionError("[stack] expects fewer dimensions");
  Dtype dtype = c.input(0).dtype;
  for (int i = 1; i < c.num_inputs(); ++i) {
    dtype = PromoteTypes(dtype, c.input(i).dtype);
    if (c.input(i).shape != shape) {
      return DimensionError("[stack] expects equal shapes, got ", shape.ToString(), " and ",
                            c.input(i).shape.ToString());
    }
  }
  CHX_ASSIGN_OR_RETURN(const int axis,
                       rules::NormalizeAxis(c.name(), c.attr(0).AsInt(), shape.size() + 1));
  Shape stacked;
  for (int i = 0; i <= shape.size(); ++i) {
    if (i == axis) stacked.push_back(c.num_inputs());
    if (i < shape.size()) stacked.push_back(shape[i]);
  }
  return c.AddOutput(dtype, stacked);
}

void Stack(ComposeContext& c) {
  const int64_t ndim = c.input(0).ndim() + 1;
  const int64_t axis = c.attr(0).AsInt() < 0 ? c.attr(0).AsInt() + ndim : c.attr(0).AsInt();
  absl::InlinedVector<Value, 4> expanded;
  for (int i = 0; i < c.num_inputs(); ++i) {
    expanded.push_back(c.Apply("expand_dims", {c.input(i)}, {{"axis", axis}}));
  }
  c.SetOutput(0, c.Apply("concatenate", expanded, {{"axis", axis}}));
}

}  // namespace

void RegisterManipulation(OpRegistry& r) {
  const auto view = [&r](const char* name, const char* doc, const char* input) -> OpDef& {
    return r.Add(name).Doc(doc).Inputs({input}).Outputs({"y"});
  };
  view("reshape",
       "a in another shape; one dimension may be -1 (any negative number): what is left. A view if "
       "the strides allow it.",
       "a")
      .Attr("newshape", AttrType::kInts)
      .View(ReshapeRule)
      .Method()
      .Gradient(ReshapeBack);
  view("ravel", "a in one dimension. A view if the strides allow it.", "a")
      .View([](InferContext& c) { return ViewAs(c, {c.input(0).size()}); })
      .Method()
      .Gradient(ReshapeBack);
  view("transpose", "Axes permuted; reversed by default. A view.", "a")
      .Attr("axes", AttrType::kInts, AttrValue())
      .View(TransposeRule)
      .Method()
      .Gradient(TransposeGradient);
  view("squeeze", "Axes of size 1 removed (all by default). A view.", "a")
      .Attr("axis", AttrType::kInts, AttrValue())
      .View(SqueezeRule)
      .IdentityIf(HasNothingToSqueeze)
      .Method()
      .Gradient(ReshapeBack);
  view("expand_dims", "An axis of size 1 inserted. A view.", "a")
      .Attr("axis", AttrType::kInt)
      .View(ExpandDimsRule)
      .Gradient(ReshapeBack);
  // The caller sums the gradient over what was broadcast.
  view("broadcast_to", "array repeated to a shape, by NumPy's rules. A view.", "array")
      .Attr("shape", AttrType::kInts)
      .View(BroadcastToRule)
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.output_grad(0)); });
  r.Add("split")
      .Doc("Parts along an axis: a number of equal sections, or cut at indices. Views.")
      .Inputs({"ary"})
      .Outputs({"ys..."})
      .Attr("sections", AttrType::kInt, AttrValue())
      .Attr("indices", AttrType::kInts, AttrValue())
      .Attr("axis", AttrType::kInt, 0)
      .View(SplitRule)
      .Gradient(SplitGradient);
  r.Add("concatenate")
      .Doc("Arrays joined along an axis; None joins them flattened. Dtypes are promoted.")
      .Inputs({"arrays..."})
      .Outputs({"y"})
      .NullableAttr("axis", AttrType::kInt, 0)
      .Infer(ConcatenateRule)
      .Gradient(ConcatenateGradient);
  r.Add("stack")
      .Doc("Arrays of one shape joined along a new axis.")
      .Inputs({"arrays..."})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInt, 0)
      .Compose(StackRule, Stack);
}

}  // namespace chx
