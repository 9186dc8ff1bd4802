// Normalizations of each sample by itself: layer_norm and rms_norm over the last axes, and
// group_norm and instance_norm, which are layer_norm of another shape.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// As batch_norm: in the widest of the dtypes, float32 at least.
Dtype WideDtype(Dtype x, const Value& weight, const Value& bias) {
  Dtype dtype = PromoteTypes(x, Dtype::kFloat32);
  if (weight.is_array()) dtype = PromoteTypes(dtype, weight.dtype());
  return bias.is_array() ? PromoteTypes(dtype, bias.dtype()) : dtype;
}

// Attribute 0: the last axis by default.
Shape NormalizedShape(const AttrValue& shape, const Shape& x) {
  return shape.has_value() ? Shape(shape.ints()) : Shape({x.back()});
}

absl::Status CheckFloatOf(InferContext& c, int i, const Shape& shape) {
  if (!c.has_array(i)) return absl::OkStatus();
  const ArraySpec& input = c.input(i);
  if (!IsFloat(input.dtype)) {
    return DtypeError("[", c.name(), "] expects floats as '", c.op().inputs[i].name, "', got ",
                      DtypeName(input.dtype));
  }
  if (input.shape != shape) {
    return DimensionError("[", c.name(), "] expects '", c.op().inputs[i].name, "' of shape ",
                          shape.ToString(), ", got ", input.shape.ToString());
  }
  return absl::OkStatus();
}

// Whether x ends in the normalized shape.
absl::StatusOr<Shape> CheckRows(InferContext& c) {
  const ArraySpec& x = c.input(0);
  if (x.ndim() == 0) return DimensionError("[", c.name(), "] expects x with axes, got ()");
  const AttrValue& given = c.attr(0);
  const size_t count = given.has_value() ? given.ints().size() : 1;
  const auto ndim = static_cast<size_t>(x.ndim());
  bool fits = count >= 1 && count <= ndim;
  for (size_t i = 0; fits && given.has_value() && i < count; ++i) {
    fits = given.ints()[i] == x.shape[static_cast<int>(ndim - count + i)];
  }
  if (!fits) {
    return DimensionError("[", c.name(), "] expects normalized_shape to be the end of x's shape ",
                          x.shape.ToString(), ", got ", given.ToString());
  }
  return NormalizedShape(given, x.shape);
}

// x, weight?, bias?; normalized_shape, eps.
absl::Status RowsRule(InferContext& c) {
  CHX_ASSIGN_OR_RETURN(const Shape shape, CheckRows(c));
  for (int i = 1; i < c.num_inputs(); ++i) CHX_RETURN_IF_ERROR(CheckFloatOf(c, i, shape));
  return c.AddOutput(AtLeastFloat(c.input(0).dtype), c.input(0).shape);
}

// x, gy, weight?; normalized_shape, eps, affine.
absl::Status RowsGradRule(InferContext& c) {
  CHX_ASSIGN_OR_RETURN(const Shape shape, CheckRows(c));
  CHX_RETURN_IF_ERROR(CheckFloatOf(c, 0, c.input(0).shape));
  CHX_RETURN_IF_ERROR(CheckFloatOf(c, 1, c.input(0).shape));
  CHX_RETURN_IF_ERROR(CheckFloatOf(c, 2, shape));
  Dtype dtype = PromoteTypes(c.input(0).dtype, Dtype::kFloat32);
  if (c.has_array(2)) dtype = PromoteTypes(dtype, c.input(2).dtype);
  CHX_RETURN_IF_ERROR(c.AddOutput(c.input(0).dtype, c.input(0).shape));
  if (!c.attr(2).AsBool()) return absl::OkStatus();
  CHX_RETURN_IF_ERROR(c.AddOutput(dtype, shape));
  return c.AddOutput(dtype, shape);
}

// By default that of x's dtype.
double Eps(const AttrValue& eps, Dtype x) { return eps.has_value() ? eps.AsFloat() : EpsilonOf(x); }

// What the composition and the gradient share. Centered: layer_norm.
template <bool kCentered>
class Rows {
 public:
  Rows(OpContext& c, Value x, Dtype dtype)
      : c_(c), eps_(Eps(c.attr(1), x.dtype())), dtype_(dtype), x_(Cast(x, dtype)) {
    const int first = x.ndim() - NormalizedShape(c.attr(0), x.shape()).size();
    for (int i = 0; i < x.ndim(); ++i) {
      (i < first ? outer_ : axes_).push_back(i);
      if (i >= first) count_ *= static_cast<double>(x.shape()[i]);
    }
  }

  Value Wide(Value x) const { return Cast(x, dtype_); }
  Value Mean(Value x) const { return Sum(x, axes_, true) / count_; }
  // Over the rows, as a gradient of weight or bias.
  Value Total(Value x) const { return outer_.empty() ? x : Sum(x, outer_, false); }

  // The normalized x, and what x - mean was multiplied by.
  Value Normalize(Value* inverse) const {
    const Value centered = kCentered ? x_ - Mean(x_) : x_;
    *inverse = Value(1.0) / c_.Apply("sqrt", {Mean(centered * centered) + eps_});
    return centered * *inverse;
  }

 private:
  Value Sum(Value x, const Ints& axes, bool keep) const {
    return c_.Apply("sum", {x}, {{"axis", AttrValue(axes)}, {"keepdims", keep}});
  }

  OpContext& c_;
  const double eps_;
  const Dtype dtype_;
  const Value x_;
  Ints axes_;
  Ints outer_;
  double count_ = 1;
};

template <bool kCentered>
void RowsCompose(ComposeContext& c) {
  const Value x = FloatInput(c, 0);
  const Value weight = OptionalInput(c, 1);
  const Value bias = OptionalInput(c, 2);
  const Rows<kCentered> rows(c, x, WideDtype(x.dtype(), weight, bias));
  Value inverse;
  Value y = rows.Normalize(&inverse);
  if (weight.is_array()) y = y * rows.Wide(weight);
  if (bias.is_array()) y = y + rows.Wide(bias);
  c.SetOutput(0, Cast(y, x.dtype()));
}

// Ba, Kiros and Hinton, "Layer normalization", 2016. The moments are computed again from x, which
// lets these gradients be differentiated too.
template <bool kCentered>
void RowsGradCompose(ComposeContext& c) {
  const Value x = c.input(0);
  const Value weight = OptionalInput(c, 2);
  const Rows<kCentered> rows(c, x, WideDtype(x.dtype(), weight, Value()));
  Value inverse;
  const Value normalized = rows.Normalize(&inverse);
  const Value gy = rows.Wide(c.input(1));
  const Value scaled = weight.is_array() ? gy * rows.Wide(weight) : gy;
  Value gx = scaled - normalized * rows.Mean(scaled * normalized);
  if (kCentered) gx = gx - rows.Mean(scaled);
  c.SetOutput(0, Cast(gx * inverse, x.dtype()));
  if (!c.attr(2).AsBool()) return;
  c.SetOutput(1, rows.Total(gy * normalized));
  c.SetOutput(2, rows.Total(gy));
}

// By an operator that takes x, gy and weight, and says by `affine` whether it gives all gradients.
// `rows`: the attribute that says what a row is.
void SetGradients(GradContext& g, const std::string& op, const NamedAttr& rows,
                  const AttrValue& eps) {
  const auto is_array = [&g](int i) { return i < g.num_inputs() && g.input_is_array(i); };
  const Value x = Cast(g.input(0), g.output_spec(0).dtype);
  const bool affine = (is_array(1) && g.needs_grad(1)) || (is_array(2) && g.needs_grad(2));
  const Value gx = g.Apply(op, {x, g.output_grad(0), is_array(1) ? g.input(1) : Value()},
                           {rows, {"eps", eps}, {"affine", affine}});
  for (int i = 0; i < (affine ? 3 : 1); ++i) {
    if (i < g.num_inputs() && g.needs_grad(i)) g.SetInputGrad(i, Value(&g, gx.id() + i));
  }
}

void RowsGradient(GradContext& g) {
  SetGradients(g, g.op().name + "_grad", {"normalized_shape", g.attr(0)}, g.attr(1));
}

template <bool kCentered>
void AddRows(OpRegistry& r, const std::string& name, const std::string& doc,
             std::vector<std::string> inputs, const AttrValue& eps) {
  r.Add(name + "_grad")
      .Doc("Gradients of " + name + "'s x and, if affine, weight and bias, from that of y.")
      .Inputs({"x", "gy", "weight?"})
      .Outputs({"grads..."})
      .Attr("normalized_shape", AttrType::kInts, AttrValue())
      .Attr("eps", AttrType::kFloat, eps)
      .Attr("affine", AttrType::kBool, true)
      .Compose(RowsGradRule, RowsGradCompose<kCentered>)
      .Internal();
  r.Add(name)
      .Doc(doc + " normalized_shape: the sizes of these axes, the last one by default.")
      .Inputs(std::move(inputs))
      .Outputs({"y"})
      .Attr("normalized_shape", AttrType::kInts, AttrValue())
      .Attr("eps", AttrType::kFloat, eps)
      .Compose(RowsRule, RowsCompose<kCentered>)
      .Saves({"x", "weight"})
      .Gradient(RowsGradient);
}

// x (N, C, ...), weight?, bias? of (C).
absl::Status CheckGroups(InferContext& c, int64_t groups) {
  const ArraySpec& x = c.input(0);
  if (x.ndim() < 2) {
    return DimensionError("[", c.name(), "] expects x of shape (N, C, ...), got ",
                          x.shape.ToString());
  }
  if (groups < 1 || x.shape[1] % groups != 0) {
    return ValueError("[", c.name(), "] expects num_groups to divide ", x.shape[1],
                      " channels, got ", groups);
  }
  return absl::OkStatus();
}

absl::Status ChannelsRule(InferContext& c, int64_t groups) {
  const ArraySpec& x = c.input(0);
  CHX_RETURN_IF_ERROR(CheckGroups(c, groups));
  for (int i = 1; i < c.num_inputs(); ++i) {
    CHX_RETURN_IF_ERROR(CheckFloatOf(c, i, Shape({x.shape[1]})));
  }
  return c.AddOutput(AtLeastFloat(x.dtype), x.shape);
}

absl::Status GroupNormRule(InferContext& c) { return ChannelsRule(c, c.attr(0).AsInt()); }
absl::Status InstanceNormRule(InferContext& c) {
  return ChannelsRule(c, c.input(0).ndim() < 2 ? 1 : std::max<int64_t>(1, c.input(0).shape[1]));
}

// (N, C, ...) as rows of layer_norm, one for each group of channels.
Value GroupRows(Value x, int64_t groups) {
  int64_t size = x.shape()[1] / groups;
  for (int i = 2; i < x.ndim(); ++i) size *= x.shape()[i];
  return Reshape(x, Shape({x.shape()[0], groups, size}));
}

// (C,) as (C, 1, ...), to go with x (N, C, ...).
Value Spread(Value parameter, const Shape& x) {
  Shape column({x[1]});
  for (int i = 2; i < x.size(); ++i) column.push_back(1);
  return Reshape(parameter, column);
}

void NormalizeGroups(ComposeContext& c, int64_t groups, double eps) {
  const Value x = FloatInput(c, 0);
  const Value weight = OptionalInput(c, 1);
  const Value bias = OptionalInput(c, 2);
  const Dtype dtype = WideDtype(x.dtype(), weight, bias);
  const Shape shape = c.input(0).shape();
  const bool affine = weight.is_array() || bias.is_array();
  const Value rows = GroupRows(affine ? Cast(x, dtype) : x, groups);
  Value y = Reshape(c.Apply("layer_norm", {rows, Value(), Value()}, {{"eps", eps}}), shape);
  if (weight.is_array()) y = y * Spread(Cast(weight, dtype), shape);
  if (bias.is_array()) y = y + Spread(Cast(bias, dtype), shape);
  c.SetOutput(0, Cast(y, x.dtype()));
}

// x, gy, weight?; num_groups, eps, affine.
absl::Status GroupNormGradRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  CHX_RETURN_IF_ERROR(CheckGroups(c, c.attr(0).AsInt()));
  CHX_RETURN_IF_ERROR(CheckFloatOf(c, 0, x.shape));
  CHX_RETURN_IF_ERROR(CheckFloatOf(c, 1, x.shape));
  const Shape channels({x.shape[1]});
  CHX_RETURN_IF_ERROR(CheckFloatOf(c, 2, channels));
  Dtype dtype = PromoteTypes(x.dtype, Dtype::kFloat32);
  if (c.has_array(2)) dtype = PromoteTypes(dtype, c.input(2).dtype);
  CHX_RETURN_IF_ERROR(c.AddOutput(x.dtype, x.shape));
  if (!c.attr(2).AsBool()) return absl::OkStatus();
  CHX_RETURN_IF_ERROR(c.AddOutput(dtype, channels));
  return c.AddOutput(dtype, channels);
}

// By layer_norm, whose gradients can be differentiated.
void GroupNormGradCompose(ComposeContext& c) {
  const int64_t groups = c.attr(0).AsInt();
  const Value weight = OptionalInput(c, 2);
  const Dtype dtype = WideDtype(c.input(0).dtype(), weight, Value());
  const Value x = Cast(c.input(0), dtype);
  const Value gy = Cast(c.input(1), dtype);
  const Shape shape = c.input(0).shape();
  const Value rows = GroupRows(x, groups);
  const Value scaled = weight.is_array() ? gy * Spread(Cast(weight, dtype), shape) : gy;
  const Value gx = c.Apply("layer_norm_grad", {rows, GroupRows(scaled, groups), Value()},
                           {{"eps", c.attr(1)}, {"affine", false}});
  c.SetOutput(0, Cast(Reshape(gx, shape), c.input(0).dtype()));
  if (!c.attr(2).AsBool()) return;
  Ints axes = {0};
  for (int i = 2; i < shape.size(); ++i) axes.push_back(i);
  const Value normalized =
      Reshape(c.Apply("layer_norm", {rows, Value(), Value()}, {{"eps", c.attr(1)}}), shape);
  c.SetOutput(1, c.Apply("sum", {gy * normalized}, {{"axis", AttrValue(axes)}}));
  c.SetOutput(2, c.Apply("sum", {gy}, {{"axis", AttrValue(axes)}}));
}

void GroupsGradient(GradContext& g, int64_t groups, const AttrValue& eps) {
  SetGradients(g, "group_norm_grad", {"num_groups", groups}, eps);
}

void AddChannels(OpRegistry& r) {
  r.Add("group_norm_grad")
      .Doc("Gradients of group_norm's x and, if affine, weight and bias, from that of y.")
      .Inputs({"x", "gy", "weight?"})
      .Outputs({"grads..."})
      .Attr("num_groups", AttrType::kInt)
      .Attr("eps", AttrType::kFloat, 1e-5)
      .Attr("affine", AttrType::kBool, true)
      .Compose(GroupNormGradRule, GroupNormGradCompose)
      .Internal();
  r.Add("group_norm")
      .Doc(
          "Normalizes each sample's groups of channels to mean 0 and variance 1, times weight, "
          "plus "
          "bias, which are (C). x: (N, C, ...).")
      .Inputs({"x", "weight?", "bias?"})
      .Outputs({"y"})
      .Attr("num_groups", AttrType::kInt, 1)
      .Attr("eps", AttrType::kFloat, 1e-5)
      .Compose(
          GroupNormRule,
          [](ComposeContext& c) { NormalizeGroups(c, c.attr(0).AsInt(), c.attr(1).AsFloat()); })
      .Saves({"x", "weight"})
      .Gradient([](GradContext& g) { GroupsGradient(g, g.attr(0).AsInt(), g.attr(1)); });
  r.Add("instance_norm")
      .Doc(
          "Normalizes each channel of each sample to mean 0 and variance 1, times weight, plus "
          "bias, which are (C). x: (N, C, ...).")
      .Inputs({"x", "weight?", "bias?"})
      .Outputs({"y"})
      .Attr("eps", AttrType::kFloat, 1e-5)
      .Compose(InstanceNormRule,
               [](ComposeContext& c) {
                 const int64_t channels = c.input(0).shape()[1];
                 NormalizeGroups(c, std::max<int64_t>(1, channels), c.attr(0).AsFloat());
               })
      .Saves({"x", "weight"})
      .Gradient([](GradContext& g) {
        const int64_t channels = g.input_spec(0).shape[1];
        GroupsGradient(g, std::max<int64_t>(1, channels), g.attr(0));
      });
}

}  // namespace

void RegisterNormalizationRows(OpRegistry& r) {
  AddRows<true>(
      r, "layer_norm",
      "Normalizes x over its last axes to mean 0 and variance 1, times weight, plus bias.",
      {"x", "weight?", "bias?"}, 1e-5);
  AddRows<false>(r, "rms_norm",
                 "Divides x by the root of its mean square over its last axes, times weight. eps: "
                 "that of x's dtype by default.",
                 {"x", "weight?"}, AttrValue());
  AddChannels(r);
}

}  // namespace chx
