// Pooling over windows with any number of spatial dimensions: x (N, C, spatial...).
#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"
#include "ops/spatial_windows.h"

namespace chx {
namespace {

// The attributes from `first` on: ksize, stride, pad.
absl::Status WindowsRule(const InferContext& c, const Shape& shape, int first, bool cover_all,
                         Dims* counts) {
  if (shape.size() < 3) {
    return DimensionError("[", c.name(), "] expects an array of 3 or more dimensions, got ",
                          shape.ToString());
  }
  const int ndim = shape.size() - 2;
  const AttrValue& ksize = c.attr(first);
  const AttrValue& stride = c.attr(first + 1).has_value() ? c.attr(first + 1) : ksize;
  Dims kernel;
  Dims step;
  Dims pad;
  CHX_RETURN_IF_ERROR(ExpandSpatial(c.name(), "ksize", ksize, ndim, 1, &kernel));
  CHX_RETURN_IF_ERROR(ExpandSpatial(c.name(), "stride", stride, ndim, 1, &step));
  CHX_RETURN_IF_ERROR(ExpandSpatial(c.name(), "pad", c.attr(first + 2), ndim, 0, &pad));
  CHX_ASSIGN_OR_RETURN(*counts, WindowCounts(c.name(), shape, kernel, step, pad, cover_all));
  return absl::OkStatus();
}

absl::Status CheckFloat(const InferContext& c) {
  if (IsFloat(c.input(0).dtype)) return absl::OkStatus();
  return DtypeError("[", c.name(), "] expects floats, got ", DtypeName(c.input(0).dtype));
}

// x; ksize, stride, pad[, cover_all]. `index`: a second output, of positions.
absl::Status PoolRule(InferContext& c, bool cover_all, bool index) {
  CHX_RETURN_IF_ERROR(CheckFloat(c));
  const ArraySpec& x = c.input(0);
  Dims counts;
  CHX_RETURN_IF_ERROR(WindowsRule(c, x.shape, 0, cover_all, &counts));
  const Shape shape = WithSpatial(x.shape[0], x.shape[1], counts);
  CHX_RETURN_IF_ERROR(c.AddOutput(x.dtype, shape));
  return index ? c.AddOutput(Dtype::kInt64, shape) : absl::OkStatus();
}

absl::Status MaxPoolRule(InferContext& c) { return PoolRule(c, c.attr(3).AsBool(), false); }
absl::Status MaxPoolIndexRule(InferContext& c) { return PoolRule(c, c.attr(3).AsBool(), true); }
absl::Status AveragePoolRule(InferContext& c) { return PoolRule(c, false, false); }

absl::Status CheckIndex(InferContext& c) {
  if (c.input(1).dtype != Dtype::kInt64) {
    return DtypeError("[", c.name(), "] expects int64 positions, got ",
                      DtypeName(c.input(1).dtype));
  }
  return absl::OkStatus();
}

// x, index.
absl::Status PoolGatherRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckFloat(c));
  CHX_RETURN_IF_ERROR(CheckIndex(c));
  const Shape& x = c.input(0).shape;
  const Shape& index = c.input(1).shape;
  Dims counts;
  CHX_RETURN_IF_ERROR(WindowsRule(c, x, 0, c.attr(3).AsBool(), &counts));
  if (index != WithSpatial(x[0], x[1], counts)) {
    return DimensionError("[pool_gather] expects a position for each window, got ",
                          index.ToString(), " for ", x.ToString());
  }
  return c.AddOutput(c.input(0).dtype, index);
}

// gy[, index]; shape, ksize, stride, pad[, cover_all].
absl::Status PoolBack(InferContext& c, bool cover_all) {
  CHX_RETURN_IF_ERROR(CheckFloat(c));
  const Dtype dtype = c.input(0).dtype;
  const Shape& gy = c.input(0).shape;
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), c.attr(0).ints(), dtype));
  const Shape shape(c.attr(0).ints());
  Dims counts;
  CHX_RETURN_IF_ERROR(WindowsRule(c, shape, 1, cover_all, &counts));
  if (gy != WithSpatial(shape[0], shape[1], counts)) {
    return DimensionError("[", c.name(), "] expects a gradient for ", shape.ToString(), ", got ",
                          gy.ToString());
  }
  return c.AddOutput(dtype, shape);
}

absl::Status PoolScatterRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckIndex(c));
  if (c.input(1).shape != c.input(0).shape) {
    return DimensionError("[pool_scatter] expects a position for each element, got ",
                          c.input(1).shape.ToString(), " for ", c.input(0).shape.ToString());
  }
  return PoolBack(c, c.attr(4).AsBool());
}

absl::Status AveragePoolGradRule(InferContext& c) { return PoolBack(c, false); }

// How many elements a window has.
double WindowSize(const AttrValue& ksize, int ndim) {
  double size = 1;
  for (int d = 0; d < ndim; ++d) size *= ksize.ints()[ksize.ints().size() == 1 ? 0 : d];
  return size;
}

OpDef& WindowAttrs(OpDef& op) {
  return op.SpatialAttr("ksize").SpatialAttr("stride", AttrValue()).SpatialAttr("pad", Ints{0});
}

}  // namespace

void RegisterPooling(OpRegistry& r) {
  WindowAttrs(r.Add("max_pool")
                  .Doc("Greatest element of each window. ksize, stride (ksize by default) and pad "
                       "are a number, or one for each spatial dimension; with cover_all each "
                       "element is in some window.")
                  .Inputs({"x"})
                  .Outputs({"y"}))
      .Attr("cover_all", AttrType::kBool, false)
      .Compose(MaxPoolRule, [](ComposeContext& c) {
        c.SetOutput(0, c.Apply("max_pool_index", {c.input(0)},
                               {{"ksize", c.attr(0)},
                                {"stride", c.attr(1)},
                                {"pad", c.attr(2)},
                                {"cover_all", c.attr(3)}}));
      });
  WindowAttrs(r.Add("average_pool")
                  .Doc("Average of each window; see max_pool. Padding counts as elements of zero "
                       "('zero') or not at all ('ignore'), so that a window with none is 0 / 0.")
                  .Inputs({"x"})
                  .Outputs({"y"}))
      .Choice("pad_mode", {"ignore", "zero"}, static_cast<int64_t>(PadMode::kIgnore))
      .Infer(AveragePoolRule)
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.Apply("average_pool_grad", {g.output_grad(0)},
                                  {{"shape", ShapeAttr(g.input_spec(0).shape)},
                                   {"ksize", g.attr(0)},
                                   {"stride", g.attr(1)},
                                   {"pad", g.attr(2)},
                                   {"pad_mode", g.attr(3)}}));
      });
  WindowAttrs(r.Add("max_pool_index")
                  .Doc("max_pool, and the positions of what it chose among a channel's elements.")
                  .Inputs({"x"})
                  .Outputs({"y", "index"}))
      .Attr("cover_all", AttrType::kBool, false)
      .Infer(MaxPoolIndexRule)
      .Internal()
      .Saves({"index"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.Apply("pool_scatter", {g.output_grad(0), g.output(1)},
                                  {{"shape", ShapeAttr(g.input_spec(0).shape)},
                                   {"ksize", g.attr(0)},
                                   {"stride", g.attr(1)},
                                   {"pad", g.attr(2)},
                                   {"cover_all", g.attr(3)}}));
      });
  WindowAttrs(
      r.Add("pool_gather")
          .Doc("Elements of each channel of x, by their positions; zero where there is none.")
          .Inputs({"x", "index"})
          .Outputs({"y"}))
      .Attr("cover_all", AttrType::kBool, false)
      .Infer(PoolGatherRule)
      .Internal()
      .Saves({"index"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.Apply("pool_scatter", {g.output_grad(0), g.input(1)},
                                  {{"shape", ShapeAttr(g.input_spec(0).shape)},
                                   {"ksize", g.attr(0)},
                                   {"stride", g.attr(1)},
                                   {"pad", g.attr(2)},
                                   {"cover_all", g.attr(3)}}));
      });
  WindowAttrs(r.Add("pool_scatter")
                  .Doc("Zeros of a shape, with gy added at the positions that its windows chose.")
                  .Inputs({"gy", "index"})
                  .Outputs({"gx"})
                  .Attr("shape", AttrType::kInts))
      .Attr("cover_all", AttrType::kBool, false)
      .Infer(PoolScatterRule)
      .Internal()
      .Saves({"index"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.Apply("pool_gather", {g.output_grad(0), g.input(1)},
                                  {{"ksize", g.attr(1)},
                                   {"stride", g.attr(2)},
                                   {"pad", g.attr(3)},
                                   {"cover_all", g.attr(4)}}));
      });
  WindowAttrs(
      r.Add("average_pool_grad")
          .Doc("The gradient of average_pool: an array of a shape, in which each element is "
               "the sum of its parts of gy over the windows that it is in.")
          .Inputs({"gy"})
          .Outputs({"gx"})
          .Attr("shape", AttrType::kInts))
      .Choice("pad_mode", {"ignore", "zero"}, static_cast<int64_t>(PadMode::kIgnore))
      .Infer(AveragePoolGradRule)
      .Internal()
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.Apply("average_pool", {g.output_grad(0)},
                                  {{"ksize", g.attr(1)},
                                   {"stride", g.attr(2)},
                                   {"pad", g.attr(3)},
                                   {"pad_mode", g.attr(4)}}));
      });
  // What average_pool was made of, for clients of before it was an operator of its own.
  WindowAttrs(r.Add("pool_sum").Doc("Sum of each window.").Inputs({"x"}).Outputs({"y"}))
      .Internal()
      .Compose(AveragePoolRule, [](ComposeContext& c) {
        const Value mean = c.Apply("average_pool", {c.input(0)},
                                   {{"ksize", c.attr(0)},
                                    {"stride", c.attr(1)},
                                    {"pad", c.attr(2)},
                                    {"pad_mode", static_cast<int64_t>(PadMode::kZero)}});
        c.SetOutput(0, mean * WindowSize(c.attr(0), c.input(0).ndim() - 2));
      });
  WindowAttrs(r.Add("pool_spread")
                  .Doc("An array of a shape, in which each element is the sum of gy over the "
                       "windows that it is in.")
                  .Inputs({"gy"})
                  .Outputs({"gx"})
                  .Attr("shape", AttrType::kInts))
      .Internal()
      .Compose(AveragePoolGradRule, [](ComposeContext& c) {
        const Value mean = c.Apply("average_pool_grad", {c.input(0)},
                                   {{"shape", c.attr(0)},
                                    {"ksize", c.attr(1)},
                                    {"stride", c.attr(2)},
                                    {"pad", c.attr(3)},
                                    {"pad_mode", static_cast<int64_t>(PadMode::kZero)}});
        c.SetOutput(0, mean * WindowSize(c.attr(1), c.input(0).ndim() - 2));
      });
}

}  // namespace chx
