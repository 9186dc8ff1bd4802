// Batch normalization.
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"

namespace chx {
namespace {

// The axes that are normalized over, as a bit mask: the first one by default.
absl::StatusOr<uint32_t> Axes(absl::string_view op, const AttrValue& axis, int ndim) {
  if (axis.has_value()) return rules::NormalizeAxes(op, axis, ndim);
  return uint32_t{1};
}

// Everything is computed in the widest of the dtypes, float32 at least.
Dtype WideDtype(Dtype x, Dtype gamma) {
  return PromoteTypes(PromoteTypes(x, gamma), Dtype::kFloat32);
}

// x, then floats of the shape that is left of x's without the axes, up to input `count`.
absl::Status CheckOperands(InferContext& c, int axis_attr, int count) {
  const ArraySpec& x = c.input(0);
  if (x.ndim() == 0) return DimensionError("[", c.name(), "] expects x with axes, got ()");
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, Axes(c.name(), c.attr(axis_attr), x.ndim()));
  const Shape shape = rules::ReducedShape(x.shape, axes, false);
  for (int i = 0; i < count; ++i) {
    if (!IsFloat(c.input(i).dtype)) {
      return DtypeError("[", c.name(), "] expects floats, got ", DtypeName(c.input(i).dtype));
    }
    if (i > 0 && c.input(i).shape != shape) {
      return DimensionError("[", c.name(), "] expects '", c.op().inputs[i].name, "' of shape ",
                            shape.ToString(), ", got ", c.input(i).shape.ToString());
    }
  }
  return absl::OkStatus();
}

// x, gamma, beta, mean, var; eps, ..., axis. y has x's dtype.
absl::Status NormRule(InferContext& c, int axis_attr) {
  CHX_RETURN_IF_ERROR(CheckOperands(c, axis_attr, 5));
  return c.AddOutput(c.input(0).dtype, c.input(0).shape);
}

absl::Status CheckNotEmpty(InferContext& c, int axis_attr) {
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, Axes(c.name(), c.attr(axis_attr), c.input(0).ndim()));
  return rules::CheckAxesNotEmpty(c.name(), c.input(0).shape, axes);
}

absl::Status BatchNormRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(NormRule(c, 2));
  return CheckNotEmpty(c, 2);
}

absl::Status FixedBatchNormRule(InferContext& c) { return NormRule(c, 1); }

// Expressions that the forward pass and the gradient share.
class Normalizer {
 public:
  Normalizer(OpContext& c, const AttrValue& axis, Value x, Value gamma)
      : c_(c),
        mask_(Axes(c.op().name, axis, x.ndim()).value_or(0)),
        dtype_(WideDtype(x.dtype(), gamma.dtype())),
        kept_(rules::ReducedShape(x.shape(), mask_, true)),
        reduced_(rules::ReducedShape(x.shape(), mask_, false)) {
    for (int i = 0; i < x.ndim(); ++i) {
      if ((mask_ >> i & 1) == 0) continue;
      axes_.push_back(i);
      count_ *= static_cast<double>(x.shape()[i]);
    }
    x_ = Wide(x);
  }

  Value Wide(Value x) { return As(x, dtype_); }
  Value As(Value x, Dtype dtype) {
    return x.dtype() == dtype ? x : c_.Apply("astype", {x}, {{"dtype", dtype}});
  }
  // Of gamma's shape, made to broadcast against x.
  Value Spread(Value x) { return Reshape(Wide(x), kept_); }
  Value Reduced(Value x) { return Reshape(x, reduced_); }
  Value Sum(Value x) {
    return c_.Apply("sum", {x}, {{"axis", AttrValue(axes_)}, {"keepdims", true}});
  }
  double count() const { return count_; }
  Value x() const { return x_; }

  // Of x, kept dimensions: mean, x - mean, and the variance.
  void Moments(Value* mean, Value* centered, Value* variance) {
    *mean = Sum(x_) / count_;
    *centered = x_ - *mean;
    *variance = Sum(*centered * *centered) / count_;
  }
  Value InverseDeviation(Value variance, double eps) {
    return Value(1.0) / c_.Apply("sqrt", {variance + eps});
  }

 private:
  Value Reshape(Value x, const Shape& shape) {
    if (x.shape() == shape) return x;
    return c_.Apply("reshape", {x}, {{"newshape", AttrValue::FromInts(shape.span())}});
  }

  OpContext& c_;
  const uint32_t mask_;
  const Dtype dtype_;
  const Shape kept_;
  const Shape reduced_;
  Ints axes_;
  double count_ = 1;
  Value x_;
};

// x, gamma, beta; eps, axis.
absl::Status NormForwardRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckOperands(c, 1, 3));
  CHX_RETURN_IF_ERROR(CheckNotEmpty(c, 1));
  const Dtype dtype = WideDtype(c.input(0).dtype, c.input(1).dtype);
  CHX_RETURN_IF_ERROR(c.AddOutput(c.input(0).dtype, c.input(0).shape));
  CHX_RETURN_IF_ERROR(c.AddOutput(dtype, c.input(1).shape));
  return c.AddOutput(dtype, c.input(1).shape);
}

void NormForwardCompose(ComposeContext& c) {
  Normalizer n(c, c.attr(1), c.input(0), c.input(1));
  Value mean;
  Value centered;
  Value variance;
  n.Moments(&mean, &centered, &variance);
  const Value scale = n.InverseDeviation(variance, c.attr(0).AsFloat()) * n.Spread(c.input(1));
  c.SetOutput(0, n.As(centered * scale + n.Spread(c.input(2)), c.input(0).dtype()));
  c.SetOutput(1, n.Reduced(mean));
  c.SetOutput(2, n.Reduced(variance));
}

// x, gamma, gy; eps, axis.
absl::Status BackwardRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckOperands(c, 1, 2));
  CHX_RETURN_IF_ERROR(CheckNotEmpty(c, 1));
  if (c.input(2).shape != c.input(0).shape || !IsFloat(c.input(2).dtype)) {
    return DimensionError("[", c.name(), "] expects a gradient for each element of x, got ",
                          c.input(2).ToString());
  }
  const Dtype dtype = WideDtype(c.input(0).dtype, c.input(1).dtype);
  CHX_RETURN_IF_ERROR(c.AddOutput(dtype, c.input(0).shape));
  CHX_RETURN_IF_ERROR(c.AddOutput(dtype, c.input(1).shape));
  return c.AddOutput(dtype, c.input(1).shape);
}

// Ioffe and Szegedy, "Batch normalization", 2015. The moments are computed again from x, which
// lets these gradients be differentiated too.
void BackwardCompose(ComposeContext& c) {
  Normalizer n(c, c.attr(1), c.input(0), c.input(1));
  Value mean;
  Value centered;
  Value variance;
  n.Moments(&mean, &centered, &variance);
  const Value inverse = n.InverseDeviation(variance, c.attr(0).AsFloat());
  const Value normalized = centered * inverse;
  const Value gy = n.Wide(c.input(2));
  const Value gbeta = n.Sum(gy);
  const Value ggamma = n.Sum(gy * normalized);
  const Value scale = inverse * n.Spread(c.input(1));
  c.SetOutput(0, (gy - (normalized * ggamma + gbeta) / n.count()) * scale);
  c.SetOutput(1, n.Reduced(ggamma));
  c.SetOutput(2, n.Reduced(gbeta));
}

// running = decay * running + share * now, in place.
void Update(ComposeContext& c, Value running, Value now, double decay, double share) {
  c.Apply("multiply_", {running, decay});
  c.Apply("add_", {running, now * share});
}

void BatchNormCompose(ComposeContext& c) {
  const double decay = c.attr(1).AsFloat();
  Normalizer n(c, c.attr(2), c.input(0), c.input(1));
  const Value y = c.Apply("batch_norm_forward", {c.input(0), c.input(1), c.input(2)},
                          {{"eps", c.attr(0)}, {"axis", c.attr(2)}});
  const Value mean(&c, y.id() + 1);
  const Value variance(&c, y.id() + 2);
  c.SetOutput(0, y);
  // The unbiased estimate of the variance.
  const double unbiased = n.count() / (n.count() > 2 ? n.count() - 1 : 1);
  Update(c, c.input(3), n.As(mean, c.input(3).dtype()), decay, 1 - decay);
  Update(c, c.input(4), n.As(variance, c.input(4).dtype()), decay, (1 - decay) * unbiased);
}

void BatchNormGradient(GradContext& g) {
  const Value gx = g.Apply("batch_norm_grad", {g.input(0), g.input(1), g.output_grad(0)},
                           {{"eps", g.attr(0)}, {"axis", g.attr(2)}});
  for (int i = 0; i < 3; ++i) {
    if (g.needs_grad(i)) g.SetInputGrad(i, Value(&g, gx.id() + i));
  }
}

void FixedBatchNormCompose(ComposeContext& c) {
  Normalizer n(c, c.attr(1), c.input(0), c.input(1));
  const Value inverse = n.InverseDeviation(n.Spread(c.input(4)), c.attr(0).AsFloat());
  const Value scale = inverse * n.Spread(c.input(1));
  const Value y = (n.x() - n.Spread(c.input(3))) * scale + n.Spread(c.input(2));
  c.SetOutput(0, n.As(y, c.input(0).dtype()));
}

}  // namespace

void RegisterNormalization(OpRegistry& r) {
  r.Add("batch_norm")
      .Doc(
          "Normalizes x over axes to mean 0 and variance 1, times gamma, plus beta. Updates "
          "running_mean and running_var in place. axis: the first one by default.")
      .Inputs({"x", "gamma", "beta", "running_mean", "running_var"})
      .Outputs({"y"})
      .Attr("eps", AttrType::kFloat, 2e-5)
      .Attr("decay", AttrType::kFloat, 0.9)
      .Attr("axis", AttrType::kInts, AttrValue())
      .Compose(BatchNormRule, BatchNormCompose)
      .ConstantInputs({"running_mean", "running_var"})
      .Writes({"running_mean", "running_var"})
      .Saves({"x", "gamma"})
      .Gradient(BatchNormGradient);
  r.Add("fixed_batch_norm")
      .Doc("batch_norm with a given mean and variance.")
      .Inputs({"x", "gamma", "beta", "mean", "var"})
      .Outputs({"y"})
      .Attr("eps", AttrType::kFloat, 2e-5)
      .Attr("axis", AttrType::kInts, AttrValue())
      .Compose(FixedBatchNormRule, FixedBatchNormCompose);
  r.Add("batch_norm_forward")
      .Doc("batch_norm's y, and the mean and variance of x, which is not empty.")
      .Inputs({"x", "gamma", "beta"})
      .Outputs({"y", "mean", "variance"})
      .Attr("eps", AttrType::kFloat, 2e-5)
      .Attr("axis", AttrType::kInts, AttrValue())
      .Compose(NormForwardRule, NormForwardCompose)
      .Internal();
  r.Add("batch_norm_grad")
      .Doc("Gradients of batch_norm's x, gamma and beta, from that of y.")
      .Inputs({"x", "gamma", "gy"})
      .Outputs({"gx", "ggamma", "gbeta"})
      .Attr("eps", AttrType::kFloat, 2e-5)
      .Attr("axis", AttrType::kInts, AttrValue())
      .Compose(BackwardRule, BackwardCompose)
      .Internal();
}

}  // namespace chx
