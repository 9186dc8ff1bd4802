// The optimizers of the clients: how each of them calls an operator of ops/defs/optimizers.cc. The
// classes of both clients are made from these tables.
#ifndef CHX_OPS_OPTIMIZER_RULES_H_
#define CHX_OPS_OPTIMIZER_RULES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "ops/attr.h"
#include "ops/op_def.h"
#include "ops/scalar.h"

namespace chx {

// With its default: a float or a bool.
struct Hyperparameter {
  std::string name;
  Scalar value;
};

struct OptimizerStep;

// A way of updating parameters. Names and defaults are Chainer's.
struct OptimizerRule {
  std::string name;
  // Takes lists: the parameters, their gradients, then one for each state. Its attributes are
  // hyperparameters of the same names, and what `compute` makes of them.
  std::string op;
  std::vector<std::pair<std::string, double>> states;  // with what an element is at first
  std::vector<Hyperparameter> hyperparameters;
  // An attribute that is no hyperparameter; none: it is absent.
  absl::optional<double> (*compute)(absl::string_view attr, const OptimizerStep& step) = nullptr;

  // -1 if there is none.
  int IndexOf(absl::string_view hyperparameter) const;
  const OpDef& FindOp() const;
};

// What the attributes of one step depend on.
struct OptimizerStep {
  const OptimizerRule& rule;
  absl::Span<const double> values;  // of the rule's hyperparameters, in their order
  int64_t t = 1;                    // the step's number, from 1 on
  double initial_alpha = 0;         // with which the optimizer began, if it has one

  double operator[](absl::string_view hyperparameter) const;
};
// Attributes of the rule's operator.
Attrs AttrsOf(const OptimizerStep& step);

// A class of the clients: a rule of which some hyperparameters cannot be changed.
struct OptimizerDef {
  std::string name;
  std::string doc;  // lines of at most 96 columns
  std::string rule;
  std::vector<Hyperparameter> fixed;

  const OptimizerRule& FindRule() const;
  // Null: the user may set it.
  const Scalar* FixedValue(absl::string_view hyperparameter) const;
};

absl::Span<const OptimizerRule> OptimizerRules();
absl::Span<const OptimizerDef> OptimizerDefs();
// Null if there is none of that name.
const OptimizerRule* FindOptimizerRule(absl::string_view name);
const OptimizerDef* FindOptimizerDef(absl::string_view name);

}  // namespace chx

#endif  // CHX_OPS_OPTIMIZER_RULES_H_
