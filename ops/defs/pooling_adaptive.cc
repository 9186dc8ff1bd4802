// Pooling to a given size: window i of n is [floor(i size / n), ceil((i + 1) size / n)). Windows
// are products of ranges, so that axes are pooled one after the other.
#include <limits>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/spatial_windows.h"

namespace chx {
namespace {

// The length of the longest window, or more.
int64_t Longest(int64_t size, int64_t windows) {
  return size % windows == 0 ? size / windows : size / windows + 2;
}

// x (N, C, spatial...); output_size.
absl::Status CheckAdaptive(InferContext& c, Dtype result) {
  const ArraySpec& x = c.input(0);
  if (!IsFloat(x.dtype)) {
    return DtypeError("[", c.name(), "] expects floats, got ", DtypeName(x.dtype));
  }
  if (x.ndim() < 3 || x.ndim() >= kMaxNdim) {
    return DimensionError("[", c.name(), "] expects an array of 3 to ", kMaxNdim - 1,
                          " dimensions, got ", x.shape.ToString());
  }
  Dims sizes;
  CHX_RETURN_IF_ERROR(ExpandSpatial(c.name(), "output_size", c.attr(0), x.ndim() - 2, 1, &sizes));
  CHX_RETURN_IF_ERROR(
      rules::CheckAxesNotEmpty(c.name(), x.shape, ((1u << x.ndim()) - 1) & ~uint32_t{3}));
  // What is made on the way, axis by axis, must be an array, too.
  Shape shape = x.shape;
  for (int i = 0; i < sizes.size(); ++i) {
    const int64_t longest = Longest(shape[i + 2], sizes[i]);
    shape[i + 2] = sizes[i];
    Ints windows(shape.begin(), shape.end());
    windows.push_back(longest);
    CHX_RETURN_IF_ERROR(CheckShape(c.name(), windows, Dtype::kFloat64));
  }
  return c.AddOutput(result, shape);
}

Value FloorDivide(OpContext& c, Value a, int64_t b) {
  return c.Apply("floor_divide", {a, Scalar(b)});
}

// (n, ...) as (n, ..., 1, ...), for an array whose axes after `axis` are `after`.
Value Before(Value x, int after) {
  Shape shape = x.shape();
  for (int i = 0; i < after; ++i) shape.push_back(1);
  return Reshape(x, shape);
}

// The windows along an axis, as two axes in its place: of one length.
Value EvenWindows(Value x, int axis, int64_t windows) {
  Shape shape;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i == axis) {
      shape.push_back(windows);
      shape.push_back(x.shape()[i] / windows);
    } else {
      shape.push_back(x.shape()[i]);
    }
  }
  return Reshape(x, shape);
}

// Windows of an axis of different lengths, as two axes in its place: what is taken for them, as
// long as the longest, and which of it is inside.
struct UnevenWindows {
  Value index;   // (windows, longest) int64
  Value inside;  // to broadcast against an array of the windows
  Value length;  // (windows,), to broadcast against one element of each

  UnevenWindows(OpContext& c, const Shape& shape, int axis, int64_t windows) {
    const int64_t size = shape[axis];
    const int after = shape.size() - axis - 1;
    const Value number = ArangeTo(c, windows);
    const Value start = FloorDivide(c, number * Scalar(size), windows);
    const Value end = FloorDivide(c, (number + 1) * Scalar(size) + Scalar(windows - 1), windows);
    const Value all = ExpandDims(start, 1) + ArangeTo(c, Longest(size, windows));
    inside = Before(c.Apply("less", {all, ExpandDims(end, 1)}), after);
    index = c.Apply("minimum", {all, Scalar(size - 1)});
    length = Before(end - start, after);
  }
};

// The mean of each window along one axis.
Value MeanAlong(OpContext& c, Value x, int axis, int64_t windows) {
  const AttrValue axes(Ints{axis + 1});
  if (x.shape()[axis] % windows == 0) {
    return c.Apply("mean", {EvenWindows(x, axis, windows)}, {{"axis", axes}});
  }
  const UnevenWindows uneven(c, x.shape(), axis, windows);
  const Value taken = c.Apply("take", {x, uneven.index}, {{"axis", axis}});
  const Value sum = c.Apply("sum", {Where(uneven.inside, taken, 0)}, {{"axis", axes}});
  return sum / Cast(uneven.length, x.dtype());
}

int64_t SizeOf(const AttrValue& sizes, int axis) {
  return sizes.ints()[sizes.ints().size() == 1 ? 0 : axis - 2];
}

// Pools windows of one size, apart from each other, as the operator of the name does. Not large
// ones: it reads a window in one thread.
bool PoolsEvenly(ComposeContext& c, absl::string_view op) {
  constexpr int64_t kMostElements = 256;
  const Shape& shape = c.input(0).shape();
  Ints lengths;
  int64_t elements = 1;
  for (int axis = 2; axis < shape.size(); ++axis) {
    const int64_t windows = SizeOf(c.attr(0), axis);
    lengths.push_back(shape[axis] / windows);
    elements *= lengths.back();
    if (shape[axis] % windows != 0 || elements > kMostElements) return false;
  }
  c.SetOutput(0, c.Apply(op, {c.input(0)}, {{"ksize", AttrValue(lengths)}}));
  return true;
}

void AdaptiveAverage(ComposeContext& c) {
  if (PoolsEvenly(c, "average_pool")) return;
  const Dtype dtype = c.input(0).dtype();
  // A mean of means is rounded once.
  Value x = Cast(c.input(0), WideDtype(dtype));
  for (int axis = 2; axis < x.ndim(); ++axis) {
    x = MeanAlong(c, x, axis, SizeOf(c.attr(0), axis));
  }
  c.SetOutput(0, Cast(x, dtype));
}

// The last axis first, so that of equal elements the first in C order is chosen.
void AdaptiveMaxIndex(ComposeContext& c) {
  Value x = c.input(0);
  Value at = Reshape(ArangeTo(c, NumElements(x.shape())), x.shape());
  for (int axis = x.ndim() - 1; axis >= 2; --axis) {
    const int64_t windows = SizeOf(c.attr(0), axis);
    if (x.shape()[axis] % windows == 0) {
      x = EvenWindows(x, axis, windows);
      at = EvenWindows(at, axis, windows);
    } else {
      const UnevenWindows uneven(c, x.shape(), axis, windows);
      const double never = -std::numeric_limits<double>::infinity();
      x = Where(uneven.inside, c.Apply("take", {x, uneven.index}, {{"axis", axis}}), never);
      at = c.Apply("take", {at, uneven.index}, {{"axis", axis}});
    }
    const Value chosen = c.Apply("argmax", {x}, {{"axis", axis + 1}});
    Shape shape = chosen.shape();
    const auto pick = [&](Value from) {
      return Reshape(
          c.Apply("take_along_axis", {from, ExpandDims(chosen, axis + 1)}, {{"axis", axis + 1}}),
          shape);
    };
    x = pick(x);
    at = pick(at);
  }
  c.SetOutput(0, at);
}

absl::Status AdaptiveIndexRule(InferContext& c) { return CheckAdaptive(c, Dtype::kInt64); }
absl::Status AdaptiveRule(InferContext& c) { return CheckAdaptive(c, c.input(0).dtype); }

void AdaptiveMax(ComposeContext& c) {
  if (PoolsEvenly(c, "max_pool")) return;
  const Value x = c.input(0);
  const Value index = c.Apply("adaptive_max_index", {x}, {{"output_size", c.attr(0)}});
  c.SetOutput(0, c.Apply("take", {Reshape(x, {NumElements(x.shape())}), index}, {{"axis", 0}}));
}

}  // namespace

void RegisterPoolingAdaptive(OpRegistry& r) {
  r.Add("adaptive_average_pool")
      .Doc(
          "Means of as many windows as output_size says, of x (N, C, spatial...): window i of n "
          "begins at floor(i size / n) and ends before ceil((i + 1) size / n).")
      .Inputs({"x"})
      .Outputs({"y"})
      .SpatialAttr("output_size")
      .Compose(AdaptiveRule, AdaptiveAverage);
  r.Add("adaptive_max_pool")
      .Doc(
          "The largest elements of the windows of adaptive_average_pool, NaN if there is one. Of "
          "equal elements the first gets the gradient.")
      .Inputs({"x"})
      .Outputs({"y"})
      .SpatialAttr("output_size")
      .Compose(AdaptiveRule, AdaptiveMax);
  r.Add("adaptive_max_index")
      .Doc("The positions in x, as an array of one dimension, of what adaptive_max_pool chooses.")
      .Inputs({"x"})
      .Outputs({"index"})
      .SpatialAttr("output_size")
      .Compose(AdaptiveIndexRule, AdaptiveMaxIndex)
      .NoGradient()
      .Internal();
}

}  // namespace chx
