#include "server/autograd/backward.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ops/error.h"
#include "ops/registry.h"
#include "server/autograd/rule_context.h"

namespace chx {
namespace {

struct ByRank {
  bool operator()(const Ref<OpNode>& a, const Ref<OpNode>& b) const { return a->rank < b->rank; }
};

// One walk: gradients by array node, op nodes from the highest rank down.
class Walk {
 public:
  // Graphs that were made after this one are not continued by its gradients.
  Walk(Runtime& runtime, const BackwardOptions& options, const RecordMode& mode)
      : runtime_(runtime), options_(options), mode_(mode) {
    mode_.StopAbove(options.id);
    if (!options.enable_double_backprop) mode_.Set(options.id, false);
  }

  // Only what lies between the outputs and these nodes is walked, and their gradients are kept.
  void LimitTo(absl::Span<ArrayNode* const> outputs, absl::Span<ArrayNode* const> inputs) {
    limited_ = true;
    kept_.insert(inputs.begin(), inputs.end());
    std::vector<OpNode*> ops;
    absl::flat_hash_set<OpNode*> found;
    const auto visit = [&](const ArrayNode* node) {
      OpNode* op = node == nullptr ? nullptr : node->creator.get();
      if (op != nullptr && found.insert(op).second) ops.push_back(op);
    };
    for (ArrayNode* output : outputs) visit(output);
    for (size_t i = 0; i < ops.size(); ++i) {
      for (const Ref<ArrayNode>& input : ops[i]->EdgeOf(options_.id)->inputs) visit(input.get());
    }
    std::sort(ops.begin(), ops.end(), [](OpNode* a, OpNode* b) { return a->rank < b->rank; });
    for (OpNode* op : ops) {
      const auto& below = op->EdgeOf(options_.id)->inputs;
      if (std::any_of(below.begin(), below.end(),
                      [this](const Ref<ArrayNode>& node) { return Wants(node.get()); })) {
        useful_.insert(op);
      }
    }
  }

  absl::Status Start(ArrayNode* node, Variable grad) {
    Push(node);
    return Accumulate(node, grad);
  }

  absl::Status Run() {
    while (!queue_.empty()) {
      const Ref<OpNode> node = queue_.top();
      queue_.pop();
      CHX_RETURN_IF_ERROR(Step(node.get()));
    }
    return absl::OkStatus();
  }

  Variable* Find(ArrayNode* node) {
    auto it = grads_.find(node);
    return it == grads_.end() ? nullptr : &it->second;
  }
  template <typename Fn>
  absl::Status ForEach(Fn fn) {
    for (const Ref<ArrayNode>& node : order_) {
      auto it = grads_.find(node.get());
      if (it != grads_.end()) CHX_RETURN_IF_ERROR(fn(node.get(), &it->second));
    }
    return absl::OkStatus();
  }
  // Forgets all gradients; gives what passed through operators, if the options ask for that.
  std::vector<std::pair<Ref<ArrayNode>, Variable>> Finish() {
    grads_.clear();
    return std::move(retained_);
  }
  const RecordMode& mode() const { return mode_; }

  // Ones, or another value, of the array's spec.
  absl::StatusOr<Variable> Full(const ArraySpec& spec, double value) {
    const AttrValue attrs[] = {AttrValue::FromInts(spec.shape.span()), AttrValue(Scalar(value)),
                               AttrValue(spec.dtype)};
    return Apply1(runtime_, "full", {}, attrs, spec.device, mode_);
  }

 private:
  bool Wants(const ArrayNode* node) const {
    if (node == nullptr || !limited_) return node != nullptr;
    return kept_.contains(node) || (node->creator && useful_.contains(node->creator.get()));
  }

  void Push(ArrayNode* node) {
    if (!node->creator || (limited_ && !useful_.contains(node->creator.get()))) return;
    if (seen_.insert(node->creator.get()).second) queue_.push(node->creator);
  }

  // Sums a gradient over the dimensions that its array was broadcast along, and casts it to the
  // array's dtype: the one place where this happens.
  absl::StatusOr<Variable> Reduce(Variable grad, const ArraySpec& spec) {
    const ArraySpec& from = grad.array.spec;
    if (from.shape != spec.shape) {
      const int extra = from.ndim() - spec.ndim();
      Ints axes;
      for (int i = 0; i < from.ndim(); ++i) {
        if (i < extra || (spec.shape[i - extra] == 1 && from.shape[i] != 1)) axes.push_back(i);
      }
      if (extra < 0) {
        return ChainerxError("a gradient rule made ", from.ToString(), " for ", spec.ToString());
      }
      const AttrValue sum_attrs[] = {AttrValue(std::move(axes)), AttrValue(true), AttrValue()};
      CHX_ASSIGN_OR_RETURN(grad, Unary("sum", grad, sum_attrs));
      if (grad.array.spec.shape != spec.shape) {
        const AttrValue shape = AttrValue::FromInts(spec.shape.span());
        CHX_ASSIGN_OR_RETURN(grad, Unary("reshape", grad, absl::MakeConstSpan(&shape, 1)));
      }
    }
    if (grad.array.spec.dtype != spec.dtype) {
      const AttrValue dtype(spec.dtype);
      CHX_ASSIGN_OR_RETURN(grad, Unary("astype", grad, absl::MakeConstSpan(&dtype, 1)));
    }
    return grad;
  }

  absl::StatusOr<Variable> Unary(absl::string_view op, const Variable& x,
                                 absl::Span<const AttrValue> attrs) {
    const ApplyInput input(&x);
    return Apply1(runtime_, op, absl::MakeConstSpan(&input, 1), attrs, x.array.spec.device, mode_);
  }

  absl::Status Accumulate(ArrayNode* node, const Variable& grad) {
    auto it = grads_.find(node);
    if (it == grads_.end()) {
      order_.emplace_back(node);
      grads_.emplace(node, grad);
      return absl::OkStatus();
    }
    const ApplyInput inputs[] = {ApplyInput(&it->second), ApplyInput(&grad)};
    CHX_ASSIGN_OR_RETURN(it->second, Apply1(runtime_, "add", inputs, {}, node->spec.device, mode_));
    return absl::OkStatus();
  }

  // Takes the outputs' gradients (every op node above has run) and gives the inputs theirs.
  absl::Status Step(OpNode* op_node) {
    OpNode::Edge* edge = op_node->EdgeOf(options_.id);
    absl::InlinedVector<Variable, 1> output_grads(edge->outputs.size());
    bool any = false;
    for (size_t i = 0; i < edge->outputs.size(); ++i) {
      ArrayNode* node = edge->outputs[i];
      auto it = node == nullptr ? grads_.end() : grads_.find(node);
      if (it == grads_.end()) continue;
      any = true;
      output_grads[i] = it->second;
      if (options_.retain_grad) retained_.emplace_back(node, it->second);
      if (!node->grad_required && !kept_.contains(node)) grads_.erase(it);
    }
    if (!any) return absl::OkStatus();
    absl::InlinedVector<bool, 3> wanted;
    for (const Ref<ArrayNode>& input : edge->inputs) wanted.push_back(Wants(input.get()));
    GradientRun run(runtime_, op_node, wanted, output_grads, mode_);
    output_grads.clear();
    op_node->op.gradient(run);
    CHX_RETURN_IF_ERROR(run.status());
    for (size_t i = 0; i < edge->inputs.size(); ++i) {
      ArrayNode* node = edge->inputs[i].get();
      const Variable* grad = node == nullptr ? nullptr : run.input_grad(static_cast<int>(i));
      if (grad == nullptr) continue;
      CHX_ASSIGN_OR_RETURN(Variable reduced, Reduce(*grad, node->spec));
      CHX_RETURN_IF_ERROR(Accumulate(node, reduced));
      Push(node);
    }
    return absl::OkStatus();
  }

  Runtime& runtime_;
  const BackwardOptions options_;
  RecordMode mode_;
  std::priority_queue<Ref<OpNode>, std::vector<Ref<OpNode>>, ByRank> queue_;
  absl::flat_hash_set<OpNode*> seen_;
  absl::flat_hash_map<ArrayNode*, Variable> grads_;
  std::vector<Ref<ArrayNode>> order_;  // all that ever had a gradient; keeps addresses unique
  bool limited_ = false;               // to the op nodes in useful_
  absl::flat_hash_set<const OpNode*> useful_;
  absl::flat_hash_set<const ArrayNode*> kept_;  // gradients outlive the step that consumes them
  std::vector<std::pair<Ref<ArrayNode>, Variable>> retained_;
};

// A gradient that a leaf may own: C-contiguous, sharing memory with nothing.
absl::StatusOr<Variable> Own(Runtime& runtime, Variable grad, const RecordMode& mode) {
  const ArraySpec& spec = grad.array.spec;
  if (spec.is_contiguous() && spec.offset == 0 && grad.array.buffer->unique()) return grad;
  const ApplyInput input(&grad);
  return Apply1(runtime, "copy", absl::MakeConstSpan(&input, 1), {}, spec.device, mode);
}

// node->grad += grad. The old array is written only if nobody else can see it.
absl::Status AddToLeaf(Runtime& runtime, ArrayNode* node, Variable grad, const RecordMode& mode) {
  if (node->grad == nullptr) {
    CHX_ASSIGN_OR_RETURN(Variable own, Own(runtime, std::move(grad), mode));
    node->grad = std::make_unique<Variable>(std::move(own));
    return absl::OkStatus();
  }
  Variable& old = *node->grad;
  const ApplyInput inputs[] = {ApplyInput(&old), ApplyInput(&grad)};
  if (old.nodes.empty() && grad.nodes.empty() && old.array.buffer->unique()) {
    ApplyOutputs none;
    return Apply(runtime, *OpRegistry::Global().Find("add_"), inputs, {}, node->spec.device, mode,
                 &none);
  }
  CHX_ASSIGN_OR_RETURN(Variable sum, Apply1(runtime, "add", inputs, {}, node->spec.device, mode));
  *node->grad = std::move(sum);
  return absl::OkStatus();
}

absl::StatusOr<Variable> Unscale(Runtime& runtime, const Variable& grad, double loss_scale,
                                 const RecordMode& mode) {
  if (loss_scale == 1.0) return grad;
  const ApplyInput inputs[] = {ApplyInput(&grad), ApplyInput(Scalar(loss_scale))};
  return Apply1(runtime, "divide", inputs, {}, grad.array.spec.device, mode);
}

}  // namespace

absl::Status Backward(Runtime& runtime, absl::Span<Variable* const> outputs,
                      const BackwardOptions& options, const RecordMode& mode) {
  Walk walk(runtime, options, mode);
  for (Variable* output : outputs) {
    ArrayNode* const node = output->NodeOf(options.id);
    if (node == nullptr) continue;
    Variable start;
    if (node->grad != nullptr) {
      start = *node->grad;
    } else {
      CHX_ASSIGN_OR_RETURN(start, walk.Full(node->spec, options.loss_scale));
    }
    CHX_RETURN_IF_ERROR(walk.Start(node, std::move(start)));
  }
  CHX_RETURN_IF_ERROR(walk.Run());
  // Only now are leaves touched, so that an error leaves them as they were. An output that started
  // from its own gradient does not add it to itself.
  absl::flat_hash_set<ArrayNode*> started;
  for (Variable* output : outputs) {
    ArrayNode* node = output->NodeOf(options.id);
    if (node != nullptr && node->grad != nullptr) started.insert(node);
  }
  return walk.ForEach([&](ArrayNode* node, Variable* grad) -> absl::Status {
    if (!node->grad_required || node->handles == 0 || started.count(node) != 0) {
      return absl::OkStatus();
    }
    CHX_ASSIGN_OR_RETURN(Variable unscaled,
                         Unscale(runtime, *grad, options.loss_scale, walk.mode()));
    *grad = Variable();  // so that the leaf can own the memory
    return AddToLeaf(runtime, node, std::move(unscaled), walk.mode());
  });
}

absl::StatusOr<std::vector<absl::optional<Variable>>> Grad(Runtime& runtime,
                                                           absl::Span<Variable* const> outputs,
                                                           absl::Span<Variable* const> inputs,
                                                           absl::Span<Variable* const> output_grads,
                                                           const BackwardOptions& options,
                                                           const RecordMode& mode) {
  if (!output_grads.empty() && output_grads.size() != outputs.size()) {
    return GradientError("[grad] expects as many grad_outputs as outputs (", outputs.size(),
                         "), got ", output_grads.size());
  }
  Walk walk(runtime, options, mode);
  const auto nodes_of = [&](absl::Span<Variable* const> variables) {
    std::vector<ArrayNode*> nodes;
    for (Variable* variable : variables) {
      ArrayNode* node = variable->NodeOf(options.id);
      if (node != nullptr) nodes.push_back(node);
    }
    return nodes;
  };
  walk.LimitTo(nodes_of(outputs), nodes_of(inputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    ArrayNode* const node = outputs[i]->NodeOf(options.id);
    if (node == nullptr) continue;
    Variable start;
    if (!output_grads.empty() && output_grads[i] != nullptr) {
      start = *output_grads[i];
      if (start.array.spec.shape != node->spec.shape ||
          start.array.spec.dtype != node->spec.dtype ||
          start.array.spec.device != node->spec.device) {
        return GradientError("[grad] expects a grad_output of ", node->spec.ToString(), ", got ",
                             start.array.spec.ToString());
      }
    } else if (node->grad != nullptr) {
      start = *node->grad;
    } else {
      CHX_ASSIGN_OR_RETURN(start, walk.Full(node->spec, options.loss_scale));
    }
    CHX_RETURN_IF_ERROR(walk.Start(node, std::move(start)));
  }
  CHX_RETURN_IF_ERROR(walk.Run());
  std::vector<absl::optional<Variable>> grads(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    ArrayNode* node = inputs[i]->NodeOf(options.id);
    const Variable* grad = node == nullptr ? nullptr : walk.Find(node);
    if (grad != nullptr) grads[i] = *grad;
  }
  // From here on only results that share memory are shared. Those in a graph may: nobody writes
  // them.
  std::vector<std::pair<Ref<ArrayNode>, Variable>> retained = walk.Finish();
  const auto complete = [&](Variable* grad) -> absl::Status {
    CHX_ASSIGN_OR_RETURN(*grad, Unscale(runtime, *grad, options.loss_scale, walk.mode()));
    const ArraySpec& spec = grad->array.spec;
    if (spec.is_contiguous() && spec.offset == 0 && !grad->nodes.empty()) return absl::OkStatus();
    CHX_ASSIGN_OR_RETURN(*grad, Own(runtime, std::move(*grad), walk.mode()));
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

}  // namespace chx
