#include "ops/optimizer_rules.h"

#include <cmath>

#include "ops/registry.h"

namespace chx {
namespace {

absl::optional<double> ComputeAdam(absl::string_view attr, const OptimizerStep& step) {
  const auto t = static_cast<double>(step.t);
  if (attr == "step") {
    return step["alpha"] * std::sqrt(1.0 - std::pow(step["beta2"], t)) /
           (1.0 - std::pow(step["beta1"], t));
  }
  if (step["adabound"] == 0) return absl::nullopt;
  // A schedule that changes alpha changes the final rate too.
  const double final_lr = step["final_lr"] * step["alpha"] / step.initial_alpha;
  const double way = step["gamma"] * t;
  return final_lr * (attr == "lower" ? 1.0 - 1.0 / (way + 1) : 1.0 + 1.0 / way);
}

absl::optional<double> ComputeMsvag(absl::string_view attr, const OptimizerStep& step) {
  return std::pow(step["beta"], static_cast<double>(step.t));  // beta_power
}

std::vector<OptimizerRule> MakeRules() {
  const std::vector<Hyperparameter> momentum = {{"lr", 0.01}, {"momentum", 0.9}};
  const std::vector<Hyperparameter> adam = {{"alpha", 0.001},   {"beta1", 0.9},
                                            {"beta2", 0.999},   {"eps", 1e-8},
                                            {"eta", 1.0},       {"weight_decay_rate", 0.0},
                                            {"amsgrad", false}, {"adabound", false},
                                            {"final_lr", 0.1},  {"gamma", 1e-3}};
  return {
      {"SGD", "sgd_update", {}, {{"lr", 0.01}}},
      {"MomentumSGD", "momentum_sgd_update", {{"v", 0}}, momentum},
      {"CorrectedMomentumSGD", "corrected_momentum_sgd_update", {{"v", 0}}, momentum},
      {"NesterovAG", "nesterov_ag_update", {{"v", 0}}, momentum},
      {"AdaGrad", "ada_grad_update", {{"h", 0}}, {{"lr", 0.001}, {"eps", 1e-8}}},
      {"AdaDelta", "ada_delta_update", {{"msg", 0}, {"msdx", 0}}, {{"rho", 0.95}, {"eps", 1e-6}}},
      {"Adam", "adam_update", {{"m", 0}, {"v", 0}}, adam, ComputeAdam},
      {"AMSGrad", "amsgrad_update", {{"m", 0}, {"v", 0}, {"vhat", 0}}, adam, ComputeAdam},
      {"RMSprop",
       "rmsprop_update",
       {{"ms", 0}},
       {{"lr", 0.01}, {"alpha", 0.99}, {"eps", 1e-8}, {"eps_inside_sqrt", false}}},
      {"RMSpropGraves",
       "rmsprop_graves_update",
       {{"n", 0}, {"g", 0}, {"delta", 0}},
       {{"lr", 1e-4}, {"alpha", 0.95}, {"momentum", 0.9}, {"eps", 1e-4}}},
      {"SMORMS3",
       "smorms3_update",
       {{"mem", 1}, {"g", 0}, {"g2", 0}},
       {{"lr", 0.001}, {"eps", 1e-16}}},
      {"MSVAG",
       "msvag_update",
       {{"m", 0}, {"v", 0}},
       {{"lr", 0.1}, {"beta", 0.9}, {"eta", 1.0}, {"weight_decay_rate", 0.0}},
       ComputeMsvag},
  };
}

std::vector<OptimizerDef> MakeDefs() {
  const auto adam = [](bool amsgrad) {
    return std::vector<Hyperparameter>{
        {"amsgrad", amsgrad}, {"adabound", false}, {"final_lr", 0.1}, {"gamma", 1e-3}};
  };
  const auto bound = [](bool amsgrad) {
    return std::vector<Hyperparameter>{{"amsgrad", amsgrad}, {"adabound", true}};
  };
  return {
      {"SGD", "Stochastic gradient descent.", "SGD"},
      {"MomentumSGD", "Gradient descent with momentum.", "MomentumSGD"},
      {"CorrectedMomentumSGD", "Momentum whose velocity does not depend on the learning rate.",
       "CorrectedMomentumSGD"},
      {"NesterovAG", "Nesterov's accelerated gradient.", "NesterovAG"},
      {"AdaGrad", "AdaGrad (Duchi et al., 2011).", "AdaGrad"},
      {"AdaDelta", "AdaDelta (Zeiler, 2012).", "AdaDelta"},
      {"Adam", "Adam (Kingma and Ba, 2015).", "Adam", adam(false)},
      {"AdamW",
       "Adam with decoupled weight decay, by the rule of Chainer and of the paper:\n"
       "p -= eta * (alpha_t * m / (sqrt(v) + eps) + weight_decay_rate * p)\n"
       "The decay is not scaled by the step size. PyTorch's is: its AdamW(lr, weight_decay=d) is\n"
       "alpha = lr, weight_decay_rate = lr * d here, to be set again whenever alpha changes.\n"
       "(Loshchilov and Hutter, 2019; algorithm 2, with eta as the schedule's multiplier.)",
       "Adam", adam(false)},
      {"AMSGrad", "AMSGrad (Reddi et al., 2018).", "AMSGrad", adam(true)},
      {"AdaBound", "AdaBound (Luo et al., 2019).", "Adam", bound(false)},
      {"AMSBound", "AdaBound over AMSGrad.", "AMSGrad", bound(true)},
      {"RMSprop", "RMSprop (Tieleman and Hinton, 2012).", "RMSprop"},
      {"RMSpropGraves", "RMSprop of Graves (2013).", "RMSpropGraves"},
      {"SMORMS3", "Simon Funk's SMORMS3.", "SMORMS3"},
      {"MSVAG", "M-SVAG (Balles and Hennig, 2018).", "MSVAG"},
  };
}

template <typename T>
const T* FindByName(absl::Span<const T> table, absl::string_view name) {
  for (const T& entry : table) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace

int OptimizerRule::IndexOf(absl::string_view hyperparameter) const {
  for (size_t i = 0; i < hyperparameters.size(); ++i) {
    if (hyperparameters[i].name == hyperparameter) return static_cast<int>(i);
  }
  return -1;
}

const OpDef& OptimizerRule::FindOp() const { return *OpRegistry::Global().Find(op); }

double OptimizerStep::operator[](absl::string_view hyperparameter) const {
  return values[static_cast<size_t>(rule.IndexOf(hyperparameter))];
}

Attrs AttrsOf(const OptimizerStep& step) {
  Attrs attrs;
  for (const AttrDef& attr : step.rule.FindOp().attrs) {
    const int index = step.rule.IndexOf(attr.name);
    const absl::optional<double> value =
        index < 0 ? step.rule.compute(attr.name, step) : step.values[static_cast<size_t>(index)];
    attrs.push_back(!value.has_value()             ? AttrValue()
                    : attr.type == AttrType::kBool ? AttrValue(*value != 0)
                                                   : AttrValue(*value));
  }
  return attrs;
}

const OptimizerRule& OptimizerDef::FindRule() const { return *FindOptimizerRule(rule); }

const Scalar* OptimizerDef::FixedValue(absl::string_view hyperparameter) const {
  const Hyperparameter* found =
      FindByName<Hyperparameter>(absl::MakeConstSpan(fixed), hyperparameter);
  return found == nullptr ? nullptr : &found->value;
}

absl::Span<const OptimizerRule> OptimizerRules() {
  static const auto& rules = *new std::vector<OptimizerRule>(MakeRules());
  return rules;
}

absl::Span<const OptimizerDef> OptimizerDefs() {
  static const auto& defs = *new std::vector<OptimizerDef>(MakeDefs());
  return defs;
}

const OptimizerRule* FindOptimizerRule(absl::string_view name) {
  return FindByName(OptimizerRules(), name);
}

const OptimizerDef* FindOptimizerDef(absl::string_view name) {
  return FindByName(OptimizerDefs(), name);
}

}  // namespace chx
