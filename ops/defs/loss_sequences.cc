// Connectionist temporal classification (Graves et al., 2006): forward variables in logarithms, a
// composition whose graph has the backward ones.
#include <limits>

#include "ops/defs/common/loss_reduction.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// The logarithm of a probability of zero. Finite: differences of infinities are NaN. A multiple of
// it for each step is in the range of float32.
constexpr double kNever = -1e30;
constexpr double kImpossible = 1e29;  // a loss above this is one of no path

absl::Status CtcRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  const ArraySpec& targets = c.input(1);
  for (int i = 1; i < 4; ++i) {
    if (IsInt(c.input(i).dtype)) continue;
    return DtypeError("[ctc_loss] expects integer targets and lengths, got ",
                      DtypeName(c.input(i).dtype));
  }
  if (!IsFloat(x.dtype)) {
    return DtypeError("[ctc_loss] expects float log_probs, got ", DtypeName(x.dtype));
  }
  if (x.ndim() != 3 || targets.ndim() != 2 || targets.shape[0] != x.shape[1]) {
    return DimensionError("[ctc_loss] expects log_probs (T, N, C) and targets (N, S), got ",
                          x.shape.ToString(), " and ", targets.shape.ToString());
  }
  CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), x.shape, 5));
  const Shape batch = {x.shape[1]};
  if (c.input(2).shape != batch || c.input(3).shape != batch) {
    return DimensionError("[ctc_loss] expects lengths of shape ", batch.ToString(), ", got ",
                          c.input(2).shape.ToString(), " and ", c.input(3).shape.ToString());
  }
  const int64_t blank = c.attr(0).AsInt();
  if (blank < 0 || blank >= x.shape[2]) {
    return ValueError("[ctc_loss] expects blank in [0, ", x.shape[2], "), got ", blank);
  }
  const Ints paths = {x.shape[0], x.shape[1], targets.shape[1] + 1, 2};
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), paths, Dtype::kInt64));
  return c.AddOutput(x.dtype, losses::ReducedTo(c.attr(1), batch));
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
    target_lengths_ = Checked(c.input(3), c.input(1).shape()[1]);
    const Value lengths = ExpandDims(target_lengths_, 1);
    place_ = Arange(places_);
    end_ = lengths * 2 + 1;
    path_ = MakePath(lengths);
  }

  // (1, N, places): of a path's parts that end at each place.
  Value Run() {
    const Value emissions = Emissions();
    const Value first = c_.Apply("split", {emissions}, {{"sections", steps_}});
    const Value skips = Skips();
    Value alpha = BroadcastTo(Start(1), {1, batch_, places_});
    const Value durations = ExpandDims(input_lengths_, 1);
    for (int64_t step = 0; step < steps_; ++step) {
      Value into = Start(2);
      if (step > 0) {
        const Value padded = c_.Apply(
            "constant_pad", {alpha},
            {{"widths", AttrValue(Ints{0, 0, 0, 0, 2, 0})}, {"value", AttrValue(Scalar(kNever))}});
        into = LogAdd(alpha, SliceAxis(padded, 2, 1, places_ + 1));
        into = LogAdd(into, SliceAxis(padded, 2, 0, places_) + skips);
      }
      const Value now = into + Value(&c_, first.id() + static_cast<int>(step));
      alpha = Where(c_.Apply("less_equal", {durations, Scalar(step)}), alpha, now);
    }
    return alpha;
  }

  // (N,): of paths that end with the last label, or the blank after it.
  Value Losses(Value alpha) {
    const Value ends = c_.Apply("logical_and", {c_.Apply("greater_equal", {place_, end_ - 2}),
                                                c_.Apply("less", {place_, end_})});
    const Value total =
        c_.Apply("logsumexp", {Where(ends, alpha, kNever)}, {{"axis", AttrValue(Ints{2})}});
    return -Reshape(total, {batch_});
  }

  Value target_lengths() const { return target_lengths_; }

 private:
  Value Arange(int64_t n) {
    return c_.Apply("arange", {}, {{"start", Scalar(n)}, {"dtype", Dtype::kInt64}});
  }

  Value LogAdd(Value a, Value b) { return c_.Apply("logaddexp", {a, b}); }

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
  Value target_lengths_;
  Value place_;
  Value end_;  // (N, 1): the number of places of each path
  Value path_;
};

void CtcLoss(ComposeContext& c) {
  Ctc ctc(c);
  Value loss = ctc.Losses(ctc.Run());
  const Value impossible = c.Apply("greater", {loss, kImpossible});
  const bool zero = c.attr(2).AsBool();
  loss = Where(impossible, zero ? 0.0 : std::numeric_limits<double>::infinity(), loss);
  if (c.attr(1).AsInt() == losses::kMean) {
    loss = loss / Cast(c.Apply("maximum", {ctc.target_lengths(), 1}), loss.dtype());
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
      .Compose(CtcRule, CtcLoss);
}

}  // namespace chx
