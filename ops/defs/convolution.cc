// Convolutions with any number of spatial dimensions, also none: x (N, C, spatial...), w (out, in,
// kernel...).
#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"
#include "ops/spatial_windows.h"

namespace chx {
namespace {

struct Geometry {
  Dims stride;
  Dims pad;
  Dtype dtype;  // of the result
};

// Checks that the arrays have the same number of dimensions, 2 or more. Reads the attributes stride
// and pad, and promotes the dtypes.
absl::Status CheckArrays(InferContext& c, const AttrValue& stride, const AttrValue& pad,
                         Geometry* geometry) {
  Dtype dtype = c.input(0).dtype;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.has_array(i)) dtype = PromoteTypes(dtype, c.input(i).dtype);
  }
  const int ndim = c.input(0).ndim();
  if (ndim < 2 || c.input(1).ndim() != ndim) {
    return DimensionError("[", c.name(), "] expects arrays of 2 or more dimensions each, got ",
                          c.input(0).shape.ToString(), " and ", c.input(1).shape.ToString());
  }
  CHX_RETURN_IF_ERROR(ExpandSpatial(c.name(), "stride", stride, ndim - 2, 1, &geometry->stride));
  CHX_RETURN_IF_ERROR(ExpandSpatial(c.name(), "pad", pad, ndim - 2, 0, &geometry->pad));
  c.CastInputs(dtype);
  geometry->dtype = dtype;
  return absl::OkStatus();
}

absl::Status CheckChannels(const InferContext& c, int64_t of_x, int64_t of_w, int64_t outputs) {
  if (of_x != of_w) {
    return DimensionError("[", c.name(), "] expects x of ", of_w, " channels for w of shape ",
                          c.input(1).shape.ToString(), ", got x of shape ",
                          c.input(0).shape.ToString());
  }
  if (c.has_array(2) && c.input(2).shape != Shape{outputs}) {
    return DimensionError("[", c.name(), "] expects b of shape (", outputs, ",), got ",
                          c.input(2).shape.ToString());
  }
  return absl::OkStatus();
}

absl::Status CheckKernel(const InferContext& c, const Dims& kernel) {
  for (const int64_t dim : kernel) {
    if (dim < 1 || dim > INT32_MAX) {
      return DimensionError("[", c.name(), "] expects a kernel with elements, got ",
                            kernel.ToString());
    }
  }
  return absl::OkStatus();
}

// x, w, b; stride, pad, cover_all.
absl::Status ConvRule(InferContext& c) {
  Geometry g;
  CHX_RETURN_IF_ERROR(CheckArrays(c, c.attr(0), c.attr(1), &g));
  const Shape& x = c.input(0).shape;
  const Shape& w = c.input(1).shape;
  CHX_RETURN_IF_ERROR(CheckChannels(c, x[1], w[1], w[0]));
  const Dims kernel = SpatialOf(w);
  CHX_RETURN_IF_ERROR(CheckKernel(c, kernel));
  CHX_ASSIGN_OR_RETURN(const Dims counts,
                       WindowCounts(c.name(), x, kernel, g.stride, g.pad, c.attr(2).AsBool()));
  return c.AddOutput(g.dtype, WithSpatial(x[0], w[0], counts));
}

// Whether a convolution from `image` makes `counts`.
bool Matches(const Dims& image, const Dims& counts, const Dims& kernel, const Geometry& g,
             bool cover_all) {
  for (int i = 0; i < image.size(); ++i) {
    if (WindowCount(image[i], kernel[i], g.stride[i], g.pad[i], cover_all) != counts[i]) {
      return false;
    }
  }
  return true;
}

// The numbers of windows. None of them is zero.
absl::Status CheckCounts(const InferContext& c, const Dims& counts) {
  for (const int64_t count : counts) {
    if (count < 1 || count > INT32_MAX) {
      return DimensionError("[", c.name(), "] expects dimensions from 1 to 2^31, got ",
                            counts.ToString());
    }
  }
  return absl::OkStatus();
}

// x, w, b; stride, pad, outsize.
absl::Status ConvTransposeRule(InferContext& c) {
  Geometry g;
  CHX_RETURN_IF_ERROR(CheckArrays(c, c.attr(0), c.attr(1), &g));
  const Shape& x = c.input(0).shape;
  const Shape& w = c.input(1).shape;
  CHX_RETURN_IF_ERROR(CheckChannels(c, x[1], w[0], w[1]));
  const Dims kernel = SpatialOf(w);
  CHX_RETURN_IF_ERROR(CheckKernel(c, kernel));
  const Dims counts = SpatialOf(x);
  CHX_RETURN_IF_ERROR(CheckCounts(c, counts));
  Dims image = counts;
  if (c.attr(2).has_value()) {
    // As upstream: of shapes that don't go together.
    for (const int64_t size : c.attr(2).ints()) {
      if (size < 0) {
        return DimensionError("[conv_transpose] expects outsize from 0 to 2^31, got ", size);
      }
    }
    CHX_RETURN_IF_ERROR(ExpandSpatial(c.name(), "outsize", c.attr(2), counts.size(), 0, &image));
  } else {
    for (int i = 0; i < counts.size(); ++i) {
      image[i] = g.stride[i] * (counts[i] - 1) + kernel[i] - 2 * g.pad[i];
    }
  }
  if (!Matches(image, counts, kernel, g, false) && !Matches(image, counts, kernel, g, true)) {
    return DimensionError("[", c.name(), "] expects an output that a convolution makes ",
                          counts.ToString(), " of, got ", image.ToString());
  }
  return c.AddOutput(g.dtype, WithSpatial(x[0], w[1], image));
}

// x, gy; ksize, stride, pad.
absl::Status ConvGradWeightRule(InferContext& c) {
  Geometry g;
  CHX_RETURN_IF_ERROR(CheckArrays(c, c.attr(1), c.attr(2), &g));
  const Shape& x = c.input(0).shape;
  const Shape& gy = c.input(1).shape;
  Dims kernel;
  CHX_RETURN_IF_ERROR(ExpandSpatial(c.name(), "ksize", c.attr(0), x.size() - 2, 1, &kernel));
  const Dims image = SpatialOf(x);
  const Dims counts = SpatialOf(gy);
  CHX_RETURN_IF_ERROR(CheckCounts(c, counts));
  if (x[0] != gy[0] ||
      (!Matches(image, counts, kernel, g, false) && !Matches(image, counts, kernel, g, true))) {
    return DimensionError("[", c.name(), "] expects a convolution's input and output, got ",
                          x.ToString(), " and ", gy.ToString());
  }
  return c.AddOutput(g.dtype, WithSpatial(gy[1], x[1], kernel));
}

// Whether it takes cover_all to make `counts` of `image`.
bool NeedsCoverAll(OpContext& c, const Dims& image, const Dims& counts, const Dims& kernel,
                   const AttrValue& stride, const AttrValue& pad) {
  Geometry g;
  // Inference has accepted these.
  const int ndim = image.size();
  if (!ExpandSpatial(c.op().name, "stride", stride, ndim, 1, &g.stride).ok() ||
      !ExpandSpatial(c.op().name, "pad", pad, ndim, 0, &g.pad).ok()) {
    return false;
  }
  return !Matches(image, counts, kernel, g, false);
}

// gb: the sum over all but the channels.
void BiasGradient(GradContext& g) {
  if (g.num_inputs() < 3 || !g.input_is_array(2) || !g.needs_grad(2)) return;
  const Value gy = g.output_grad(0);
  Ints axes = {0};
  for (int i = 2; i < gy.ndim(); ++i) axes.push_back(i);
  g.SetInputGrad(2, g.Apply("sum", {gy}, {{"axis", AttrValue(axes)}}));
}

void ConvGradient(GradContext& g) {
  const Value gy = g.output_grad(0);
  if (g.needs_grad(0)) {
    g.SetInputGrad(0, g.Apply("conv_transpose", {gy, g.input(1), Value()},
                              {{"stride", g.attr(0)},
                               {"pad", g.attr(1)},
                               {"outsize", ShapeAttr(SpatialOf(g.input_spec(0).shape))}}));
  }
  if (g.needs_grad(1)) {
    g.SetInputGrad(1, g.Apply("conv_grad_weight", {g.input(0), gy},
                              {{"ksize", ShapeAttr(SpatialOf(g.input_spec(1).shape))},
                               {"stride", g.attr(0)},
                               {"pad", g.attr(1)}}));
  }
  BiasGradient(g);
}

void ConvTransposeGradient(GradContext& g) {
  const Value gy = g.output_grad(0);
  const Dims kernel = SpatialOf(g.input_spec(1).shape);
  if (g.needs_grad(0)) {
    const bool cover_all = NeedsCoverAll(g, SpatialOf(gy.shape()), SpatialOf(g.input_spec(0).shape),
                                         kernel, g.attr(0), g.attr(1));
    g.SetInputGrad(0,
                   g.Apply("conv", {gy, g.input(1), Value()},
                           {{"stride", g.attr(0)}, {"pad", g.attr(1)}, {"cover_all", cover_all}}));
  }
  if (g.needs_grad(1)) {
    g.SetInputGrad(
        1, g.Apply("conv_grad_weight", {gy, g.input(0)},
                   {{"ksize", ShapeAttr(kernel)}, {"stride", g.attr(0)}, {"pad", g.attr(1)}}));
  }
  BiasGradient(g);
}

void ConvGradWeightGradient(GradContext& g) {
  const Value gw = g.output_grad(0);
  const Dims image = SpatialOf(g.input_spec(0).shape);
  if (g.needs_grad(0)) {
    g.SetInputGrad(
        0, g.Apply("conv_transpose", {g.input(1), gw, Value()},
                   {{"stride", g.attr(1)}, {"pad", g.attr(2)}, {"outsize", ShapeAttr(image)}}));
  }
  if (g.needs_grad(1)) {
    const bool cover_all = NeedsCoverAll(g, image, SpatialOf(g.input_spec(1).shape),
                                         SpatialOf(gw.shape()), g.attr(1), g.attr(2));
    g.SetInputGrad(1,
                   g.Apply("conv", {g.input(0), gw, Value()},
                           {{"stride", g.attr(1)}, {"pad", g.attr(2)}, {"cover_all", cover_all}}));
  }
}

}  // namespace

void RegisterConvolution(OpRegistry& r) {
  r.Add("conv")
      .Doc(
          "Convolution of x (N, C, spatial...) with w (outputs, C, kernel...), plus b (outputs,). "
          "stride and pad are a number, or one for each spatial dimension; with cover_all each "
          "element is in some window. Integers wrap around; of bools it is whether any product is "
          "true.")
      .Inputs({"x", "w", "b?"})
      .Outputs({"y"})
      .SpatialAttr("stride", Ints{1})
      .SpatialAttr("pad", Ints{0})
      .Attr("cover_all", AttrType::kBool, false)
      .Infer(ConvRule)
      .Saves({"x", "w"})
      .Gradient(ConvGradient);
  r.Add("conv_transpose")
      .Doc(
          "Transposed convolution: of x (N, C, spatial...) with w (C, outputs, kernel...), plus b "
          "(outputs,). outsize: the spatial dimensions of y, where several are possible. "
          "Integers and bools as in conv.")
      .Inputs({"x", "w", "b?"})
      .Outputs({"y"})
      .SpatialAttr("stride", Ints{1})
      .SpatialAttr("pad", Ints{0})
      .SpatialAttr("outsize", AttrValue())
      .Infer(ConvTransposeRule)
      .Saves({"x", "w"})
      .Gradient(ConvTransposeGradient);
  r.Add("conv_grad_weight")
      .Doc("Gradient of conv's w, from x and the gradient of y.")
      .Inputs({"x", "gy"})
      .Outputs({"gw"})
      .SpatialAttr("ksize")
      .SpatialAttr("stride", Ints{1})
      .SpatialAttr("pad", Ints{0})
      .Infer(ConvGradWeightRule)
      .Internal()
      .Saves({"x", "gy"})
      .Gradient(ConvGradWeightGradient);
}

}  // namespace chx
