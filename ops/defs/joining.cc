// Operators that stack, repeat, tile, roll and pad arrays. Compositions.
#include <algorithm>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

Value Concatenate(OpContext& c, absl::Span<const Value> parts, int64_t axis) {
  return c.Apply("concatenate", parts, {{"axis", axis}});
}

// The shape that atleast_<ndim>d gives.
Shape AtLeast(const Shape& shape, int ndim) {
  if (shape.size() >= ndim) return shape;
  if (ndim == 1) return {1};
  const int64_t n = shape.empty() ? 1 : shape.back();
  if (ndim == 2) return {1, n};
  return shape.size() == 2 ? Shape{shape[0], shape[1], 1} : Shape{1, n, 1};
}

struct Stacking {
  int ndim;          // each input has at least this many dimensions
  int axis;          // of the concatenation,
  int axis_if_flat;  // and of one-dimensional inputs
};
constexpr Stacking kHorizontal = {1, 1, 0};
constexpr Stacking kVertical = {2, 0, 0};
constexpr Stacking kDeep = {3, 2, 2};

int AxisOf(const Stacking& stacking, const Shape& first) {
  return first.size() == 1 ? stacking.axis_if_flat : stacking.axis;
}

template <const Stacking& kStacking>
absl::Status StackingRule(InferContext& c) {
  Shape shape = AtLeast(c.input(0).shape, kStacking.ndim);
  const int axis = AxisOf(kStacking, shape);
  Dtype dtype = c.input(0).dtype;
  for (int i = 1; i < c.num_inputs(); ++i) {
    dtype = PromoteTypes(dtype, c.input(i).dtype);
    const Shape next = AtLeast(c.input(i).shape, kStacking.ndim);
    CHX_RETURN_IF_ERROR(rules::ExtendAlong(c, i, axis, next, dtype, &shape));
  }
  return c.AddOutput(dtype, shape);
}

template <const Stacking& kStacking>
void ComposeStacking(ComposeContext& c) {
  absl::InlinedVector<Value, 8> parts;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const Value a = c.input(i);
    const Shape shape = AtLeast(a.shape(), kStacking.ndim);
    parts.push_back(shape == a.shape() ? a : Reshape(a, shape));
  }
  c.SetOutput(0, Concatenate(c, parts, AxisOf(kStacking, parts[0].shape())));
}

void RegisterStacking(OpRegistry& r) {
  const auto add = [&r](const char* name, const char* doc, InferFn rule, ComposeFn compose) {
    r.Add(name).Doc(doc).Inputs({"arrays..."}).Outputs({"y"}).Compose(rule, compose);
  };
  add("hstack", "Arrays joined along axis 1, or 0 if they have one dimension.",
      StackingRule<kHorizontal>, ComposeStacking<kHorizontal>);
  add("vstack", "Arrays joined along axis 0, as rows if they have one dimension.",
      StackingRule<kVertical>, ComposeStacking<kVertical>);
  add("dstack", "Arrays joined along axis 2; (N,) becomes (1, N, 1), (M, N) (M, N, 1).",
      StackingRule<kDeep>, ComposeStacking<kDeep>);
}

// The axis, and the shape that is repeated along it.
struct Repeated {
  Shape shape;
  int axis;
};

absl::StatusOr<Repeated> RepeatedOf(const OpDef& op, const AttrValue& axis, const Shape& shape) {
  if (!axis.has_value()) return Repeated{{NumElements(shape)}, 0};
  CHX_ASSIGN_OR_RETURN(const int normal, rules::NormalizeAxis(op.name, axis.AsInt(), shape.size()));
  return Repeated{shape, normal};
}

// The number of elements over the axes before `axis`, and over `axis` and those after it.
int64_t Before(const Shape& shape, int axis) {
  return NumElements(Shape(shape.span().subspan(0, axis)));
}
int64_t From(const Shape& shape, int axis) {
  return NumElements(Shape(shape.span().subspan(axis)));
}

absl::Status RepeatRule(InferContext& c) {
  const Ints& repeats = c.attr(0).ints();
  CHX_ASSIGN_OR_RETURN(Repeated a, RepeatedOf(c.op(), c.attr(1), c.input(0).shape));
  const int64_t size = a.shape[a.axis];
  if (repeats.size() != 1 && static_cast<int64_t>(repeats.size()) != size) {
    return DimensionError("[repeat] expects one count or ", size, ", got ", c.attr(0).ToString());
  }
  int64_t total = 0;
  for (int64_t count : repeats) {
    if (count < 0) return ValueError("[repeat] expects counts from 0 on, got ", count);
    const int64_t of_count = repeats.size() == 1 ? size : 1;
    if (of_count > 0 && count > (int64_t{1} << 61) / of_count - total) {
      return DimensionError("[repeat] expects smaller counts, got ", c.attr(0).ToString());
    }
    total += count * of_count;
  }
  // The composition's intermediate results must be valid arrays, even if they have no elements.
  for (int64_t count : repeats) {
    const int64_t parts[] = {Before(a.shape, a.axis + 1), count, From(a.shape, a.axis + 1)};
    CHX_RETURN_IF_ERROR(CheckShape(c.name(), parts, c.input(0).dtype));
  }
  a.shape[a.axis] = total;
  return c.AddOutput(c.input(0).dtype, a.shape);
}

// a as (outer, inner) with each inner part `count` times, in the shape `result`.
Value RepeatInner(Value a, int64_t outer, int64_t inner, int64_t count, const Shape& result) {
  const Value wide = BroadcastTo(Reshape(a, {outer, 1, inner}), {outer, count, inner});
  return Reshape(wide, result);
}

// Each element along the axis `count` times.
Value RepeatEach(Value a, int axis, int64_t count) {
  Shape result = a.shape();
  result[axis] *= count;
  return RepeatInner(a, Before(a.shape(), axis + 1), From(a.shape(), axis + 1), count, result);
}

void Repeat(ComposeContext& c) {
  Value a = c.input(0);
  const Ints& repeats = c.attr(0).ints();
  const Repeated repeated = *RepeatedOf(c.op(), c.attr(1), a.shape());
  if (repeated.shape != a.shape()) a = Reshape(a, repeated.shape);
  if (repeats.size() == 1) return c.SetOutput(0, RepeatEach(a, repeated.axis, repeats[0]));
  absl::InlinedVector<Value, 8> parts;
  for (size_t i = 0; i < repeats.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    parts.push_back(RepeatEach(SliceAxis(a, repeated.axis, at, at + 1), repeated.axis, repeats[i]));
  }
  if (parts.empty()) return c.SetOutput(0, a);
  c.SetOutput(0, Concatenate(c, parts, repeated.axis));
}

// Shape of A and reps, with ones in front of the shorter.
absl::Status Tiling(const OpDef& op, const Shape& shape, const Ints& reps, Shape* padded,
                    Shape* counts) {
  if (reps.size() > kMaxNdim) {
    return DimensionError("[", op.name, "] expects at most ", kMaxNdim, " repetitions");
  }
  const int ndim = std::max(shape.size(), static_cast<int>(reps.size()));
  *padded = Shape(ndim, 1);
  *counts = Shape(ndim, 1);
  for (int i = 0; i < shape.size(); ++i) (*padded)[ndim - shape.size() + i] = shape[i];
  const int missing = ndim - static_cast<int>(reps.size());
  for (size_t i = 0; i < reps.size(); ++i) (*counts)[missing + static_cast<int>(i)] = reps[i];
  return absl::OkStatus();
}

absl::Status TileRule(InferContext& c) {
  Shape shape;
  Shape counts;
  CHX_RETURN_IF_ERROR(Tiling(c.op(), c.input(0).shape, c.attr(0).ints(), &shape, &counts));
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), counts.span(), c.input(0).dtype));
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] > 0 && counts[i] > (int64_t{1} << 61) / shape[i]) {
      return DimensionError("[tile] expects fewer repetitions, got ", c.attr(0).ToString());
    }
    shape[i] *= counts[i];
  }
  return c.AddOutput(c.input(0).dtype, shape);
}

void Tile(ComposeContext& c) {
  Value a = c.input(0);
  Shape shape;
  Shape counts;
  c.Fail(Tiling(c.op(), a.shape(), c.attr(0).ints(), &shape, &counts));
  if (a.shape() != shape) a = Reshape(a, shape);
  for (int axis = 0; axis < shape.size(); ++axis) {
    if (counts[axis] == 1) continue;
    Shape result = a.shape();
    result[axis] *= counts[axis];
    a = RepeatInner(a, Before(a.shape(), axis), From(a.shape(), axis), counts[axis], result);
  }
  c.SetOutput(0, a);
}

void RegisterRepeats(OpRegistry& r) {
  r.Add("repeat")
      .Doc(
          "Each element along an axis (flattened by default) repeated; one count, or one for each.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("repeats", AttrType::kInts)
      .Attr("axis", AttrType::kInt, AttrValue())
      .Method()
      .Compose(RepeatRule, Repeat);
  r.Add("tile")
      .Doc("A repeated `reps` times along its last axes, or new ones in front.")
      .Inputs({"A"})
      .Outputs({"y"})
      .Attr("reps", AttrType::kInts)
      .Compose(TileRule, Tile);
}

absl::Status RollRule(InferContext& c) {
  if (c.attr(1).has_value()) {
    for (int64_t axis : c.attr(1).ints()) {
      CHX_RETURN_IF_ERROR(rules::NormalizeAxis(c.name(), axis, c.input(0).ndim()).status());
    }
    const size_t shifts = c.attr(0).ints().size();
    if (shifts != 1 && shifts != c.attr(1).ints().size()) {
      return ValueError("[roll] expects one shift, or one for each axis");
    }
  } else if (c.attr(0).ints().size() != 1) {
    return ValueError("[roll] expects one shift where there is no axis");
  }
  return rules::Same(c);
}

Value RollAxis(OpContext& c, Value a, int64_t shift, int axis) {
  const int64_t size = a.shape()[axis];
  const int64_t by = size == 0 ? 0 : (shift % size + size) % size;
  if (by == 0) return a;
  return Concatenate(c, {SliceAxis(a, axis, size - by, size), SliceAxis(a, axis, 0, size - by)},
                     axis);
}

void Roll(ComposeContext& c) {
  Value a = c.input(0);
  const Ints& shifts = c.attr(0).ints();
  if (!c.attr(1).has_value()) {
    const Value rolled = RollAxis(c, c.Apply("ravel", {a}), shifts[0], 0);
    return c.SetOutput(0, Reshape(rolled, a.shape()));
  }
  const Ints& axes = c.attr(1).ints();
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = static_cast<int>(axes[i] < 0 ? axes[i] + a.ndim() : axes[i]);
    a = RollAxis(c, a, shifts[shifts.size() == 1 ? 0 : i], axis);
  }
  c.SetOutput(0, a);
}

// attr 0: before and after for each axis in turn.
absl::Status PadRule(InferContext& c) {
  const Ints& widths = c.attr(0).ints();
  Shape shape = c.input(0).shape;
  if (static_cast<int>(widths.size()) != 2 * shape.size()) {
    return ValueError("[constant_pad] expects two widths for each of ", shape.size(), " axes, got ",
                      c.attr(0).ToString());
  }
  for (size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] < 0 || widths[i] > (int64_t{1} << 60)) {
      return ValueError("[constant_pad] expects widths from 0 on, got ", widths[i]);
    }
    shape[static_cast<int>(i / 2)] += widths[i];
    CHX_RETURN_IF_ERROR(CheckShape(c.name(), shape.span(), c.input(0).dtype));
  }
  return c.AddOutput(c.input(0).dtype, shape);
}

void Pad(ComposeContext& c) {
  Value a = c.input(0);
  const Ints& widths = c.attr(0).ints();
  for (int axis = 0; axis < a.ndim(); ++axis) {
    absl::InlinedVector<Value, 3> parts;
    const auto add = [&](int64_t width) {
      if (width == 0) return;
      Shape shape = a.shape();
      shape[axis] = width;
      parts.push_back(
          c.Apply("full", {},
                  {{"shape", ShapeAttr(shape)}, {"fill_value", c.attr(1)}, {"dtype", a.dtype()}}));
    };
    add(widths[2 * axis]);
    parts.push_back(a);
    add(widths[2 * axis + 1]);
    if (parts.size() > 1) a = Concatenate(c, parts, axis);
  }
  c.SetOutput(0, a);
}

void RegisterRolls(OpRegistry& r) {
  r.Add("roll")
      .Doc("Elements moved along axes, those beyond the end to the front; flattened by default.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("shift", AttrType::kInts)
      .Attr("axis", AttrType::kInts, AttrValue())
      .Compose(RollRule, Roll);
  r.Add("constant_pad")
      .Doc("a with a constant around it: `widths` before and after, for each axis in turn.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("widths", AttrType::kInts)
      .Attr("value", AttrType::kScalar, Scalar(0))
      .Compose(PadRule, Pad);
}

}  // namespace

void RegisterJoining(OpRegistry& r) {
  RegisterStacking(r);
  RegisterRepeats(r);
  RegisterRolls(r);
}

}  // namespace chx
