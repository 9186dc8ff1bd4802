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
absl::Status AdaptiveRule(InferContext& c) {
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
  return c.AddOutput(x.dtype, shape);
}

Value Arange(OpContext& c, int64_t n) {
  return c.Apply("arange", {}, {{"start", Scalar(n)}, {"dtype", Dtype::kInt64}});
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

// One axis pooled.
Value Pooled(OpContext& c, Value x, int axis, int64_t windows, bool average) {
  const int64_t size = x.shape()[axis];
  const AttrValue axes(Ints{axis + 1});
  if (size % windows == 0) {
    return c.Apply(average ? "mean" : "amax", {EvenWindows(x, axis, windows)}, {{"axis", axes}});
  }
  const int64_t longest = Longest(size, windows);
  const int after = x.ndim() - axis - 1;
  const Value number = Arange(c, windows);
  const Value start = FloorDivide(c, number * Scalar(size), windows);
  const Value end = FloorDivide(c, (number + 1) * Scalar(size) + Scalar(windows - 1), windows);
  const Value index = ExpandDims(start, 1) + Arange(c, longest);
  const Value inside = Before(c.Apply("less", {index, ExpandDims(end, 1)}), after);
  const Value taken =
      c.Apply("take", {x, c.Apply("minimum", {index, Scalar(size - 1)})}, {{"axis", axis}});
  if (!average) {
    const double never = -std::numeric_limits<double>::infinity();
    return c.Apply("amax", {Where(inside, taken, never)}, {{"axis", axes}});
  }
  const Value sum = c.Apply("sum", {Where(inside, taken, 0)}, {{"axis", axes}});
  return sum / Before(Cast(end - start, x.dtype()), after);
}

template <bool average>
void AdaptivePool(ComposeContext& c) {
  const Dtype dtype = c.input(0).dtype();
  // A mean of means is rounded once.
  Value x = average ? Cast(c.input(0), PromoteTypes(dtype, Dtype::kFloat32)) : c.input(0);
  const Ints& sizes = c.attr(0).ints();
  for (int axis = 2; axis < c.input(0).ndim(); ++axis) {
    x = Pooled(c, x, axis, sizes[sizes.size() == 1 ? 0 : axis - 2], average);
  }
  c.SetOutput(0, Cast(x, dtype));
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
      .Compose(AdaptiveRule, AdaptivePool<true>);
  r.Add("adaptive_max_pool")
      .Doc("The largest elements of the windows of adaptive_average_pool.")
      .Inputs({"x"})
      .Outputs({"y"})
      .SpatialAttr("output_size")
      .Compose(AdaptiveRule, AdaptivePool<false>);
}

}  // namespace chx
