#include "client/optimizer.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_join.h"
#include "client/gradients.h"
#include "client/graph_mirror.h"
#include "client/modes.h"
#include "client/ops.h"
#include "client/programs.h"
#include "client/session.h"
#include "ops/op_call.h"
#include "ops/optimizer_rules.h"
#include "ops/registry.h"

namespace chx {
namespace optimizers {
namespace {

constexpr size_t kMaxOperands = 65535;  // of one command
constexpr char kSteps[] = "t";
constexpr char kInitialAlpha[] = "initial_alpha";

// As a number without dimensions.
Array ToArray(Session& session, double number, Dtype dtype) {
  if (dtype == Dtype::kBool) {
    const bool value = number != 0;
    return Array::FromHost(session, &value, {}, dtype);
  }
  if (dtype == Dtype::kInt64) {
    const auto value = static_cast<int64_t>(number);
    return Array::FromHost(session, &value, {}, dtype);
  }
  return Array::FromHost(session, &number, {}, dtype);
}

// The gradient for use in place: outside of all graphs.
absl::StatusOr<Array> Writable(ArrayPtr grad) {
  CHX_ASSIGN_OR_RETURN(const bool in_graph,
                       grad->session->graphs().IsBackpropRequired(grad.get(), absl::nullopt));
  Array array(std::move(grad));
  if (in_graph) array = array.AsGradStopped();
  CHX_RETURN_IF_ERROR(array.status());
  return array;
}

// Of another device or dtype, too.
Array CopyOf(const Array& value, const ArraySpec& like) {
  static const OpDef& to_device = *OpRegistry::Global().Find("to_device");
  const AttrValue device(static_cast<int64_t>(like.device));
  return copy(astype(internal::Apply(to_device, {value}, {device}), like.dtype));
}

}  // namespace

Optimizer::Optimizer(absl::string_view name)
    : def_(*FindOptimizerDef(name)), rule_(def_.FindRule()) {}

absl::Status Optimizer::Setup(const std::vector<Array>& params) {
  std::vector<Parameter> named;
  named.reserve(params.size());
  for (const Array& param : params) named.push_back({std::to_string(named.size()), param});
  return SetUp(std::move(named));
}

absl::Status Optimizer::SetupNamed(const ArrayMap& params) {
  std::vector<Parameter> named;
  named.reserve(params.size());
  for (const auto& [name, param] : params) named.push_back({name, param});
  return SetUp(std::move(named));
}

absl::Status Optimizer::SetUp(std::vector<Parameter> params) {
  for (Parameter& param : params) {
    CHX_RETURN_IF_ERROR(param.array.status());
    ArrayBody* const body = param.array.body().get();
    CHX_ASSIGN_OR_RETURN(const bool required, body->session->graphs().IsGradRequired(body, 0));
    if (!required) {
      return ValueError("[optimizer] expects arrays that require gradients, got '", param.name,
                        "', ", body->spec.ToString(), ": call RequireGrad() first");
    }
    param.writable = param.array.AsGradStopped();
    CHX_RETURN_IF_ERROR(param.writable.status());
  }
  params_ = std::move(params);
  t_ = 0;
  const int alpha = rule_.IndexOf("alpha");
  initial_alpha_ = alpha < 0 ? 0 : Values()[static_cast<size_t>(alpha)];
  return absl::OkStatus();
}

std::vector<double> Optimizer::Values() const {
  const std::vector<Member> set = const_cast<Optimizer*>(this)->members();
  std::vector<double> values;
  auto next = set.begin();
  for (const Hyperparameter& hyperparameter : rule_.hyperparameters) {
    const Scalar* fixed = def_.FixedValue(hyperparameter.name);
    values.push_back(fixed != nullptr ? fixed->AsDouble()
                                      : std::visit([](auto* v) { return double(*v); }, *next++));
  }
  return values;
}

absl::Status Optimizer::Update() {
  struct Group {
    std::vector<Parameter*> params;
    std::vector<Array> grads;
  };
  std::map<std::pair<Session*, DeviceId>, Group> groups;
  for (Parameter& param : params_) {
    ArrayBody* const body = param.array.body().get();
    CHX_ASSIGN_OR_RETURN(ArrayPtr grad, body->session->gradients().GetGrad(body, 0));
    if (!grad) continue;
    Group& group = groups[{body->session.get(), body->spec.device}];
    group.params.push_back(&param);
    CHX_ASSIGN_OR_RETURN(Array writable, Writable(std::move(grad)));
    group.grads.push_back(std::move(writable));
  }
  if (groups.size() > 1 && groups.begin()->first.first->programs().varying() != nullptr) {
    return MakeError(ErrorKind::kNotImplemented,
                     "[jit] cannot record an update of parameters of several devices");
  }
  const std::vector<double> values = Values();
  const Attrs attrs = AttrsOf({rule_, values, t_ + 1, initial_alpha_});
  for (const auto& [place, group] : groups) {
    CHX_RETURN_IF_ERROR(UpdateGroup(group.params, group.grads, attrs));
  }
  ++t_;
  return absl::OkStatus();
}

absl::Status Optimizer::UpdateGroup(const std::vector<Parameter*>& group,
                                    const std::vector<Array>& grads, const Attrs& attrs) {
  std::vector<std::vector<Array>> lists(2 + rule_.states.size());
  lists[1] = grads;
  for (Parameter* param : group) {
    lists[0].push_back(param->writable);
    CHX_RETURN_IF_ERROR(AddStates(param));
    for (size_t i = 0; i < param->states.size(); ++i) lists[2 + i].push_back(param->states[i]);
  }
  for (const auto& [name, hook] : hooks_) CHX_RETURN_IF_ERROR(hook(lists[0], lists[1]));
  CHX_RETURN_IF_ERROR(VaryIn(group[0]->array.body()->session.get(), group.size(), attrs));
  return Run(lists, attrs);
}

absl::Status Optimizer::VaryIn(Session* session, size_t num_params, const Attrs& attrs) {
  Programs& programs = session->programs();
  if (programs.varying() == nullptr) return absl::OkStatus();
  if (num_params > kMaxOperands / (2 + rule_.states.size())) {
    return MakeError(
        ErrorKind::kNotImplemented,
        "[jit] cannot record an update by several commands: there are too many arrays");
  }
  // Flags are what they were.
  std::vector<int64_t> varying;
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (attrs[i].type() == AttrType::kFloat) varying.push_back(static_cast<int64_t>(i));
  }
  const std::weak_ptr<Optimizer*> self = self_;
  programs.Vary(varying, [self, varying](std::vector<int64_t>* numbers) {
    const std::shared_ptr<Optimizer*> there = self.lock();
    if (there == nullptr) {
      return ValueError("[jit] expects the optimizer that was recorded, which is gone");
    }
    Optimizer& optimizer = **there;
    const std::vector<double> values = optimizer.Values();
    const Attrs next = AttrsOf({optimizer.rule_, values, ++optimizer.t_, optimizer.initial_alpha_});
    for (int64_t attribute : varying) {
      const double number = next[static_cast<size_t>(attribute)].AsFloat();
      numbers->emplace_back();
      std::memcpy(&numbers->back(), &number, sizeof(number));
    }
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::Status Optimizer::AddStates(Parameter* param) const {
  if (!param->states.empty()) return absl::OkStatus();
  const ArraySpec& spec = param->array.spec();
  std::vector<Array> states;
  for (const auto& [name, first] : rule_.states) {
    states.push_back(full(*param->array.body()->session, Ints(spec.shape.begin(), spec.shape.end()),
                          first, spec.dtype, spec.device));
    CHX_RETURN_IF_ERROR(states.back().status());
    Programs& programs = param->array.body()->session->programs();
    if (programs.varying() != nullptr) {
      CHX_RETURN_IF_ERROR(programs.Hold(*states.back().body()));
    }
  }
  param->states = std::move(states);
  return absl::OkStatus();
}

absl::Status Optimizer::Run(const std::vector<std::vector<Array>>& lists,
                            const Attrs& attrs) const {
  const OpDef& op = rule_.FindOp();
  const size_t count = lists[0].size();
  const size_t most = kMaxOperands / lists.size();
  for (size_t first = 0; first < count; first += most) {
    std::vector<Operand> operands;
    for (const std::vector<Array>& list : lists) {
      const auto begin = list.begin() + static_cast<std::ptrdiff_t>(first);
      operands.insert(operands.end(), begin,
                      begin + static_cast<std::ptrdiff_t>(std::min(most, count - first)));
    }
    const ArrayPtr& body = lists[0][0].body();
    ArrayPtrs none;
    CHX_RETURN_IF_ERROR(body->session->Apply({op, operands, attrs, body->spec.device}, &none));
  }
  return absl::OkStatus();
}

absl::Status Optimizer::ClearGrads() {
  for (const Parameter& param : params_) CHX_RETURN_IF_ERROR(param.array.ClearGrad());
  return absl::OkStatus();
}

absl::Status Optimizer::AddHook(std::string name, Hook hook) {
  for (const auto& [existing, other] : hooks_) {
    if (existing == name)
      return ValueError("[optimizer] expects another name, has hook '", name, "' already");
  }
  hooks_.emplace_back(std::move(name), std::move(hook));
  return absl::OkStatus();
}

absl::Status Optimizer::RemoveHook(absl::string_view name) {
  const auto found = std::find_if(hooks_.begin(), hooks_.end(),
                                  [name](const auto& hook) { return hook.first == name; });
  if (found == hooks_.end()) return ValueError("[optimizer] has no hook '", name, "'");
  hooks_.erase(found);
  return absl::OkStatus();
}

Optimizer::Numbers Optimizer::ToNumbers() const {
  Numbers numbers = {{kSteps, static_cast<double>(t_)}};
  if (rule_.IndexOf("alpha") >= 0) numbers[kInitialAlpha] = initial_alpha_;
  const std::vector<double> values = Values();
  for (size_t i = 0; i < values.size(); ++i) {
    numbers[rule_.hyperparameters[i].name] = values[i];
  }
  return numbers;
}

absl::StatusOr<ArrayMap> Optimizer::State() const {
  if (params_.empty()) return ValueError("[optimizer] expects Setup() before its state is read");
  ArrayMap state;
  Session& session = *params_[0].array.body()->session;
  for (const auto& [name, number] : ToNumbers()) {
    const int index = rule_.IndexOf(name);
    const bool is_bool =
        index >= 0 &&
        rule_.hyperparameters[static_cast<size_t>(index)].value.kind() == ScalarKind::kBool;
    state[name] = ToArray(session, number,
                          name == kSteps ? Dtype::kInt64
                          : is_bool      ? Dtype::kBool
                                         : Dtype::kFloat64);
  }
  for (const Parameter& param : params_) {
    for (size_t i = 0; i < param.states.size(); ++i) {
      state[absl::StrCat(param.name, "/", rule_.states[i].first)] = param.states[i];
    }
  }
  for (const auto& [name, array] : state) CHX_RETURN_IF_ERROR(array.status());
  return state;
}

absl::StatusOr<Optimizer::Numbers> Optimizer::NumbersIn(const ArrayMap& state) const {
  Numbers numbers = ToNumbers();
  for (auto& [name, number] : numbers) {
    const auto found = state.find(name);
    if (found == state.end()) {
      return ValueError("[load_state] expects '", name, "', got no such value");
    }
    CHX_ASSIGN_OR_RETURN(number, found->second.Item());
  }
  return numbers;
}

absl::StatusOr<std::vector<std::vector<Array>>> Optimizer::StatesIn(const ArrayMap& state) const {
  const NoBackpropMode no_graph;
  size_t used = ToNumbers().size();
  std::vector<std::vector<Array>> states;
  for (const Parameter& param : params_) {
    states.emplace_back();
    const ArraySpec& spec = param.array.spec();
    for (const auto& [key, first] : rule_.states) {
      const auto found = state.find(absl::StrCat(param.name, "/", key));
      if (found == state.end()) continue;
      const Array& value = found->second;
      CHX_RETURN_IF_ERROR(value.status());
      if (value.shape() != spec.shape) {
        return DimensionError("[load_state] expects '", found->first, "' of shape ",
                              spec.shape.ToString(), ", got ", value.shape().ToString());
      }
      states.back().push_back(CopyOf(value, spec));
      CHX_RETURN_IF_ERROR(states.back().back().status());
    }
    if (!states.back().empty() && states.back().size() != rule_.states.size()) {
      return ValueError("[load_state] expects ", rule_.states.size(), " states of '", param.name,
                        "', got ", states.back().size());
    }
    used += states.back().size();
  }
  if (used == state.size()) return states;
  std::vector<std::string> names;
  for (const auto& [name, value] : state) names.push_back(name);
  return ValueError(
      "[load_state] expects hyperparameters and states of ", def_.name,
      " for the parameters of Setup(), got other names too: ", absl::StrJoin(names, ", "));
}

absl::Status Optimizer::LoadState(const ArrayMap& state) {
  CHX_ASSIGN_OR_RETURN(const Numbers numbers, NumbersIn(state));
  CHX_ASSIGN_OR_RETURN(std::vector<std::vector<Array>> states, StatesIn(state));
  for (size_t i = 0; i < params_.size(); ++i) {
    std::vector<Array>& there = params_[i].states;
    // What has been recorded goes on with the arrays that there were.
    for (size_t k = 0; k < there.size() && k < states[i].size(); ++k) {
      CHX_RETURN_IF_ERROR(copyto(there[k], states[i][k]));
      states[i][k] = there[k];
    }
    there = std::move(states[i]);
  }
  Assign(numbers);
  return absl::OkStatus();
}

void Optimizer::Assign(const Numbers& numbers) {
  t_ = static_cast<int64_t>(numbers.at(kSteps));
  if (rule_.IndexOf("alpha") >= 0) initial_alpha_ = numbers.at(kInitialAlpha);
  const std::vector<Member> set = members();
  auto next = set.begin();
  for (const Hyperparameter& hyperparameter : rule_.hyperparameters) {
    if (def_.FixedValue(hyperparameter.name) != nullptr) continue;
    const double number = numbers.at(hyperparameter.name);
    std::visit([number](auto* v) { *v = static_cast<std::decay_t<decltype(*v)>>(number); },
               *next++);
  }
}

}  // namespace optimizers
}  // namespace chx
