#include "ops/autocast.h"

#include <vector>

#include "ops/registry.h"

namespace chx {
namespace {

// Their time is that of products, which processors and GPUs have units for.
constexpr absl::string_view kNarrowOps[] = {"attention_with_dropout",
                                            "conv",
                                            "conv_transpose",
                                            "dot",
                                            "grouped_conv",
                                            "linear",
                                            "lstm_layer",
                                            "matmul",
                                            "rnn",
                                            "scaled_dot_product_attention"};

// Sums of many elements, what loses digits near some values, and what leaves the range of float16.
constexpr absl::string_view kWideOps[] = {
    "absolute_error",
    "arccos",
    "arcsin",
    "cosh",
    "cross_entropy",
    "ctc_loss",
    "cumprod",
    "cumsum",
    "exp",
    "exp2",
    "expm1",
    "float_power",
    "gaussian_kl_divergence",
    "hinge",
    "huber_loss",
    "kl_div",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logsumexp",
    "mean",
    "nanmean",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "nll_loss",
    "norm",
    "power",
    "prod",
    "reciprocal",
    "sigmoid_cross_entropy",
    "sinh",
    "softmax",
    "softmax_cross_entropy",
    "squared_error",
    "std",
    "sum",
    "tan",
    "var",
};

// By operator id.
const std::vector<AutocastRule>& Rules() {
  static const auto* const rules = [] {
    const OpRegistry& registry = OpRegistry::Global();
    auto* const all = new std::vector<AutocastRule>(registry.size(), AutocastRule::kNone);
    for (const absl::string_view name : kNarrowOps) {
      (*all)[registry.Find(name)->id] = AutocastRule::kNarrow;
    }
    for (const absl::string_view name : kWideOps) {
      (*all)[registry.Find(name)->id] = AutocastRule::kWide;
    }
    return all;
  }();
  return *rules;
}

}  // namespace

AutocastRule AutocastRuleOf(const OpDef& op) { return Rules()[op.id]; }

Dtype AutocastDtype(AutocastRule rule, Dtype input, Dtype narrow) {
  if (!IsFloat(input) || input == Dtype::kFloat64) return input;
  switch (rule) {
    case AutocastRule::kNarrow:
      return narrow;
    case AutocastRule::kWide:
      return Dtype::kFloat32;
    case AutocastRule::kNone:
      break;
  }
  return input;
}

}  // namespace chx
