// Loss functions and accuracy.
#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// x1 (N, C) float, x2 (N,) integer labels.
absl::Status CheckLabels(const InferContext& c) {
  const ArraySpec& x = c.input(0);
  const ArraySpec& t = c.input(1);
  if (!IsFloat(x.dtype) || !IsInt(t.dtype)) {
    return DtypeError("[", c.name(), "] expects float scores and integer labels, got ",
                      DtypeName(x.dtype), " and ", DtypeName(t.dtype));
  }
  if (x.ndim() != 2 || t.ndim() != 1 || x.shape[0] != t.shape[0]) {
    return DimensionError("[", c.name(), "] expects shapes (N, C) and (N,), got ",
                          x.shape.ToString(), " and ", t.shape.ToString());
  }
  return rules::CheckAxesNotEmpty(c.name(), x.shape, 1u << 1);
}

absl::Status SoftmaxCrossEntropyRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckLabels(c));
  c.CastInput(1, Dtype::kInt64);
  return c.AddOutput(c.input(0).dtype, {c.input(0).shape[0]});
}

absl::Status SoftmaxCrossEntropyGradRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckLabels(c));
  if (c.input(2).shape != c.input(1).shape || c.input(2).dtype != c.input(0).dtype) {
    return DimensionError("[", c.name(), "] expects a gradient for each sample, got ",
                          c.input(2).ToString());
  }
  c.CastInput(1, Dtype::kInt64);
  return c.AddOutput(c.input(0).dtype, c.input(0).shape);
}

// Labels are compared as int64: -1 must not become 255.
Value WideLabels(Value t) { return Cast(t, Dtype::kInt64); }

Value NotIgnored(OpContext& c, Value t, int64_t ignored) {
  return c.Apply("not_equal", {WideLabels(t), Scalar(ignored)});
}

Value Column(OpContext& c, Value x) { return c.Apply("expand_dims", {x}, {{"axis", int64_t{1}}}); }

// gx = m gy (s - onehot(t)), with s = softmax(x) and m = 0 for ignored samples. Linear in gy; and
// d gx / d x = m gy (diag(s) - s s^T).
void SoftmaxCrossEntropyGradGradient(GradContext& g) {
  const Value ggx = g.output_grad(0);
  const Value x = g.input(0);
  const Value t = g.input(1);
  const Value gy = g.input(2);
  const auto sum_rows = [&g](Value v, bool keepdims) {
    return g.Apply("sum", {v}, {{"axis", AttrValue(Ints{1})}, {"keepdims", keepdims}});
  };
  if (g.needs_grad(0)) {
    const Value s = g.Apply("softmax", {x}, {{"axis", AttrValue(Ints{1})}});
    const Value used = g.Apply("where", {NotIgnored(g, t, -1), gy, 0});
    g.SetInputGrad(0, Column(g, used) * s * (ggx - sum_rows(ggx * s, true)));
  }
  if (g.needs_grad(2)) {
    const Value ones = g.Apply("ones_like", {gy});
    g.SetInputGrad(2, sum_rows(ggx * g.Apply("softmax_cross_entropy_grad", {x, t, ones}), false));
  }
}

absl::Status SigmoidCrossEntropyRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  const ArraySpec& t = c.input(1);
  if (!IsFloat(x.dtype) || !IsInt(t.dtype)) {
    return DtypeError("[", c.name(), "] expects float scores and integer labels, got ",
                      DtypeName(x.dtype), " and ", DtypeName(t.dtype));
  }
  if (x.shape != t.shape) {
    return DimensionError("[", c.name(), "] expects equal shapes, got ", x.shape.ToString(),
                          " and ", t.shape.ToString());
  }
  return c.AddOutput(x.dtype, x.shape);
}

// max(x, 0) - x t + log(1 + exp(-|x|)).
void SigmoidCrossEntropy(ComposeContext& c) {
  const Value x = c.input(0);
  const Value t = c.Apply("astype", {c.input(1)}, {{"dtype", x.dtype()}});
  const Value softplus = c.Apply("log", {c.Apply("exp", {-c.Apply("abs", {x})}) + 1.0});
  const Value loss = c.Apply("relu", {x}) - x * t + softplus;
  c.SetOutput(0, c.Apply("where", {NotIgnored(c, c.input(1), -1), loss, 0}));
}

void SigmoidCrossEntropyGradient(GradContext& g) {
  const Value x = g.input(0);
  const Value t = g.Apply("astype", {g.input(1)}, {{"dtype", x.dtype()}});
  const Value used = NotIgnored(g, g.input(1), -1);
  const Value slope = g.Apply("sigmoid", {x}) - t;
  g.SetInputGrad(0, g.Apply("where", {used, g.output_grad(0) * slope, 0}));
}

absl::Status AccuracyRule(InferContext& c) {
  const ArraySpec& y = c.input(0);
  const ArraySpec& t = c.input(1);
  if (!IsFloat(y.dtype)) {
    return DtypeError("[accuracy] expects float scores, got ", DtypeName(y.dtype));
  }
  if (!IsInt(t.dtype) || t.dtype == Dtype::kUint8) {
    return DtypeError("[accuracy] expects signed integer labels, got ", DtypeName(t.dtype));
  }
  // Axes of one element after those of the labels are allowed.
  bool fits = y.ndim() >= 2 && y.ndim() > t.ndim();
  for (int i = 0; fits && i < y.ndim(); ++i) {
    const int j = i == 0 ? 0 : i - 1;
    if (i != 1) fits = y.shape[i] == (j < t.ndim() ? t.shape[j] : 1);
  }
  if (!fits) {
    return DimensionError("[accuracy] expects scores (N, C, ...) and labels (N, ...), got ",
                          y.shape.ToString(), " and ", t.shape.ToString());
  }
  CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), y.shape, 1u << 1));
  return c.AddOutput(y.dtype, {});
}

void Accuracy(ComposeContext& c) {
  const Value y = c.input(0);
  const Value t = c.input(1);
  const Dtype result = y.dtype();
  // Counts are sums of bools: exact as int64, too large for float16.
  const auto count = [&](Value hits) {
    return Cast(c.Apply("sum", {hits}),
                result == Dtype::kFloat64 ? Dtype::kFloat64 : Dtype::kFloat32);
  };
  Value chosen = c.Apply("argmax", {y}, {{"axis", int64_t{1}}});
  if (chosen.shape() != t.shape()) {
    chosen = Reshape(chosen, t.shape());
  }
  const Value right = c.Apply("equal", {chosen, t});
  if (!c.attr(0).has_value()) {
    const Value accuracy = count(right) / static_cast<double>(NumElements(t.shape()));
    c.SetOutput(0, Cast(accuracy, result));
    return;
  }
  const Value used = NotIgnored(c, t, c.attr(0).AsInt());
  const Value total = count(used);
  const Value accuracy = count(c.Apply("logical_and", {right, used})) / total;
  c.SetOutput(0, Cast(Where(c.Apply("greater", {total, 0}), accuracy, 0), result));
}

}  // namespace

void RegisterLoss(OpRegistry& r) {
  r.Add("softmax_cross_entropy")
      .Doc(
          "-log_softmax(x1)[t] for each sample: x1 (N, C), integer labels x2 (N,), result (N,). "
          "Label -1 is ignored and gives 0; any other outside [0, C) is an IndexError.")
      .Inputs({"x1", "x2"})
      .Outputs({"y"})
      .Infer(SoftmaxCrossEntropyRule)
      .Saves({"x1", "x2"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(
            0, g.Apply("softmax_cross_entropy_grad", {g.input(0), g.input(1), g.output_grad(0)}));
      });
  r.Add("softmax_cross_entropy_grad")
      .Doc("gy (softmax(x1) - onehot(x2)); 0 for ignored samples.")
      .Inputs({"x1", "x2", "gy"})
      .Outputs({"gx"})
      .Infer(SoftmaxCrossEntropyGradRule)
      .Internal()
      .Saves({"x1", "x2", "gy"})
      .Gradient(SoftmaxCrossEntropyGradGradient);
  r.Add("sigmoid_cross_entropy")
      .Doc(
          "-t log(sigmoid(x1)) - (1 - t) log(1 - sigmoid(x1)), elementwise. Label -1 is ignored "
          "and gives 0.")
      .Inputs({"x1", "x2"})
      .Outputs({"y"})
      .Compose(SigmoidCrossEntropyRule, SigmoidCrossEntropy)
      .Saves({"x1", "x2"})
      .Gradient(SigmoidCrossEntropyGradient);
  r.Add("accuracy")
      .Doc(
          "The share of samples whose greatest score along axis 1 is at the label: float scores y "
          "(N, C, ...), signed integer labels t (N, ...). Samples with ignore_label don't count. "
          "No "
          "gradient.")
      .Inputs({"y", "t"})
      .Outputs({"accuracy"})
      .Attr("ignore_label", AttrType::kInt, AttrValue())
      .Compose(AccuracyRule, Accuracy)
      .NoGradient();
}

}  // namespace chx
