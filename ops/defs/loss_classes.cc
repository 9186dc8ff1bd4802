// Losses of distributions over classes, as they are in PyTorch: compositions.
#include <string>
#include <utility>
#include <vector>

#include "ops/defs/common/loss_reduction.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

using losses::Reduced;

// The axis of classes: x is (C,), (N, C) or (N, C, ...).
int ClassAxis(int ndim) { return ndim > 1 ? 1 : 0; }

Shape Without(const Shape& shape, int axis) {
  Shape rest;
  for (int i = 0; i < shape.size(); ++i) {
    if (i != axis) rest.push_back(shape[i]);
  }
  return rest;
}

// x, target, weight; ignore_index, reduction. Indices, or probabilities where those are allowed.
absl::Status CheckClasses(const InferContext& c, bool probabilities) {
  const ArraySpec& x = c.input(0);
  const ArraySpec& t = c.input(1);
  if (!IsFloat(x.dtype) || IsBool(t.dtype) || (IsFloat(t.dtype) && !probabilities)) {
    return DtypeError("[", c.name(), "] expects floats and ",
                      probabilities ? "indices or probabilities" : "indices", " of classes, got ",
                      DtypeName(x.dtype), " and ", DtypeName(t.dtype));
  }
  if (x.ndim() == 0) {
    return DimensionError("[", c.name(), "] expects shape (C,) or (N, C, ...), got ()");
  }
  const int axis = ClassAxis(x.ndim());
  const Shape expected = IsFloat(t.dtype) ? x.shape : Without(x.shape, axis);
  if (t.shape != expected) {
    return DimensionError("[", c.name(), "] expects targets of shape ", expected.ToString(),
                          " for ", x.shape.ToString(), ", got ", t.shape.ToString());
  }
  if (c.has_array(2) && (c.input(2).shape != Shape{x.shape[axis]} || !IsFloat(c.input(2).dtype))) {
    return DimensionError("[", c.name(), "] expects a float weight for each of ", x.shape[axis],
                          " classes, got ", c.input(2).ToString());
  }
  return rules::CheckAxesNotEmpty(c.name(), x.shape, 1u << axis);
}

absl::Status AddLoss(InferContext& c, const AttrValue& reduction) {
  const Shape& x = c.input(0).shape;
  return c.AddOutput(c.input(0).dtype,
                     losses::ReducedTo(reduction, Without(x, ClassAxis(x.size()))));
}

absl::Status CrossEntropyRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckClasses(c, true));
  const double smoothing = c.attr(2).AsFloat();
  if (!(smoothing >= 0 && smoothing <= 1)) {
    return ValueError("[cross_entropy] expects label_smoothing in [0, 1], got ", smoothing);
  }
  return AddLoss(c, c.attr(1));
}

absl::Status NllRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckClasses(c, false));
  return AddLoss(c, c.attr(1));
}

bool HasWeight(ComposeContext& c) { return c.num_inputs() > 2 && c.input(2).is_array(); }

// -1 is what operators with labels ignore.
Value Used(OpContext& c, Value labels) { return c.Apply("not_equal", {labels, Scalar(-1)}); }

// target; ignore_index, classes, dtype.
absl::Status ClassLabelsRule(InferContext& c) {
  const ArraySpec& target = c.input(0);
  const Dtype dtype = c.attr(2).AsDtype();
  if (!IsInt(target.dtype) || !IsFloat(dtype)) {
    return DtypeError("[", c.name(), "] expects integers and a float dtype, got ",
                      DtypeName(target.dtype), " and ", DtypeName(dtype));
  }
  CHX_RETURN_IF_ERROR(c.AddOutput(Dtype::kInt64, target.shape));
  return c.AddOutput(dtype, {});
}

void ClassLabels(ComposeContext& c) {
  const Value target = Cast(c.input(0), Dtype::kInt64);
  const Value used = c.Apply("not_equal", {target, Scalar(c.attr(0).AsInt())});
  const Value negative = c.Apply("less", {target, 0});
  const Value index = Where(negative, Scalar(c.attr(1).AsInt()), target);
  c.SetOutput(0, Where(used, index, Scalar(-1)));
  c.SetOutput(1, Cast(losses::Sum(used), c.attr(2).AsDtype()));
}

// Labels of a loss: which of them count, and by how much.
struct Labels {
  Value index;  // int64: -1 where ignored; the number of classes, which is out of range, instead of
                // what else is negative
  Value count;  // of those that are not ignored, in the wide dtype
  Value weight;  // absent without weights; 0 where a label is ignored

  Labels(ComposeContext& c, Value target, int64_t classes) {
    const Dtype dtype = c.input(0).dtype();
    index =
        c.Apply("class_labels", {target},
                {{"ignore_index", c.attr(0)}, {"classes", classes}, {"dtype", WideDtype(dtype)}});
    count = Value(&c, index.id() + 1);
    if (!HasWeight(c)) return;
    const Value used = Used(c, index);
    const Value weights = Cast(c.input(2), dtype);
    const Value own = c.Apply("take", {weights, Where(used, index, 0)}, {{"axis", 0}});
    weight = Where(used, own, 0);
  }

  // What a mean divides by.
  Value Total(Dtype dtype) const {
    if (weight.absent()) return count;
    return Cast(losses::Sum(Cast(weight, WideDtype(dtype))), WideDtype(dtype));
  }
};

// x as rows of classes.
Value AsRows(Value x) {
  const int ndim = x.ndim();
  if (ndim == 2) return x;
  const int64_t classes = x.shape()[ClassAxis(ndim)];
  if (ndim > 2) {
    Ints axes;
    for (int i = 0; i < ndim; ++i) {
      if (i != 1) axes.push_back(i);
    }
    axes.push_back(1);
    x = x.context()->Apply("transpose", {x}, {{"axes", AttrValue(axes)}});
  }
  return Reshape(x, {NumElements(x.shape()) / classes, classes});
}

Value SumAxis(Value x, int64_t axis) {
  return x.context()->Apply("sum", {x}, {{"axis", AttrValue(Ints{axis})}});
}

Value LogSoftmax(Value x, int64_t axis) {
  return x.context()->Apply("log_softmax", {x}, {{"axis", AttrValue(Ints{axis})}});
}

// x (N, C), labels (N,)[, gy (N,)]; smoothing.
absl::Status SmoothRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  const ArraySpec& labels = c.input(1);
  if (!IsFloat(x.dtype) || labels.dtype != Dtype::kInt64) {
    return DtypeError("[", c.name(), "] expects float scores and int64 labels, got ",
                      DtypeName(x.dtype), " and ", DtypeName(labels.dtype));
  }
  if (x.ndim() != 2 || labels.ndim() != 1 || x.shape[0] != labels.shape[0]) {
    return DimensionError("[", c.name(), "] expects shapes (N, C) and (N,), got ",
                          x.shape.ToString(), " and ", labels.shape.ToString());
  }
  const double smoothing = c.attr(0).AsFloat();
  if (!(smoothing >= 0 && smoothing <= 1)) {
    return ValueError("[", c.name(), "] expects smoothing in [0, 1], got ", smoothing);
  }
  CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), x.shape, 1u << 1));
  if (c.num_inputs() == 2) return c.AddOutput(x.dtype, labels.shape);
  if (c.input(2).shape != labels.shape || c.input(2).dtype != x.dtype) {
    return DimensionError("[", c.name(), "] expects a gradient for each sample, got ",
                          c.input(2).ToString());
  }
  return c.AddOutput(x.dtype, x.shape);
}

void Smooth(ComposeContext& c) {
  const Value x = c.input(0);
  const Value labels = c.input(1);
  const double smoothing = c.attr(0).AsFloat();
  const double share = smoothing / static_cast<double>(x.shape()[1]);
  const Value others = Where(Used(c, labels), -SumAxis(LogSoftmax(x, 1), 1), 0);
  c.SetOutput(0, c.Apply("softmax_cross_entropy", {x, labels}) * (1 - smoothing) + others * share);
}

// softmax(x) - (1 - smoothing) onehot - smoothing / C, times gy.
void SmoothGrad(ComposeContext& c) {
  const Value x = c.input(0);
  const Value labels = c.input(1);
  const double smoothing = c.attr(0).AsFloat();
  const double share = 1 / static_cast<double>(x.shape()[1]);
  const Value gy = Where(Used(c, labels), c.input(2), 0);
  const Value own = c.Apply("softmax_cross_entropy_grad", {x, labels, gy * (1 - smoothing)});
  const Value softmax = c.Apply("softmax", {x}, {{"axis", AttrValue(Ints{1})}});
  c.SetOutput(0, own + (softmax - share) * ExpandDims(gy * smoothing, 1));
}

void SmoothGradient(GradContext& g) {
  g.SetInputGrad(0, g.Apply("smooth_cross_entropy_grad", {g.input(0), g.input(1), g.output_grad(0)},
                            {{"smoothing", g.attr(0)}}));
}

void CrossEntropyOfIndices(ComposeContext& c) {
  const Value x = c.input(0);
  const Dtype dtype = x.dtype();
  const double smoothing = c.attr(2).AsFloat();
  const Shape shape = Without(x.shape(), ClassAxis(x.ndim()));
  const Value rows = AsRows(x);
  const int64_t classes = rows.shape()[1];
  const Labels labels(c, Reshape(c.input(1), {rows.shape()[0]}), classes);
  const bool weighted = !labels.weight.absent();
  Value loss = smoothing != 0 && !weighted ? c.Apply("smooth_cross_entropy", {rows, labels.index},
                                                     {{"smoothing", smoothing}})
                                           : c.Apply("softmax_cross_entropy", {rows, labels.index});
  if (weighted) loss = loss * labels.weight;
  if (smoothing != 0 && weighted) {
    const Value all = LogSoftmax(rows, 1) * Cast(c.input(2), dtype);
    const Value others = Where(Used(c, labels.index), -SumAxis(all, 1), 0);
    loss = loss * (1 - smoothing) + others * (smoothing / static_cast<double>(classes));
  }
  const Value reduced = Reduced(loss, c.attr(1), dtype, [&] { return labels.Total(dtype); });
  c.SetOutput(0, c.attr(1).AsInt() == losses::kNone ? Reshape(reduced, shape) : reduced);
}

void CrossEntropyOfProbabilities(ComposeContext& c) {
  const Value x = c.input(0);
  const int axis = ClassAxis(x.ndim());
  const int64_t classes = x.shape()[axis];
  const double smoothing = c.attr(2).AsFloat();
  Value target = Cast(c.input(1), x.dtype());
  if (smoothing != 0) {
    target = target * (1 - smoothing) + smoothing / static_cast<double>(classes);
  }
  if (HasWeight(c)) {
    Shape column(x.ndim(), 1);
    column[axis] = classes;
    target = target * Reshape(Cast(c.input(2), x.dtype()), column);
  }
  const Value loss = -SumAxis(LogSoftmax(x, axis) * target, axis);
  const auto count = static_cast<double>(NumElements(loss.shape()));
  c.SetOutput(0, Reduced(loss, c.attr(1), x.dtype(), [&] { return Value(count); }));
}

void CrossEntropy(ComposeContext& c) {
  IsFloat(c.input(1).dtype()) ? CrossEntropyOfProbabilities(c) : CrossEntropyOfIndices(c);
}

// x (N, C, M), labels (N, M).
absl::Status NllElementsRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  const ArraySpec& labels = c.input(1);
  if (!IsFloat(x.dtype) || labels.dtype != Dtype::kInt64) {
    return DtypeError("[", c.name(), "] expects floats and int64 labels, got ", DtypeName(x.dtype),
                      " and ", DtypeName(labels.dtype));
  }
  if (x.ndim() != 3 || labels.shape != Shape{x.shape[0], x.shape[2]}) {
    return DimensionError("[", c.name(), "] expects shapes (N, C, M) and (N, M), got ",
                          x.shape.ToString(), " and ", labels.shape.ToString());
  }
  CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), x.shape, 1u << 1));
  return c.AddOutput(x.dtype, labels.shape);
}

void NllElements(ComposeContext& c) {
  const Value labels = c.input(1);
  const Value used = Used(c, labels);
  const Value index = ExpandDims(Where(used, labels, 0), 1);
  const Value own = c.Apply("take_along_axis", {c.input(0), index}, {{"axis", 1}});
  c.SetOutput(0, Where(used, -Reshape(own, labels.shape()), 0));
}

void NllElementsGradient(GradContext& g) {
  const Value labels = g.input(1);
  const Value used = Used(g, labels);
  const Value gy = Where(used, -g.output_grad(0), 0);
  g.SetInputGrad(
      0, g.Apply("take_along_axis_grad", {ExpandDims(gy, 1), ExpandDims(Where(used, labels, 0), 1)},
                 {{"shape", ShapeAttr(g.input_spec(0).shape)}, {"axis", 1}}));
}

void NllLoss(ComposeContext& c) {
  const Value x = c.input(0);
  const Shape shape = c.input(1).shape();
  const int axis = ClassAxis(x.ndim());
  const int64_t classes = x.shape()[axis];
  const int64_t samples = axis == 0 ? 1 : x.shape()[0];
  int64_t columns = 1;
  for (int d = axis + 1; d < x.ndim(); ++d) columns *= x.shape()[d];
  const Labels labels(c, c.input(1), classes);
  const Value elements = c.Apply("nll_loss_elements", {Reshape(x, {samples, classes, columns}),
                                                       Reshape(labels.index, {samples, columns})});
  Value loss = Reshape(elements, shape);
  if (!labels.weight.absent()) loss = loss * labels.weight;
  c.SetOutput(0, Reduced(loss, c.attr(1), x.dtype(), [&] { return labels.Total(x.dtype()); }));
}

// Two floats that broadcast; reduction, log_target.
absl::Status KlDivRule(InferContext& c) {
  if (!IsFloat(c.input(0).dtype) || !IsFloat(c.input(1).dtype)) {
    return DtypeError("[kl_div] expects floats, got ", DtypeName(c.input(0).dtype), " and ",
                      DtypeName(c.input(1).dtype));
  }
  Shape shape;
  CHX_RETURN_IF_ERROR(rules::BroadcastInputs(c, 0, &shape));
  if (c.attr(0).AsInt() == losses::kBatchMean && c.input(0).ndim() == 0) {
    return DimensionError("[kl_div] expects a batch for 'batchmean', got shape ()");
  }
  return c.AddOutput(rules::PromoteInputs(c, 0), losses::ReducedTo(c.attr(0), shape));
}

void KlDiv(ComposeContext& c) {
  const Dtype dtype = PromoteTypes(c.input(0).dtype(), c.input(1).dtype());
  const Value x = Cast(c.input(0), dtype);
  const Value target = Cast(c.input(1), dtype);
  Value loss;
  if (c.attr(1).AsBool()) {
    loss = c.Apply("exp", {target}) * (target - x);
  } else {
    // 0 log(0) is 0, also to the gradient.
    const Value positive = Where(c.Apply("equal", {target, 0}), 1.0, target);
    loss = target * c.Apply("log", {positive}) - target * x;
  }
  const bool batch = c.attr(0).AsInt() == losses::kBatchMean;
  const auto count = static_cast<double>(batch ? x.shape()[0] : NumElements(loss.shape()));
  const AttrValue reduction = batch ? AttrValue(losses::kMean) : c.attr(0);
  c.SetOutput(0, Reduced(loss, reduction, dtype, [&] { return Value(count); }));
}

}  // namespace

void RegisterLossClasses(OpRegistry& r) {
  r.Add("smooth_cross_entropy")
      .Doc(
          "softmax_cross_entropy of x (N, C) and labels (N,), int64 and -1 where ignored, of which "
          "all classes get a share alike.")
      .Inputs({"x", "labels"})
      .Outputs({"y"})
      .Attr("smoothing", AttrType::kFloat)
      .Compose(SmoothRule, Smooth)
      .Internal()
      .Saves({"x", "labels"})
      .Gradient(SmoothGradient);
  r.Add("smooth_cross_entropy_grad")
      .Doc("Gradient of smooth_cross_entropy's x, from that of y.")
      .Inputs({"x", "labels", "gy"})
      .Outputs({"gx"})
      .Attr("smoothing", AttrType::kFloat)
      .Compose(SmoothRule, SmoothGrad)
      .Internal();
  r.Add("cross_entropy")
      .Doc(
          "-log_softmax(x) at the target: float scores x (C,), (N, C) or (N, C, ...), and either "
          "integer classes (N, ...) or probabilities of x's shape. weight has a factor for each "
          "class; a target ignore_index gives 0 and does not count; label_smoothing is the share "
          "that all classes get alike. The mean is over weights of targets, or over samples of "
          "probabilities. A class outside [0, C) is an IndexError.")
      .Inputs({"x", "target", "weight?"})
      .Outputs({"y"})
      .Attr("ignore_index", AttrType::kInt, -100)
      .Choice("reduction", losses::Reductions(), 0)
      .Attr("label_smoothing", AttrType::kFloat, 0.0)
      .Compose(CrossEntropyRule, CrossEntropy);
  r.Add("class_labels")
      .Doc(
          "Integer labels as int64, with -1 where they are ignore_index and `classes` where they "
          "are "
          "otherwise negative; and how many are not ignored, as a float.")
      .Inputs({"target"})
      .Outputs({"labels", "count"})
      .Attr("ignore_index", AttrType::kInt)
      .Attr("classes", AttrType::kInt)
      .Attr("dtype", AttrType::kDtype)
      .Compose(ClassLabelsRule, ClassLabels)
      .Internal()
      .NoGradient();
  r.Add("nll_loss_elements")
      .Doc("-x at the labels, of x (N, C, M) and labels (N, M), int64; 0 where they are -1.")
      .Inputs({"x", "labels"})
      .Outputs({"y"})
      .Compose(NllElementsRule, NllElements)
      .Internal()
      .Saves({"labels"})
      .Gradient(NllElementsGradient);
  r.Add("nll_loss")
      .Doc(
          "-x at the target: logarithms of probabilities x (C,), (N, C) or (N, C, ...), and "
          "integer "
          "classes (N, ...). weight, ignore_index and reduction are those of cross_entropy.")
      .Inputs({"x", "target", "weight?"})
      .Outputs({"y"})
      .Attr("ignore_index", AttrType::kInt, -100)
      .Choice("reduction", losses::Reductions(), 0)
      .Compose(NllRule, NllLoss);
  std::vector<std::string> reductions = losses::Reductions();
  reductions.emplace_back("batchmean");
  r.Add("kl_div")
      .Doc(
          "target * (log(target) - x): the divergence of a distribution from that of the "
          "logarithms "
          "x, not summed over it. With log_target the target is a logarithm, too. 'batchmean' "
          "divides the sum by the length of x's first axis.")
      .Inputs({"x", "target"})
      .Outputs({"y"})
      .Choice("reduction", std::move(reductions), 0)
      .Attr("log_target", AttrType::kBool, false)
      .Compose(KlDivRule, KlDiv);
}

}  // namespace chx
