// Convolutions of groups of channels, and with dilated kernels: compositions of conv.
#include <vector>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/spatial_windows.h"

namespace chx {
namespace {

// Up to this many elements of a kernel are taken one by one when each channel is a group.
constexpr int64_t kMostTaps = 64;

struct Geometry {
  Dims stride;
  Dims pad;
  Dims dilate;
  int64_t groups = 1;
};

// stride, pad, dilate, groups.
absl::Status ReadGeometry(absl::string_view op, absl::Span<const AttrValue> attrs, int ndim,
                          Geometry* g) {
  CHX_RETURN_IF_ERROR(ExpandSpatial(op, "stride", attrs[0], ndim, 1, &g->stride));
  CHX_RETURN_IF_ERROR(ExpandSpatial(op, "pad", attrs[1], ndim, 0, &g->pad));
  CHX_RETURN_IF_ERROR(ExpandSpatial(op, "dilate", attrs[2], ndim, 1, &g->dilate));
  g->groups = attrs[3].AsInt();
  return absl::OkStatus();
}

// The extent of a kernel, with the gaps between its elements.
Dims Extent(const Dims& kernel, const Dims& dilate) {
  Dims extent = kernel;
  for (int i = 0; i < kernel.size(); ++i) extent[i] = (kernel[i] - 1) * dilate[i] + 1;
  return extent;
}

Dtype CommonDtype(const InferContext& c) { return rules::PromoteInputs(c, 0); }

// x, w, b.
absl::Status GroupedConvRule(InferContext& c) {
  const Shape& x = c.input(0).shape;
  const Shape& w = c.input(1).shape;
  if (x.size() < 3 || w.size() != x.size() || x.size() >= kMaxNdim) {
    return DimensionError("[grouped_conv] expects arrays of 3 to ", kMaxNdim - 1,
                          " dimensions each, got ", x.ToString(), " and ", w.ToString());
  }
  Geometry g;
  const AttrValue attrs[] = {c.attr(0), c.attr(1), c.attr(2), c.attr(3)};
  CHX_RETURN_IF_ERROR(ReadGeometry(c.name(), attrs, x.size() - 2, &g));
  if (g.groups < 1 || x[1] % g.groups != 0 || w[1] != x[1] / g.groups || w[0] % g.groups != 0 ||
      (c.has_array(2) && c.input(2).shape != Shape{w[0]})) {
    return DimensionError(
        "[grouped_conv] expects x (N, C, ...), w (K, C / groups, ...) and b (K,) "
        "with C and K multiples of groups, got ",
        x.ToString(), ", ", w.ToString(), " and ", g.groups, " groups");
  }
  const Dims kernel = SpatialOf(w);
  for (int i = 0; i < kernel.size(); ++i) {
    if (kernel[i] >= 1 && kernel[i] <= INT32_MAX / g.dilate[i]) continue;
    return DimensionError("[grouped_conv] expects a kernel with elements, got ", kernel.ToString(),
                          " dilated by ", g.dilate.ToString());
  }
  const Dims extent = Extent(kernel, g.dilate);
  CHX_ASSIGN_OR_RETURN(const Dims counts,
                       WindowCounts(c.name(), x, extent, g.stride, g.pad, false));
  // What is made on the way: kernels with gaps, x with its padding.
  Shape dilated = w;
  Shape padded = x;
  for (int i = 0; i < extent.size(); ++i) {
    dilated[i + 2] = kernel[i] * g.dilate[i];
    padded[i + 2] += 2 * g.pad[i];
  }
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), dilated.span(), Dtype::kFloat64));
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), padded.span(), Dtype::kFloat64));
  return c.AddOutput(CommonDtype(c), WithSpatial(x[0], w[0], counts));
}

// Zeros between the elements of kernels.
Value Dilated(OpContext& c, Value w, const Dims& dilate) {
  for (int i = 0; i < dilate.size(); ++i) {
    if (dilate[i] == 1) continue;
    // Each element becomes one of a new axis, which is padded and merged again.
    const int axis = i + 2;
    const int64_t size = w.shape()[axis];
    Shape merged = w.shape();
    Ints widths(2 * (w.ndim() + 1), 0);
    widths[2 * (axis + 1) + 1] = dilate[i] - 1;
    const Value padded = c.Apply("constant_pad", {ExpandDims(w, axis + 1)},
                                 {{"widths", AttrValue(widths)}, {"value", Scalar(0)}});
    merged[axis] = size * dilate[i];
    w = SliceAxis(Reshape(padded, merged), axis, 0, (size - 1) * dilate[i] + 1);
  }
  return w;
}

// Where each group is one channel: sums of shifted images times one element of each kernel.
Value Depthwise(OpContext& c, Value x, Value w, const Geometry& g, const Shape& result) {
  const int spatial = g.stride.size();
  const int64_t multiple = w.shape()[0] / g.groups;
  Ints widths(2 * x.ndim(), 0);
  for (int i = 0; i < spatial; ++i) widths[4 + 2 * i] = widths[5 + 2 * i] = g.pad[i];
  x = c.Apply("constant_pad", {x}, {{"widths", AttrValue(widths)}, {"value", Scalar(0)}});
  Dims tap(spatial, 0);
  Value sum;
  while (true) {
    IndexBuilder image;
    IndexBuilder element;
    image.Slice({}, {}, {}).Slice({}, {}, {});
    if (multiple != 1) image.NewAxis();
    element.Slice({}, {}, {}).Int(0);
    Shape column = multiple != 1 ? Shape{g.groups, multiple} : Shape{w.shape()[0]};
    for (int i = 0; i < spatial; ++i) {
      const int64_t start = tap[i] * g.dilate[i];
      image.Slice(start, start + (result[i + 2] - 1) * g.stride[i] + 1, g.stride[i]);
      element.Int(tap[i]);
      column.push_back(1);
    }
    const Value part = c.Apply("getitem", {x}, {{"index", image.Build()}});
    const Value factor = Reshape(c.Apply("getitem", {w}, {{"index", element.Build()}}), column);
    const Value product = part * factor;
    sum = sum.absent() ? product : sum + product;
    int i = spatial - 1;
    while (i >= 0 && ++tap[i] == w.shape()[i + 2]) tap[i--] = 0;
    if (i < 0) break;
  }
  return multiple != 1 ? Reshape(sum, result) : sum;
}

Value ByGroups(OpContext& c, Value x, Value w, const Geometry& g) {
  const auto conv = [&](Value of_x, Value of_w) {
    return c.Apply("conv", {of_x, of_w, Value()},
                   {{"stride", AttrValue::FromInts(g.stride.span())},
                    {"pad", AttrValue::FromInts(g.pad.span())}});
  };
  if (g.groups == 1) return conv(x, w);
  const Value first_x = c.Apply("split", {x}, {{"sections", g.groups}, {"axis", 1}});
  const Value first_w = c.Apply("split", {w}, {{"sections", g.groups}, {"axis", 0}});
  std::vector<Value> parts;
  parts.reserve(g.groups);
  for (int i = 0; i < g.groups; ++i) {
    parts.push_back(conv(Value(&c, first_x.id() + i), Value(&c, first_w.id() + i)));
  }
  return c.Apply("concatenate", parts, {{"axis", 1}});
}

void GroupedConv(ComposeContext& c) {
  const bool biased = c.num_inputs() > 2 && c.input(2).is_array();
  Dtype dtype = PromoteTypes(c.input(0).dtype(), c.input(1).dtype());
  if (biased) dtype = PromoteTypes(dtype, c.input(2).dtype());
  const Shape x_shape = c.input(0).shape();
  const Shape w_shape = c.input(1).shape();
  const Dims kernel = SpatialOf(w_shape);
  Geometry g;
  if (!ReadGeometry(c.op().name, c.attrs(), kernel.size(), &g).ok()) return;  // rule: accepted
  const bool depthwise =
      g.groups > 1 && w_shape[1] == 1 && NumElements(kernel) <= kMostTaps && IsFloat(dtype);
  // Sums of float16 are rounded once.
  const Dtype wide = depthwise ? PromoteTypes(dtype, Dtype::kFloat32) : dtype;
  const Value x = Cast(c.input(0), wide);
  const Value w = Cast(c.input(1), wide);
  Value y;
  if (depthwise) {
    Shape result = {x_shape[0], w_shape[0]};
    const Dims extent = Extent(kernel, g.dilate);
    for (int i = 0; i < kernel.size(); ++i) {
      result.push_back(WindowCount(x_shape[i + 2], extent[i], g.stride[i], g.pad[i], false));
    }
    y = Depthwise(c, x, w, g, result);
  } else {
    y = ByGroups(c, x, Dilated(c, w, g.dilate), g);
  }
  if (biased) {
    Shape column(w_shape.size() - 1, 1);
    column[0] = w_shape[0];
    y = y + Reshape(Cast(c.input(2), wide), column);
  }
  c.SetOutput(0, Cast(y, dtype));
}

}  // namespace

void RegisterConvolutionGroups(OpRegistry& r) {
  r.Add("grouped_conv")
      .Doc(
          "As conv, of groups of channels each with kernels of its own: x (N, C, spatial...), w "
          "(K, "
          "C / groups, kernel...), b (K,). dilate is the distance of a kernel's elements. Of "
          "float16, a convolution of single channels is summed in float32.")
      .Inputs({"x", "w", "b?"})
      .Outputs({"y"})
      .SpatialAttr("stride", AttrValue(Ints{1}))
      .SpatialAttr("pad", AttrValue(Ints{0}))
      .SpatialAttr("dilate", AttrValue(Ints{1}))
      .Attr("groups", AttrType::kInt, 1)
      .Compose(GroupedConvRule, GroupedConv);
}

}  // namespace chx
