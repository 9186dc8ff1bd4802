#include "client/user_function.h"

#include <algorithm>
#include <utility>

#include "client/client_functions.h"
#include "client/function.h"
#include "client/modes.h"
#include "client/ops.h"
#include "client/session.h"

namespace chx {

struct AppliedFunction {
  std::shared_ptr<UserFunction> function;
  size_t num_inputs = 0;
  std::vector<ArraySpec> outputs;
  UserFunction::Retained retained;
};

namespace {

// A call of a UserFunction, as a graph refers to it.
class UserFunctionCall final : public Function {
 public:
  explicit UserFunctionCall(AppliedFunction applied) : applied_(std::move(applied)) {}

  absl::Status Backward(const FunctionCallArgs& args, std::vector<ArrayPtr>* grads) override {
    const BackwardContext context(applied_, args);
    CHX_ASSIGN_OR_RETURN(const UserFunction::Gradients all, applied_.function->Backward(context));
    if (all.size() != applied_.num_inputs) {
      return GradientError("[function] expects a gradient or nullopt for each of ",
                           applied_.num_inputs, " inputs, got ", all.size());
    }
    for (int target : args.targets) {
      const absl::optional<Array>& grad = all[static_cast<size_t>(target)];
      if (grad.has_value()) CHX_RETURN_IF_ERROR(grad->status());
      grads->push_back(grad.has_value() ? grad->body() : nullptr);
    }
    return absl::OkStatus();
  }

 private:
  const AppliedFunction applied_;
};

Array FindRetained(const char* what, size_t index, const std::vector<int64_t>& indexes,
                   const std::vector<ArrayPtr>& arrays) {
  const auto found = std::find(indexes.begin(), indexes.end(), static_cast<int64_t>(index));
  if (found == indexes.end()) {
    return Array(
        ValueError("[function] expects Forward to retain ", what, " ", index, " for Backward"));
  }
  const ArrayPtr& array = arrays[static_cast<size_t>(found - indexes.begin())];
  if (!array) return Array(GradientError("[function] ", what, " ", index, " is gone"));
  return Array(array);
}

// A graph has room for what is in none, and is no input.
bool IsNew(const Array& output, absl::Span<const Array> others) {
  const ArrayBody& body = *output.body();
  if (body.graphs_unknown || !body.memberships.empty()) return false;
  return std::none_of(others.begin(), others.end(),
                      [&](const Array& other) { return other.body().get() == &body; });
}

absl::StatusOr<std::vector<Array>> RunForward(UserFunction* function,
                                              absl::Span<const Array> inputs,
                                              UserFunction::Retained* retained) {
  const NoBackpropMode no_graph;
  std::vector<Array> outputs = function->Forward(inputs, retained);
  if (outputs.empty()) return ValueError("[function] expects at least one output of Forward");
  for (size_t i = 0; i < outputs.size(); ++i) {
    CHX_RETURN_IF_ERROR(outputs[i].status());
    const auto before = absl::MakeConstSpan(outputs).first(i);
    if (IsNew(outputs[i], inputs) && IsNew(outputs[i], before)) continue;
    outputs[i] = outputs[i].AsGradStopped();
    CHX_RETURN_IF_ERROR(outputs[i].status());
  }
  return outputs;
}

}  // namespace

size_t BackwardContext::num_inputs() const { return applied_.num_inputs; }
size_t BackwardContext::num_outputs() const { return applied_.outputs.size(); }

bool BackwardContext::IsWanted(size_t input) const {
  return std::find(call_.targets.begin(), call_.targets.end(), static_cast<int>(input)) !=
         call_.targets.end();
}

bool BackwardContext::has_output_grad(size_t output) const {
  return output < call_.output_grads.size() && call_.output_grads[output];
}

Array BackwardContext::output_grad(size_t output) const {
  if (has_output_grad(output)) return Array(call_.output_grads[output]);
  if (output >= num_outputs()) {
    return Array(
        IndexError("[function] expects an output from 0 to ", num_outputs() - 1, ", got ", output));
  }
  const auto is_there = [](const ArrayPtr& grad) { return static_cast<bool>(grad); };
  const auto other = std::find_if(call_.output_grads.begin(), call_.output_grads.end(), is_there);
  if (other == call_.output_grads.end()) {
    return Array(GradientError("[function] no output has a gradient"));
  }
  const ArraySpec& spec = applied_.outputs[output];
  return zeros(*(*other)->session, Ints(spec.shape.begin(), spec.shape.end()), spec.dtype,
               spec.device);
}

Array BackwardContext::input(size_t input) const {
  return FindRetained("input", input, applied_.retained.inputs, call_.retained_inputs);
}

Array BackwardContext::output(size_t output) const {
  return FindRetained("output", output, applied_.retained.outputs, call_.retained_outputs);
}

absl::StatusOr<std::vector<Array>> ApplyFunction(std::shared_ptr<UserFunction> function,
                                                 absl::Span<const Array> inputs) {
  if (inputs.empty()) return TypeError("[function] expects at least one array");
  CHX_ASSIGN_OR_RETURN(const std::vector<ArrayBody*> xs, internal::BodiesOf(inputs));
  AppliedFunction applied;
  CHX_ASSIGN_OR_RETURN(std::vector<Array> outputs,
                       RunForward(function.get(), inputs, &applied.retained));
  const UserFunction::Retained retained = applied.retained;
  applied.function = std::move(function);
  applied.num_inputs = inputs.size();
  for (const Array& output : outputs) applied.outputs.push_back(output.spec());
  CHX_ASSIGN_OR_RETURN(const std::vector<ArrayBody*> ys, internal::BodiesOf(outputs));
  ClientFunctions& functions = xs[0]->session->functions();
  CHX_RETURN_IF_ERROR(functions.Record(std::make_shared<UserFunctionCall>(std::move(applied)), xs,
                                       ys, retained.inputs, retained.outputs));
  return outputs;
}

Array ApplyFunctionToArray(std::shared_ptr<UserFunction> function, absl::Span<const Array> inputs) {
  absl::StatusOr<std::vector<Array>> outputs = ApplyFunction(std::move(function), inputs);
  if (!outputs.ok()) return Array(outputs.status());
  if (outputs->size() == 1) return (*outputs)[0];
  return Array(ValueError("[function] expects one output of Forward, got ", outputs->size()));
}

}  // namespace chx
