// Connectionist temporal classification (Graves et al., 2006), in logarithms: the forward variables
// for the loss, the backward ones for its gradient. Compositions, for which a backend may have
// kernels; the gradient's can be differentiated again.
#include <limits>
#include <vector>

#include "ops/ctc.h"
#include "ops/defs/common/loss_reduction.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

using ctc::kImpossible;
using ctc::kNever;

// log_probs, targets, input_lengths, target_lengths; blank.
absl::Status CheckCtcArrays(const InferContext& c) {
  const ArraySpec& x = c.input(0);
  const ArraySpec& targets = c.input(1);
  for (int i = 1; i < 4; ++i) {
    if (IsInt(c.input(i).dtype)) continue;
    return DtypeError("[", c.name(), "] expects integer targets and lengths, got ",
                      DtypeName(c.input(i).dtype));
  }
  if (!IsFloat(x.dtype)) {
    return DtypeError("[", c.name(), "] expects float log_probs, got ", DtypeName(x.dtype));
  }
  if (x.ndim() != 3 || targets.ndim() != 2 || targets.shape[0] != x.shape[1]) {
    return DimensionError("[", c.name(), "] expects log_probs (T, N, C) and targets (N, S), got ",
                          x.shape.ToString(), " and ", targets.shape.ToString());
  }
  CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), x.shape, 5));
  const Shape batch = {x.shape[1]};
  if (c.input(2).shape != batch || c.input(3).shape != batch) {
    return DimensionError("[", c.name(), "] expects lengths of shape ", batch.ToString(), ", got ",
                          c.input(2).shape.ToString(), " and ", c.input(3).shape.ToString());
  }
  const int64_t blank = c.attr(0).AsInt();
  if (blank < 0 || blank >= x.shape[2]) {
    return ValueError("[", c.name(), "] expects blank in [0, ", x.shape[2], "), got ", blank);
  }
  const Ints paths = {x.shape[0], x.shape[1], targets.shape[1] + 1, 2};
  return CheckShape(c.name(), paths, Dtype::kInt64);
}

Shape PlacesShape(const InferContext& c) {
  const Shape& x = c.input(0).shape;
  return {x[0], x[1], 2 * c.input(1).shape[1] + 1};
}

absl::Status CtcRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckCtcArrays(c));
  const ArraySpec& x = c.input(0);
  return c.AddOutput(x.dtype, losses::ReducedTo(c.attr(1), {x.shape[1]}));
}

absl::Status CtcForwardRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckCtcArrays(c));
  const Dtype dtype = WideDtype(c.input(0).dtype);
  CHX_RETURN_IF_ERROR(c.AddOutput(dtype, {c.input(0).shape[1]}));
  return c.AddOutput(dtype, PlacesShape(c));
}

// As CheckCtcArrays, then losses, alpha, gy.
absl::Status CtcGradRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckCtcArrays(c));
  const Shape batch = {c.input(0).shape[1]};
  for (int i = 4; i < 7; ++i) {
    const Shape expected = i == 5 ? PlacesShape(c) : batch;
    if (c.input(i).shape == expected && IsFloat(c.input(i).dtype)) continue;
    return DimensionError("[", c.name(), "] expects floats of shape ", expected.ToString(), " as '",
                          c.op().inputs[i].name, "', got ", c.input(i).ToString());
  }
  return c.AddOutput(c.input(0).dtype, c.input(0).shape);
}

class Ctc {
 public:
  explicit Ctc(ComposeContext& c)
      : c_(c),
        x_(Cast(c.input(0), WideDtype(c.input(0).dtype()))),
        steps_(x_.shape()[0]),
        batch_(x_.shape()[1]),
        places_(2 * c.input(1).shape()[1] + 1) {
    input_lengths_ = Checked(c.input(2), steps_);
    const Value lengths = Column(Checked(c.input(3), c.input(1).shape()[1]));
    place_ = Arange(places_);
    end_ = lengths * 2 + 1;
    path_ = MakePath(lengths);
  }

  // alpha: for each step (1, N, places), of the parts of paths up to it that end at each place.
  void Run() {
    const Value first = c_.Apply("split", {Emissions()}, {{"sections", steps_}});
    const Value skips = Skips();
    Value now = BroadcastTo(Start(1), {1, batch_, places_});
    for (int64_t step = 0; step < steps_; ++step) {
      Value into = Start(2);
      if (step > 0) {
        const Value padded = Padded(now, 2, 0);
        into = LogAdd(now, SliceAxis(padded, 2, 1, places_ + 1));
        into = LogAdd(into, SliceAxis(padded, 2, 0, places_) + skips);
      }
      emissions_.emplace_back(&c_, first.id() + static_cast<int>(step));
      now = Where(EndsBy(step), now, into + emissions_.back());
      alpha_.push_back(now);
    }
    const Value total =
        c_.Apply("logsumexp", {Where(Ends(), now, kNever)}, {{"axis", AttrValue(Ints{2})}});
    losses_ = -Reshape(total, {batch_});
  }

  // (N,): of paths that end with the last label, or the blank after it.
  Value losses() const { return losses_; }
  Value Alpha() { return c_.Apply("concatenate", alpha_); }

  // Of log_probs, from that of the losses: minus the probability of each symbol in each step, given
  // that the path is one of the targets'.
  Value Gradient(Value gy) {
    const Value skips = Skips();
    const Value at_end = Where(Ends(), 0.0, Constant(kNever));
    std::vector<Value> shares(steps_);
    Value next;  // of the parts of paths from the next step on that begin at each place
    for (int64_t step = steps_ - 1; step >= 0; --step) {
      Value after = at_end;
      if (!next.absent()) {
        after = LogAdd(next, SliceAxis(Padded(next, 0, 1), 2, 1, places_ + 1));
        after = LogAdd(after, SliceAxis(Padded(next + skips, 0, 2), 2, 2, places_ + 2));
        after = Where(EndsBy(step + 1), at_end, after);
      } else {
        after = BroadcastTo(after, {1, batch_, places_});
      }
      shares[step] = Where(EndsBy(step), kNever, alpha_[step] + after);
      next = after + emissions_[step];
    }
    const Value impossible = Column(c_.Apply("greater", {losses_, kImpossible}));
    const Value total = Where(impossible, 0.0, Column(losses_));
    const Value share =
        c_.Apply("exp", {Where(impossible, kNever, c_.Apply("concatenate", shares)) + total});
    const Value index = BroadcastTo(path_, {steps_, batch_, places_});
    return c_.Apply("take_along_axis_grad", {-share * Column(Cast(gy, x_.dtype())), index},
                    {{"shape", ShapeAttr(x_.shape())}, {"axis", 2}});
  }

 private:
  Value Arange(int64_t n) {
    return c_.Apply("arange", {}, {{"start", Scalar(n)}, {"dtype", Dtype::kInt64}});
  }

  Value LogAdd(Value a, Value b) { return c_.Apply("logaddexp", {a, b}); }
  Value Column(Value numbers) { return ExpandDims(numbers, 1); }

  // With places that cannot be reached before and after the others.
  Value Padded(Value x, int64_t before, int64_t after) {
    return c_.Apply("constant_pad", {x},
                    {{"widths", AttrValue(Ints{0, 0, 0, 0, before, after})},
                     {"value", AttrValue(Scalar(kNever))}});
  }

  // (N, 1): which sequences have no more than so many steps.
  Value EndsBy(int64_t steps) {
    return c_.Apply("less_equal", {Column(input_lengths_), Scalar(steps)});
  }

  // (N, places): where a path may end.
  Value Ends() {
    return c_.Apply("logical_and", {c_.Apply("greater_equal", {place_, end_ - 2}),
                                    c_.Apply("less", {place_, end_})});
  }

  // Numbers in [0, high], as int64. Reading the loss is an IndexError if there are others.
  Value Checked(Value numbers, int64_t high) {
    const Value wide = Cast(numbers, Dtype::kInt64);
    const Value index = Where(c_.Apply("less", {wide, 0}), Scalar(high + 1), wide);
    return c_.Apply("take", {Arange(high + 1), index}, {{"axis", 0}});
  }

  // (N, places): the labels with blanks before, between and after them.
  Value MakePath(Value lengths) {
    const int64_t blank = c_.attr(0).AsInt();
    const Value targets = Cast(c_.input(1), Dtype::kInt64);
    const int64_t labels = targets.shape()[1];
    const auto blanks = [&](int64_t columns) {
      return c_.Apply("full", {},
                      {{"shape", AttrValue(Ints{batch_, columns})},
                       {"fill_value", AttrValue(Scalar(blank))},
                       {"dtype", Dtype::kInt64}});
    };
    if (labels == 0) return blanks(1);
    // What is after a label sequence's end does not matter; a negative label is out of range.
    const Value inside = c_.Apply("less", {Arange(labels), lengths});
    const Value checked = Where(c_.Apply("less", {targets, 0}), Scalar(x_.shape()[2]), targets);
    const Value used = Where(inside, checked, Scalar(blank));
    const Value pairs = c_.Apply("stack", {blanks(labels), used}, {{"axis", 2}});
    return c_.Apply("concatenate", {Reshape(pairs, {batch_, 2 * labels}), blanks(1)},
                    {{"axis", 1}});
  }

  // (T, N, places): the logarithm of each place's symbol in each step.
  Value Emissions() {
    const Value index = BroadcastTo(path_, {steps_, batch_, places_});
    const Value taken = c_.Apply("take_along_axis", {x_, index}, {{"axis", 2}});
    const Value outside = c_.Apply("greater_equal", {place_, end_});
    return Where(outside, kNever, c_.Apply("maximum", {taken, kNever}));
  }

  // (N, places): a label may follow another one directly, unless they are the same, or blanks.
  Value Skips() {
    if (places_ < 3) return Start(0);
    const Value differ = c_.Apply(
        "not_equal", {SliceAxis(path_, 1, 2, places_), SliceAxis(path_, 1, 0, places_ - 2)});
    const Value allowed =
        c_.Apply("constant_pad", {differ},
                 {{"widths", AttrValue(Ints{0, 0, 2, 0})}, {"value", AttrValue(Scalar(false))}});
    return Cast(Where(allowed, 0.0, Constant(kNever)), x_.dtype());
  }

  // (places,): the first `count` places can be reached.
  Value Start(int64_t count) {
    return Where(c_.Apply("less", {place_, Scalar(count)}), 0.0, Constant(kNever));
  }

  Value Constant(double value) {
    return c_.Apply("full", {},
                    {{"shape", AttrValue(Ints{})},
                     {"fill_value", AttrValue(Scalar(value))},
                     {"dtype", x_.dtype()}});
  }

  ComposeContext& c_;
  const Value x_;
  const int64_t steps_;
  const int64_t batch_;
  const int64_t places_;
  Value input_lengths_;
  Value place_;
  Value end_;  // (N, 1): the number of places of each path
  Value path_;
  std::vector<Value> emissions_;  // (1, N, places) of each step
  std::vector<Value> alpha_;
  Value losses_;
};

void CtcForwardCompose(ComposeContext& c) {
  Ctc run(c);
  run.Run();
  c.SetOutput(0, run.losses());
  c.SetOutput(1, run.Alpha());
}

// Does not use losses and alpha, which lets these gradients be differentiated too.
void CtcGradCompose(ComposeContext& c) {
  Ctc run(c);
  run.Run();
  c.SetOutput(0, Cast(run.Gradient(c.input(6)), c.input(0).dtype()));
}

// alpha, which is there for the gradient, counts as constant.
void CtcForwardGradient(GradContext& g) {
  const ArraySpec& losses = g.output_spec(0);
  Value gy = g.output_grad(0);
  if (gy.absent()) {
    gy = g.Apply("zeros", {}, {{"shape", ShapeAttr(losses.shape)}, {"dtype", losses.dtype}});
  }
  g.SetInputGrad(
      0, g.Apply("ctc_grad",
                 {g.input(0), g.input(1), g.input(2), g.input(3), g.output(0), g.output(1), gy},
                 {{"blank", g.attr(0)}}));
}

void CtcCompose(ComposeContext& c) {
  Value loss = c.Apply("ctc_forward", {c.input(0), c.input(1), c.input(2), c.input(3)},
                       {{"blank", c.attr(0)}});
  const Value impossible = c.Apply("greater", {loss, kImpossible});
  const bool zero = c.attr(2).AsBool();
  loss = Where(impossible, zero ? 0.0 : std::numeric_limits<double>::infinity(), loss);
  if (c.attr(1).AsInt() == losses::kMean) {
    loss = loss / Cast(c.Apply("maximum", {c.input(3), 1}), loss.dtype());
  }
  const auto count = static_cast<double>(NumElements(loss.shape()));
  c.SetOutput(0,
              losses::Reduced(loss, c.attr(1), c.input(0).dtype(), [&] { return Value(count); }));
}

}  // namespace

void RegisterLossSequences(OpRegistry& r) {
  r.Add("ctc_loss")
      .Doc(
          "Connectionist temporal classification: the negative logarithm of the probability of "
          "label sequences. log_probs (T, N, C), as log_softmax gives them; integer targets (N, "
          "S), "
          "without blanks; the lengths of both (N,). A sequence that no path has gives infinity, "
          "or "
          "0 with zero_infinity. The mean is over sequences, of losses divided by their targets' "
          "lengths. Labels and lengths out of range are an IndexError.")
      .Inputs({"log_probs", "targets", "input_lengths", "target_lengths"})
      .Outputs({"y"})
      .Attr("blank", AttrType::kInt, 0)
      .Choice("reduction", losses::Reductions(), 0)
      .Attr("zero_infinity", AttrType::kBool, false)
      .Compose(CtcRule, CtcCompose);
  r.Add("ctc_forward")
      .Doc(
          "Losses (N,) of ctc_loss, above 1e29 where no path gives the targets, and alpha (T, N, "
          "2 S + 1): the logarithm of the probability of all beginnings of paths, up to each step "
          "and place, where places are the targets with blanks before, between and after them.")
      .Inputs({"log_probs", "targets", "input_lengths", "target_lengths"})
      .Outputs({"losses", "alpha"})
      .Attr("blank", AttrType::kInt, 0)
      .Compose(CtcForwardRule, CtcForwardCompose)
      .Internal()
      .Saves({"log_probs", "targets", "input_lengths", "target_lengths", "losses", "alpha"})
      .Gradient(CtcForwardGradient);
  r.Add("ctc_grad")
      .Doc("The gradient of ctc_forward's log_probs, from that of the losses.")
      .Inputs({"log_probs", "targets", "input_lengths", "target_lengths", "losses", "alpha", "gy"})
      .Outputs({"gx"})
      .Attr("blank", AttrType::kInt, 0)
      .ConstantInputs({"losses", "alpha"})
      .Compose(CtcGradRule, CtcGradCompose)
      .Internal();
}

}  // namespace chx
