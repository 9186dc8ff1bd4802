// Convolutions of groups of channels, and with dilated kernels: compositions of conv.
#include <algorithm>
#include <vector>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/spatial_windows.h"

namespace chx {
namespace {

// Up to this many elements of a kernel are taken one by one when each channel is a group.
constexpr int64_t kMostTaps = 64;

struct GroupsGeometry {
  Dims stride;
  Dims pad;
  Dims dilate;
  int64_t groups = 1;
};

// stride, pad, dilate, groups.
absl::Status ReadGroupsGeometry(absl::string_view op, absl::Span<const AttrValue> attrs, int ndim,
                                GroupsGeometry* g) {
  CHX_RETURN_IF_ERROR(ExpandSpatial(op, "stride", attrs[0], ndim, 1, &g->stride));
  CHX_RETURN_IF_ERROR(ExpandSpatial(op, "pad", attrs[1], ndim, 0, &g->pad));
  CHX_RETURN_IF_ERROR(ExpandSpatial(op, "dilate", attrs[2], ndim, 1, &g->dilate));
  g->groups = attrs[3].AsInt();
  return absl::OkStatus();
}

// The extent of a kernel, with the gaps between its elements.
Dims Extent(const Dims& kernel, const Dims& dilate) {
  Dims extent(kernel.size(), 1);
  for (int i = 0; i < kernel.size(); ++i) extent[i] += (kernel[i] - 1) * dilate[i];
  return extent;
}

// The numbers of windows of x and w, which fit each other.
absl::StatusOr<Dims> CheckShapes(const InferContext& c, const Shape& x, const Shape& w,
                                 const GroupsGeometry& g) {
  const int64_t channels = x[1];
  if (g.groups < 1 || g.groups > std::max<int64_t>(1, std::min(channels, w[0])) ||
      channels % g.groups != 0 || w[1] != channels / g.groups || w[0] % g.groups != 0) {
    return DimensionError("[", c.name(), "] expects x (N, C, ...) and w (K, C / groups, ...) with ",
                          "C and K positive multiples of several groups, got ", x.ToString(), ", ",
                          w.ToString(), " and ", g.groups, " groups");
  }
  const Dims kernel = SpatialOf(w);
  for (int i = 0; i < kernel.size(); ++i) {
    if (kernel[i] >= 1 && kernel[i] <= INT32_MAX / g.dilate[i]) continue;
    return DimensionError("[", c.name(), "] expects a kernel with elements, got ",
                          kernel.ToString(), " dilated by ", g.dilate.ToString());
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
  return counts;
}

// Inputs 0 and 1; the geometry is in the attributes from `first` on.
absl::Status CheckInputs(const InferContext& c, int first, GroupsGeometry* g) {
  const Shape& a = c.input(0).shape;
  const Shape& b = c.input(1).shape;
  if (a.size() < 3 || a.size() != b.size() || a.size() >= kMaxNdim) {
    return DimensionError("[", c.name(), "] expects arrays of 3 to ", kMaxNdim - 1,
                          " dimensions each, got ", a.ToString(), " and ", b.ToString());
  }
  const AttrValue attrs[] = {c.attr(first), c.attr(first + 1), c.attr(first + 2),
                             c.attr(first + 3)};
  return ReadGroupsGeometry(c.name(), attrs, a.size() - 2, g);
}

// x, w, b; stride, pad, dilate, groups.
absl::Status GroupedConvRule(InferContext& c) {
  GroupsGeometry g;
  CHX_RETURN_IF_ERROR(CheckInputs(c, 0, &g));
  const Shape& x = c.input(0).shape;
  const Shape& w = c.input(1).shape;
  if (c.has_array(2) && c.input(2).shape != Shape{w[0]}) {
    return DimensionError("[grouped_conv] expects a bias for each of ", w[0], " outputs, got ",
                          c.input(2).shape.ToString());
  }
  CHX_ASSIGN_OR_RETURN(const Dims counts, CheckShapes(c, x, w, g));
  return c.AddOutput(rules::PromoteInputs(c, 0), WithSpatial(x[0], w[0], counts));
}

absl::Status CheckGradient(const InferContext& c, const Shape& x, const Shape& w, const Shape& gy,
                           const GroupsGeometry& g) {
  CHX_ASSIGN_OR_RETURN(const Dims counts, CheckShapes(c, x, w, g));
  if (gy == WithSpatial(x[0], w[0], counts)) return absl::OkStatus();
  return DimensionError("[", c.name(), "] expects a gradient of ",
                        WithSpatial(x[0], w[0], counts).ToString(), ", got ", gy.ToString());
}

// gy, w; stride, pad, dilate, groups, outsize.
absl::Status GradImageRule(InferContext& c) {
  GroupsGeometry g;
  CHX_RETURN_IF_ERROR(CheckInputs(c, 0, &g));
  const Shape& gy = c.input(0).shape;
  const Shape& w = c.input(1).shape;
  const Ints& size = c.attr(4).ints();
  if (static_cast<int>(size.size()) != w.size() - 2 || g.groups < 1 ||
      g.groups > std::max<int64_t>(1, w[0]) || w[1] > INT32_MAX || g.groups > INT32_MAX) {
    return DimensionError("[", c.name(), "] expects an image for ", w.ToString(), " in ", g.groups,
                          " groups, got ", c.attr(4).ToString());
  }
  Ints dims = {gy[0], w[1] * g.groups};
  dims.insert(dims.end(), size.begin(), size.end());
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), dims, Dtype::kFloat64));
  const Shape x(dims);
  CHX_RETURN_IF_ERROR(CheckGradient(c, x, w, gy, g));
  return c.AddOutput(rules::PromoteInputs(c, 0), x);
}

// x, gy; stride, pad, dilate, groups, ksize.
absl::Status GradWeightRule(InferContext& c) {
  GroupsGeometry g;
  CHX_RETURN_IF_ERROR(CheckInputs(c, 0, &g));
  const Shape& x = c.input(0).shape;
  const Shape& gy = c.input(1).shape;
  const Ints& size = c.attr(4).ints();
  if (static_cast<int>(size.size()) != x.size() - 2 || g.groups < 1) {
    return DimensionError("[", c.name(), "] expects a kernel for ", x.ToString(), " in ", g.groups,
                          " groups, got ", c.attr(4).ToString());
  }
  Ints dims = {gy[1], x[1] / g.groups};
  dims.insert(dims.end(), size.begin(), size.end());
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), dims, Dtype::kFloat64));
  const Shape w(dims);
  CHX_RETURN_IF_ERROR(CheckGradient(c, x, w, gy, g));
  return c.AddOutput(rules::PromoteInputs(c, 0), w);
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

// Where each group is one channel: element by element of the kernels, by shifted images.
class Depthwise {
 public:
  Depthwise(OpContext& c, const GroupsGeometry& g, const Shape& x, const Shape& w, const Shape& y)
      : c_(c), g_(g), x_(x), w_(w), y_(y), multiple_(w[0] / g.groups) {
    padded_ = x;
    for (int i = 0; i < g.stride.size(); ++i) padded_[i + 2] += 2 * g.pad[i];
  }

  // Sums of images times one element of each kernel.
  Value Forward(Value x, Value w) const {
    x = Padded(x);
    Value sum;
    ForTaps([&](const Dims& tap) {
      const Value product = ImageAt(x, tap) * FactorAt(w, tap);
      sum = sum.absent() ? product : sum + product;
    });
    return multiple_ != 1 ? Reshape(sum, y_) : sum;
  }

  Value GradImage(Value gy, Value w) const {
    gy = Spread(gy);
    Value sum;
    ForTaps([&](const Dims& tap) {
      Value part = gy * FactorAt(w, tap);
      if (multiple_ != 1) part = Sum(part, {2});
      part = c_.Apply("getitem_grad", {part},
                      {{"shape", ShapeAttr(padded_)}, {"index", IndexOf(tap, false)}});
      sum = sum.absent() ? part : sum + part;
    });
    IndexBuilder inside;
    inside.Slice({}, {}, {}).Slice({}, {}, {});
    for (int i = 0; i < g_.pad.size(); ++i) {
      inside.Slice(g_.pad[i], g_.pad[i] + x_[i + 2], {});
    }
    return c_.Apply("getitem", {sum}, {{"index", inside.Build()}});
  }

  Value GradWeight(Value x, Value gy) const {
    x = Padded(x);
    gy = Spread(gy);
    Ints axes = {0};
    for (int i = 0; i < g_.stride.size(); ++i) axes.push_back(i + (multiple_ != 1 ? 3 : 2));
    std::vector<Value> columns;
    ForTaps([&](const Dims& tap) {
      columns.push_back(Reshape(Sum(ImageAt(x, tap) * gy, axes), {w_[0], 1}));
    });
    return Reshape(c_.Apply("concatenate", columns, {{"axis", 1}}), w_);
  }

 private:
  template <typename Fn>
  void ForTaps(Fn fn) const {
    Dims tap(g_.stride.size(), 0);
    while (true) {
      fn(tap);
      int i = tap.size() - 1;
      while (i >= 0 && ++tap[i] == w_[i + 2]) tap[i--] = 0;
      if (i < 0) return;
    }
  }

  Value Sum(Value x, const Ints& axes) const {
    return c_.Apply("sum", {x}, {{"axis", AttrValue(axes)}});
  }
  Value Padded(Value x) const {
    Ints widths(2 * x.ndim(), 0);
    for (int i = 0; i < g_.pad.size(); ++i) widths[4 + 2 * i] = widths[5 + 2 * i] = g_.pad[i];
    return c_.Apply("constant_pad", {x}, {{"widths", AttrValue(widths)}, {"value", Scalar(0)}});
  }
  // An array as y, with the features of a channel in an axis of their own.
  Value Spread(Value y) const {
    if (multiple_ == 1) return y;
    Shape shape = {y_[0], g_.groups, multiple_};
    for (int i = 2; i < y_.size(); ++i) shape.push_back(y_[i]);
    return Reshape(y, shape);
  }
  // What an element of the kernels meets in the padded image.
  AttrValue IndexOf(const Dims& tap, bool new_axis) const {
    IndexBuilder index;
    index.Slice({}, {}, {}).Slice({}, {}, {});
    if (new_axis) index.NewAxis();
    for (int i = 0; i < tap.size(); ++i) {
      const int64_t start = tap[i] * g_.dilate[i];
      index.Slice(start, start + (y_[i + 2] - 1) * g_.stride[i] + 1, g_.stride[i]);
    }
    return index.Build();
  }
  Value ImageAt(Value padded, const Dims& tap) const {
    return c_.Apply("getitem", {padded}, {{"index", IndexOf(tap, multiple_ != 1)}});
  }
  Value FactorAt(Value w, const Dims& tap) const {
    IndexBuilder element;
    element.Slice({}, {}, {}).Int(0);
    Shape column = multiple_ != 1 ? Shape{g_.groups, multiple_} : Shape{w_[0]};
    for (const int64_t at : tap) {
      element.Int(at);
      column.push_back(1);
    }
    return Reshape(c_.Apply("getitem", {w}, {{"index", element.Build()}}), column);
  }

  OpContext& c_;
  const GroupsGeometry& g_;
  const Shape x_;
  const Shape w_;
  const Shape y_;
  const int64_t multiple_;  // features of a channel
  Shape padded_;
};

// part(a, b) of the groups of two arrays along an axis each, joined along an axis.
template <typename Part>
Value ByGroups(OpContext& c, const GroupsGeometry& g, Value a, int a_axis, Value b, int b_axis,
               int axis, Part part) {
  if (g.groups == 1) return part(a, b);
  const Value first_a = c.Apply("split", {a}, {{"sections", g.groups}, {"axis", a_axis}});
  const Value first_b = c.Apply("split", {b}, {{"sections", g.groups}, {"axis", b_axis}});
  std::vector<Value> parts;
  parts.reserve(g.groups);
  for (int i = 0; i < g.groups; ++i) {
    parts.push_back(part(Value(&c, first_a.id() + i), Value(&c, first_b.id() + i)));
  }
  return c.Apply("concatenate", parts, {{"axis", axis}});
}

bool IsDepthwise(const GroupsGeometry& g, const Shape& w, Dtype dtype) {
  return g.groups > 1 && w[1] == 1 && NumElements(SpatialOf(w)) <= kMostTaps && IsFloat(dtype);
}

// Where single channels are summed element by element: sums of float16 are rounded once.
Dtype SumDtype(bool depthwise, Dtype dtype) { return depthwise ? WideDtype(dtype) : dtype; }

void GroupedConv(ComposeContext& c) {
  const bool biased = c.num_inputs() > 2 && c.input(2).is_array();
  Dtype dtype = PromoteTypes(c.input(0).dtype(), c.input(1).dtype());
  if (biased) dtype = PromoteTypes(dtype, c.input(2).dtype());
  const Shape x_shape = c.input(0).shape();
  const Shape w_shape = c.input(1).shape();
  const Dims kernel = SpatialOf(w_shape);
  GroupsGeometry g;
  if (!ReadGroupsGeometry(c.op().name, c.attrs(), kernel.size(), &g).ok())
    return;  // rule: accepted
  const bool depthwise = IsDepthwise(g, w_shape, dtype);
  const Dtype wide = SumDtype(depthwise, dtype);
  const Value x = Cast(c.input(0), wide);
  const Value w = Cast(c.input(1), wide);
  Value y;
  if (depthwise) {
    Shape result = {x_shape[0], w_shape[0]};
    const Dims extent = Extent(kernel, g.dilate);
    for (int i = 0; i < kernel.size(); ++i) {
      result.push_back(WindowCount(x_shape[i + 2], extent[i], g.stride[i], g.pad[i], false));
    }
    y = Depthwise(c, g, x_shape, w_shape, result).Forward(x, w);
  } else {
    y = ByGroups(c, g, x, 1, Dilated(c, w, g.dilate), 0, 1, [&](Value of_x, Value of_w) {
      return c.Apply("conv", {of_x, of_w, Value()},
                     {{"stride", ShapeAttr(g.stride)}, {"pad", ShapeAttr(g.pad)}});
    });
  }
  if (biased) {
    Shape column(w_shape.size() - 1, 1);
    column[0] = w_shape[0];
    y = y + Reshape(Cast(c.input(2), wide), column);
  }
  c.SetOutput(0, Cast(y, dtype));
}

void GradImage(ComposeContext& c) {
  const Dtype dtype = PromoteTypes(c.input(0).dtype(), c.input(1).dtype());
  const Shape gy_shape = c.input(0).shape();
  const Shape w_shape = c.input(1).shape();
  GroupsGeometry g;
  if (!ReadGroupsGeometry(c.op().name, c.attrs(), w_shape.size() - 2, &g).ok()) return;
  const bool depthwise = IsDepthwise(g, w_shape, dtype);
  const Dtype wide = SumDtype(depthwise, dtype);
  const Value gy = Cast(c.input(0), wide);
  const Value w = Cast(c.input(1), wide);
  Value gx;
  if (depthwise) {
    const Shape x_shape = WithSpatial(gy_shape[0], g.groups, Dims(c.attr(4).ints()));
    gx = Depthwise(c, g, x_shape, w_shape, gy_shape).GradImage(gy, w);
  } else {
    gx = ByGroups(c, g, gy, 1, Dilated(c, w, g.dilate), 0, 1, [&](Value of_gy, Value of_w) {
      return c.Apply(
          "conv_transpose", {of_gy, of_w, Value()},
          {{"stride", ShapeAttr(g.stride)}, {"pad", ShapeAttr(g.pad)}, {"outsize", c.attr(4)}});
    });
  }
  c.SetOutput(0, Cast(gx, dtype));
}

void GradWeight(ComposeContext& c) {
  const Dtype dtype = PromoteTypes(c.input(0).dtype(), c.input(1).dtype());
  const Shape x_shape = c.input(0).shape();
  const Shape gy_shape = c.input(1).shape();
  GroupsGeometry g;
  if (!ReadGroupsGeometry(c.op().name, c.attrs(), x_shape.size() - 2, &g).ok()) return;
  const Dims kernel(c.attr(4).ints());
  const Shape w_shape = WithSpatial(gy_shape[1], x_shape[1] / g.groups, kernel);
  const bool depthwise = IsDepthwise(g, w_shape, dtype);
  const Dtype wide = SumDtype(depthwise, dtype);
  const Value x = Cast(c.input(0), wide);
  const Value gy = Cast(c.input(1), wide);
  if (depthwise) {
    const Value gw = Depthwise(c, g, x_shape, w_shape, gy_shape).GradWeight(x, gy);
    return c.SetOutput(0, Cast(gw, dtype));
  }
  const Dims extent = Extent(kernel, g.dilate);
  const Value gw = ByGroups(c, g, x, 1, gy, 1, 0, [&](Value of_x, Value of_gy) {
    return c.Apply(
        "conv_grad_weight", {of_x, of_gy},
        {{"ksize", ShapeAttr(extent)}, {"stride", ShapeAttr(g.stride)}, {"pad", ShapeAttr(g.pad)}});
  });
  IndexBuilder elements;
  elements.Slice({}, {}, {}).Slice({}, {}, {});
  for (const int64_t step : g.dilate) elements.Slice({}, {}, step);
  c.SetOutput(0, Cast(c.Apply("getitem", {gw}, {{"index", elements.Build()}}), dtype));
}

void GroupedConvGradient(GradContext& g) {
  const Value gy = g.output_grad(0);
  const auto grad_of = [&g](const char* op, Value a, Value b, const char* size, int of) {
    return g.Apply(op, {a, b},
                   {{"stride", g.attr(0)},
                    {"pad", g.attr(1)},
                    {"dilate", g.attr(2)},
                    {"groups", g.attr(3)},
                    {size, ShapeAttr(SpatialOf(g.input_spec(of).shape))}});
  };
  if (g.needs_grad(0)) {
    g.SetInputGrad(0, grad_of("grouped_conv_grad_image", gy, g.input(1), "outsize", 0));
  }
  if (g.needs_grad(1)) {
    g.SetInputGrad(1, grad_of("grouped_conv_grad_weight", g.input(0), gy, "ksize", 1));
  }
  if (g.num_inputs() < 3 || !g.input_is_array(2) || !g.needs_grad(2)) return;
  Ints axes = {0};
  for (int i = 2; i < gy.ndim(); ++i) axes.push_back(i);
  g.SetInputGrad(2, g.Apply("sum", {gy}, {{"axis", AttrValue(axes)}}));
}

OpDef& GeometryAttrs(OpDef& op) {
  return op.SpatialAttr("stride", AttrValue(Ints{1}))
      .SpatialAttr("pad", AttrValue(Ints{0}))
      .SpatialAttr("dilate", AttrValue(Ints{1}))
      .Attr("groups", AttrType::kInt, 1);
}

}  // namespace

void RegisterConvolutionGroups(OpRegistry& r) {
  GeometryAttrs(
      r.Add("grouped_conv")
          .Doc("As conv, of groups of channels each with kernels of its own: x (N, C, spatial...), "
               "w (K, C / groups, kernel...), b (K,). dilate is the distance of a kernel's "
               "elements. Of float16, a convolution of single channels is summed in float32.")
          .Inputs({"x", "w", "b?"})
          .Outputs({"y"}))
      .Compose(GroupedConvRule, GroupedConv)
      .Saves({"x", "w"})
      .Gradient(GroupedConvGradient);
  GeometryAttrs(r.Add("grouped_conv_grad_image")
                    .Doc("Gradient of grouped_conv's x, whose spatial dimensions are outsize, from "
                         "that of y.")
                    .Inputs({"gy", "w"})
                    .Outputs({"gx"}))
      .Attr("outsize", AttrType::kInts)
      .Compose(GradImageRule, GradImage)
      .Internal();
  GeometryAttrs(r.Add("grouped_conv_grad_weight")
                    .Doc("Gradient of grouped_conv's w, from x and the gradient of y.")
                    .Inputs({"x", "gy"})
                    .Outputs({"gw"}))
      .Attr("ksize", AttrType::kInts)
      .Compose(GradWeightRule, GradWeight)
      .Internal();
}

}  // namespace chx
