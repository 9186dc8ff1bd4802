// Images and signals of another size: x (N, C, spatial...), as in PyTorch. Compositions.
#include <cmath>
#include <cstdint>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/spatial_windows.h"

namespace chx {
namespace {

constexpr int kNearest = 0;  // of mode; linear has as many spatial dimensions as its position

// size, scale_factor: the new sizes.
absl::StatusOr<Dims> NewSizes(const InferContext& c, const Dims& old) {
  Dims sizes;
  if (c.attr(0).has_value() == c.attr(1).has_value()) {
    return ValueError("[interpolate] expects either size or scale_factor");
  }
  if (c.attr(0).has_value()) {
    CHX_RETURN_IF_ERROR(ExpandSpatial(c.name(), "size", c.attr(0), old.size(), 1, &sizes));
    return sizes;
  }
  const double scale = c.attr(1).AsFloat();
  for (const int64_t size : old) {
    const double scaled = std::floor(static_cast<double>(size) * scale);
    if (!(scaled >= 1 && scaled <= INT32_MAX)) {
      return ValueError("[interpolate] expects sizes from 1 to 2^31, got ", old.ToString(), " by ",
                        scale);
    }
    sizes.push_back(static_cast<int64_t>(scaled));
  }
  return sizes;
}

absl::Status InterpolateRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  if (!IsFloat(x.dtype)) {
    return DtypeError("[interpolate] expects floats, got ", DtypeName(x.dtype));
  }
  const int64_t mode = c.attr(2).AsInt();
  if (x.ndim() < 3 || (mode != kNearest && x.ndim() != mode + 2)) {
    return DimensionError(
        "[interpolate] expects (N, C, spatial...) with as many axes as the mode "
        "has, got ",
        x.shape.ToString());
  }
  if (mode == kNearest && c.attr(3).AsBool()) {
    return ValueError("[interpolate] expects no align_corners with mode 'nearest'");
  }
  CHX_RETURN_IF_ERROR(
      rules::CheckAxesNotEmpty(c.name(), x.shape, ((1u << x.ndim()) - 1) & ~uint32_t{3}));
  CHX_ASSIGN_OR_RETURN(const Dims sizes, NewSizes(c, SpatialOf(x.shape)));
  // Axes are resampled one after the other.
  Shape shape = x.shape;
  for (int i = 0; i < sizes.size(); ++i) {
    shape[i + 2] = sizes[i];
    CHX_RETURN_IF_ERROR(CheckShape(c.name(), shape.span(), Dtype::kFloat64));
  }
  return c.AddOutput(x.dtype, shape);
}

Value Arange(OpContext& c, int64_t n, Dtype dtype) {
  return c.Apply("arange", {}, {{"start", Scalar(n)}, {"dtype", dtype}});
}

Value TakeAxis(Value x, Value index, int axis) {
  return x.context()->Apply("take", {x, index}, {{"axis", axis}});
}

// How far apart the elements to read are.
double Step(ComposeContext& c, int64_t from, int64_t to) {
  if (c.attr(1).has_value()) return 1 / c.attr(1).AsFloat();
  return static_cast<double>(from) / static_cast<double>(to);
}

Value Nearest(ComposeContext& c, Value x, int axis, int64_t to) {
  const int64_t from = x.shape()[axis];
  Value index;
  if (c.attr(1).has_value()) {
    const Value position = Arange(c, to, Dtype::kFloat64) * Step(c, from, to);
    index = Cast(c.Apply("floor", {position}), Dtype::kInt64);
  } else {
    // Exact, which floats are not.
    const Value scaled = Arange(c, to, Dtype::kInt64) * Scalar(from);
    index = c.Apply("floor_divide", {scaled, Scalar(to)});
  }
  return TakeAxis(x, c.Apply("minimum", {index, Scalar(from - 1)}), axis);
}

Value Linear(ComposeContext& c, Value x, int axis, int64_t to) {
  const int64_t from = x.shape()[axis];
  const Value place = Arange(c, to, Dtype::kFloat64);
  Value position;
  if (c.attr(3).AsBool()) {
    position = place * (to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0.0);
  } else {
    position = c.Apply("maximum", {(place + 0.5) * Step(c, from, to) - 0.5, 0.0});
  }
  const auto last = static_cast<double>(from - 1);
  const Value first = c.Apply("minimum", {c.Apply("floor", {position}), last});
  const Value second = c.Apply("minimum", {first + 1.0, last});
  Shape line = {to};
  for (int i = axis + 1; i < x.ndim(); ++i) line.push_back(1);
  const Value share = Reshape(Cast(position - first, x.dtype()), line);
  const Value a = TakeAxis(x, Cast(first, Dtype::kInt64), axis);
  const Value b = TakeAxis(x, Cast(second, Dtype::kInt64), axis);
  return a * (1.0 - share) + b * share;
}

// Of an axis of the result.
int64_t NewSize(ComposeContext& c, int axis) {
  if (c.attr(1).has_value()) {
    const auto from = static_cast<double>(c.input(0).shape()[axis]);
    return static_cast<int64_t>(std::floor(from * c.attr(1).AsFloat()));
  }
  const Ints& sizes = c.attr(0).ints();
  return sizes[sizes.size() == 1 ? 0 : axis - 2];
}

// Where each element is repeated equally often it is spread over a window, whose gradient is a sum:
// by means, which are exact for a power of two of elements. Not over a large window: it is read in
// one thread.
bool SpreadOverWindows(ComposeContext& c) {
  constexpr int64_t kMostElements = 256;
  const Value x = c.input(0);
  if (WideDtype(x.dtype()) != x.dtype()) return false;
  if (c.attr(1).has_value()) {
    // Of others, floor(i * step) is below i / factor here and there.
    int exponent = 0;
    if (std::frexp(c.attr(1).AsFloat(), &exponent) != 0.5) return false;
  }
  Shape shape = x.shape();
  Ints window;
  int64_t elements = 1;
  for (int axis = 2; axis < x.ndim(); ++axis) {
    const int64_t from = shape[axis];
    shape[axis] = NewSize(c, axis);
    window.push_back(shape[axis] / from);
    if (shape[axis] % from != 0 || window.back() > kMostElements) return false;
    elements *= window.back();
    if (elements > kMostElements) return false;
  }
  if (elements == 1 || (elements & (elements - 1)) != 0) return false;
  c.SetOutput(
      0, c.Apply("pool_spread", {x}, {{"shape", ShapeAttr(shape)}, {"ksize", AttrValue(window)}}));
  return true;
}

void Interpolate(ComposeContext& c) {
  const Dtype dtype = c.input(0).dtype();
  const bool nearest = c.attr(2).AsInt() == kNearest;
  if (nearest && SpreadOverWindows(c)) return;
  // Axis by axis, rounded once.
  Value x = nearest ? c.input(0) : Cast(c.input(0), WideDtype(dtype));
  for (int axis = 2; axis < x.ndim(); ++axis) {
    const int64_t from = x.shape()[axis];
    const int64_t to = NewSize(c, axis);
    if (nearest) {
      x = Nearest(c, x, axis, to);
    } else if (to != from) {
      x = Linear(c, x, axis, to);
    }
  }
  if (x.id() == c.input(0).id()) x = c.Apply("copy", {x});
  c.SetOutput(0, Cast(x, dtype));
}

// x (..., C, H, W); a factor from 1 on, of which there is a square.
absl::Status ShuffleRule(InferContext& c, bool up) {
  const ArraySpec& x = c.input(0);
  const int64_t factor = c.attr(0).AsInt();
  const int last = x.ndim() - 1;
  bool fits = factor >= 1 && factor <= INT16_MAX && x.ndim() >= 3;
  constexpr int64_t kLargest = int64_t{1} << 62;  // of a dimension beside one of zero
  for (int i = last - 2; fits && i <= last; ++i) fits = x.shape[i] <= kLargest / (factor * factor);
  if (fits && up) fits = x.shape[last - 2] % (factor * factor) == 0;
  if (fits && !up) fits = x.shape[last - 1] % factor == 0 && x.shape[last] % factor == 0;
  if (!fits) {
    return DimensionError("[", c.name(), "] expects shape (..., C, H, W) with ",
                          up ? "C a multiple of the factor's square" : "H and W multiples of it",
                          ", got ", x.shape.ToString(), " and ", factor);
  }
  Shape shape = x.shape;
  const int64_t square = factor * factor;
  shape[last - 2] = up ? shape[last - 2] / square : shape[last - 2] * square;
  for (int i = last - 1; i <= last; ++i) shape[i] = up ? shape[i] * factor : shape[i] / factor;
  return c.AddOutput(x.dtype, shape);
}

absl::Status PixelShuffleRule(InferContext& c) { return ShuffleRule(c, true); }
absl::Status PixelUnshuffleRule(InferContext& c) { return ShuffleRule(c, false); }

template <bool up>
void PixelShuffle(ComposeContext& c) {
  const Value x = c.input(0);
  const int64_t factor = c.attr(0).AsInt();
  const int last = x.ndim() - 1;
  int64_t batch = 1;
  Shape shape = x.shape();
  for (int i = 0; i < last - 2; ++i) batch *= shape[i];
  const int64_t channels = shape[last - 2];
  const int64_t rows = shape[last - 1];
  const int64_t columns = shape[last];
  const int64_t square = factor * factor;
  const Shape split = up ? Shape{batch, channels / square, factor, factor, rows, columns}
                         : Shape{batch, channels, rows / factor, factor, columns / factor, factor};
  const Ints axes = up ? Ints{0, 1, 4, 2, 5, 3} : Ints{0, 1, 3, 5, 2, 4};
  shape[last - 2] = up ? channels / square : channels * square;
  shape[last - 1] = up ? rows * factor : rows / factor;
  shape[last] = up ? columns * factor : columns / factor;
  const Value moved = c.Apply("transpose", {Reshape(x, split)}, {{"axes", AttrValue(axes)}});
  c.SetOutput(0, Reshape(moved, shape));
}

}  // namespace

void RegisterResampling(OpRegistry& r) {
  r.Add("interpolate")
      .Doc(
          "x (N, C, spatial...) at another size, or at its own times scale_factor, rounded down. "
          "'nearest' reads the element at floor(i * step); 'linear', 'bilinear' and 'trilinear' "
          "mix "
          "neighbours along 1, 2 or 3 axes. With align_corners the first and last elements stay "
          "where they are; otherwise elements are areas. step is the quotient of the sizes, or 1 / "
          "scale_factor; nothing is mixed along an axis whose size stays.")
      .Inputs({"x"})
      .Outputs({"y"})
      .SpatialAttr("size", AttrValue())
      .Attr("scale_factor", AttrType::kFloat, AttrValue())
      .Choice("mode", {"nearest", "linear", "bilinear", "trilinear"}, 0)
      .Attr("align_corners", AttrType::kBool, false)
      .Compose(InterpolateRule, Interpolate);
  r.Add("pixel_shuffle")
      .Doc("(..., C r^2, H, W) as (..., C, H r, W r): channels become r by r squares of pixels.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Attr("upscale_factor", AttrType::kInt)
      .Compose(PixelShuffleRule, PixelShuffle<true>);
  r.Add("pixel_unshuffle")
      .Doc("(..., C, H r, W r) as (..., C r^2, H, W): the inverse of pixel_shuffle.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Attr("downscale_factor", AttrType::kInt)
      .Compose(PixelUnshuffleRule, PixelShuffle<false>);
}

}  // namespace chx
