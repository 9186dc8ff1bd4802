#include "server/autograd/backward.h"

#include <algorithm>
#include <utility>

#include "ops/error.h"

namespace chx::server {
namespace {

// A gradient that a leaf may own: C-contiguous, sharing memory with nothing.
absl::StatusOr<Variable> Own(Runtime& runtime, Variable grad, const RecordMode& mode) {
  const ArraySpec& spec = grad.array.spec;
  if (spec.is_contiguous() && spec.offset == 0 && grad.array.buffer->unique()) return grad;
  const VariableOperand input(&grad);
  return Apply1(runtime, {OpNamed("copy"), absl::MakeConstSpan(&input, 1), {}}, mode);
}

// node->grad += grad. The old array is written only if nobody else can see it.
absl::Status AddToLeaf(Runtime& runtime, ArrayNode* node, Variable grad, const RecordMode& mode) {
  if (node->grad == nullptr) {
    CHX_ASSIGN_OR_RETURN(Variable own, Own(runtime, std::move(grad), mode));
    node->grad = std::make_unique<Variable>(std::move(own));
    return absl::OkStatus();
  }
  Variable& old = *node->grad;
  const VariableOperand inputs[] = {VariableOperand(&old), VariableOperand(&grad)};
  if (old.nodes.empty() && grad.nodes.empty() && old.array.buffer->unique() &&
      !old.array.buffer->lease()) {
    ApplyOutputs none;
    return Apply(runtime, {OpNamed("add_"), inputs, {}}, mode, &none);
  }
  CHX_ASSIGN_OR_RETURN(Variable sum, Apply1(runtime, {OpNamed("add"), inputs, {}}, mode));
  *node->grad = std::move(sum);
  return absl::OkStatus();
}

absl::StatusOr<Variable> Unscale(Runtime& runtime, const Variable& grad, double loss_scale,
                                 const RecordMode& mode) {
  if (loss_scale == 1.0) return grad;
  const VariableOperand inputs[] = {VariableOperand(&grad), VariableOperand(Scalar(loss_scale))};
  return Apply1(runtime, {OpNamed("divide"), inputs, {}}, mode);
}

std::vector<ArrayNode*> NodesOf(absl::Span<Variable* const> variables, BackpropId id) {
  std::vector<ArrayNode*> nodes;
  for (Variable* variable : variables) {
    ArrayNode* node = variable->NodeOf(id);
    if (node != nullptr) nodes.push_back(node);
  }
  return nodes;
}

}  // namespace

Backprop::Backprop(Runtime& runtime, const BackwardOptions& options, const RecordMode& mode)
    : runtime_(runtime), options_(options), pass_(runtime, options, mode) {}

absl::Status Backprop::StartFromOwn(ArrayNode* node) {
  if (node->grad != nullptr) return pass_.Start(node, *node->grad);
  CHX_ASSIGN_OR_RETURN(Variable start, pass_.Full(node->spec, options_.loss_scale));
  return pass_.Start(node, std::move(start));
}

absl::StatusOr<std::unique_ptr<Backprop>> Backprop::Backward(Runtime& runtime,
                                                             absl::Span<Variable* const> outputs,
                                                             const BackwardOptions& options,
                                                             const RecordMode& mode) {
  std::unique_ptr<Backprop> backprop(new Backprop(runtime, options, mode));
  for (ArrayNode* node : NodesOf(outputs, options.id)) {
    if (node->grad != nullptr) backprop->started_.emplace_back(node);
    CHX_RETURN_IF_ERROR(backprop->StartFromOwn(node));
  }
  return backprop;
}

absl::StatusOr<std::unique_ptr<Backprop>> Backprop::Backward(
    Runtime& runtime, absl::Span<Variable* const> outputs, const BackwardOptions& options,
    const RecordMode& mode, std::unique_ptr<GradientReducer> reducer) {
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<Backprop> backprop,
                       Backward(runtime, outputs, options, mode));
  const absl::Span<const Ref<ArrayNode>> parameters = reducer->parameters();
  backprop->reduced_.assign(parameters.begin(), parameters.end());
  CHX_RETURN_IF_ERROR(
      backprop->pass_.Watch(NodesOf(outputs, options.id), parameters, reducer.get()));
  backprop->reducer_ = std::move(reducer);
  return backprop;
}

absl::StatusOr<std::unique_ptr<Backprop>> Backprop::Grad(Runtime& runtime,
                                                         absl::Span<Variable* const> outputs,
                                                         absl::Span<Variable* const> inputs,
                                                         absl::Span<Variable* const> output_grads,
                                                         const BackwardOptions& options,
                                                         const RecordMode& mode) {
  if (!output_grads.empty() && output_grads.size() != outputs.size()) {
    return GradientError("[grad] expects as many grad_outputs as outputs (", outputs.size(),
                         "), got ", output_grads.size());
  }
  std::unique_ptr<Backprop> backprop(new Backprop(runtime, options, mode));
  backprop->gives_grads_ = true;
  for (Variable* input : inputs) backprop->inputs_.emplace_back(input->NodeOf(options.id));
  BackwardPass& pass = backprop->pass_;
  CHX_RETURN_IF_ERROR(pass.LimitTo(NodesOf(outputs, options.id), NodesOf(inputs, options.id)));
  for (size_t i = 0; i < outputs.size(); ++i) {
    ArrayNode* const node = outputs[i]->NodeOf(options.id);
    if (node == nullptr) continue;
    if (output_grads.empty() || output_grads[i] == nullptr) {
      CHX_RETURN_IF_ERROR(backprop->StartFromOwn(node));
      continue;
    }
    const ArraySpec& spec = output_grads[i]->array.spec;
    if (spec.shape != node->spec.shape || spec.dtype != node->spec.dtype ||
        spec.device != node->spec.device) {
      return GradientError("[grad] expects a grad_output of ", node->spec.ToString(), ", got ",
                           spec.ToString());
    }
    CHX_RETURN_IF_ERROR(pass.Start(node, *output_grads[i]));
  }
  return backprop;
}

absl::StatusOr<std::vector<absl::optional<Variable>>> Backprop::Finish() {
  if (gives_grads_) return FinishGrad();
  CHX_RETURN_IF_ERROR(FinishBackward());
  return std::vector<absl::optional<Variable>>();
}

absl::Status Backprop::Delay(std::unique_ptr<GradientReducer>* before) {
  CHX_RETURN_IF_ERROR(reducer_->StartRest(&pass_));
  std::swap(reducer_, *before);
  if (reducer_ == nullptr) return absl::OkStatus();
  if (reducer_->number() != (*before)->number()) {
    const std::unique_ptr<GradientReducer> other = std::move(reducer_);
    return other->Wait().status();
  }
  const absl::Span<const Ref<ArrayNode>> parameters = reducer_->parameters();
  const bool same = std::equal(parameters.begin(), parameters.end(), reduced_.begin(),
                               reduced_.end(), [](const auto& a, const auto& b) {
                                 return a->spec.shape == b->spec.shape &&
                                        a->spec.dtype == b->spec.dtype &&
                                        a->spec.device == b->spec.device;
                               });
  if (same) return absl::OkStatus();
  return ValueError("[backward] expects parameters like those of the delayed reduction before, of ",
                    parameters.size(), " arrays");
}

absl::Status Backprop::AddReduced() {
  std::vector<Variable> reduced(reduced_.size());
  if (reducer_ != nullptr) {
    if (!reducer_->delayed()) CHX_RETURN_IF_ERROR(reducer_->StartRest(&pass_));
    CHX_ASSIGN_OR_RETURN(reduced, reducer_->Wait());
  }
  for (size_t i = 0; i < reduced_.size(); ++i) {
    ArrayNode* const node = reduced_[i].get();
    if (!reduced[i].array.valid()) {
      CHX_ASSIGN_OR_RETURN(reduced[i], pass_.Full(node->spec, 0));
    }
    const double loss_scale = reducer_ == nullptr ? 1.0 : reducer_->loss_scale();
    CHX_ASSIGN_OR_RETURN(Variable unscaled, Unscale(runtime_, std::exchange(reduced[i], Variable()),
                                                    loss_scale, pass_.mode()));
    CHX_RETURN_IF_ERROR(AddToLeaf(runtime_, node, std::move(unscaled), pass_.mode()));
  }
  return absl::OkStatus();
}

// Only now are leaves touched, so that an error leaves them as they were. An output that started
// from its own gradient does not add it to itself.
absl::Status Backprop::FinishBackward() {
  absl::flat_hash_set<const ArrayNode*> apart;
  for (const auto* nodes : {&started_, &reduced_}) {
    for (const Ref<ArrayNode>& node : *nodes) apart.insert(node.get());
  }
  CHX_RETURN_IF_ERROR(AddReduced());
  return pass_.ForEach([&](ArrayNode* node, Variable* grad) -> absl::Status {
    if (!node->grad_required || node->handles == 0 || apart.contains(node)) {
      return absl::OkStatus();
    }
    CHX_ASSIGN_OR_RETURN(Variable unscaled,
                         Unscale(runtime_, *grad, options_.loss_scale, pass_.mode()));
    *grad = Variable();  // so that the leaf can own the memory
    return AddToLeaf(runtime_, node, std::move(unscaled), pass_.mode());
  });
}

absl::StatusOr<std::vector<absl::optional<Variable>>> Backprop::FinishGrad() {
  std::vector<absl::optional<Variable>> grads(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Variable* grad = inputs_[i] ? pass_.Find(inputs_[i].get()) : nullptr;
    if (grad != nullptr) grads[i] = *grad;
  }
  // From here on only results that share memory are shared. Those in a graph may: nobody writes
  // them.
  std::vector<std::pair<Ref<ArrayNode>, Variable>> retained = pass_.Finish();
  const auto complete = [&](Variable* grad) -> absl::Status {
    CHX_ASSIGN_OR_RETURN(*grad, Unscale(runtime_, *grad, options_.loss_scale, pass_.mode()));
    const ArraySpec& spec = grad->array.spec;
    if (spec.is_contiguous() && spec.offset == 0 && !grad->nodes.empty()) return absl::OkStatus();
    CHX_ASSIGN_OR_RETURN(*grad, Own(runtime_, std::move(*grad), pass_.mode()));
    return absl::OkStatus();
  };
  for (auto& grad : grads) {
    if (grad.has_value()) CHX_RETURN_IF_ERROR(complete(&*grad));
  }
  for (auto& [node, grad] : retained) {
    if (node->handles == 0) continue;
    CHX_RETURN_IF_ERROR(complete(&grad));
    node->grad = std::make_unique<Variable>(std::move(grad));
    node->grad_required = true;
  }
  return grads;
}

}  // namespace chx::server
