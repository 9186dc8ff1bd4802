#include "server/autograd/backward_pass.h"

#include <algorithm>

#include "ops/error.h"
#include "server/autograd/rule_context.h"

namespace chx::server {
namespace {

// What a pass keeps for each gradient: a slot of a table that may be half empty, the address, and
// the copy that is retained.
constexpr auto kGradientBytes = static_cast<int64_t>(4 * sizeof(Variable) + 64);
// And for each op node: slots of two sets, places in lists and in the queue.
constexpr int64_t kOpNodeBytes = 128;

}  // namespace

BackwardPass::BackwardPass(Runtime& runtime, const BackwardOptions& options, const RecordMode& mode)
    : runtime_(runtime), options_(options), mode_(mode) {
  mode_.StopAbove(options.id);
  if (!options.enable_double_backprop) mode_.Set(options.id, false);
}

BackwardPass::~BackwardPass() { runtime_.graph.meter->Release(charged_); }

absl::Status BackwardPass::Charge(int64_t bytes) {
  MemoryMeter& meter = *runtime_.graph.meter;
  if (!meter.TryCharge(bytes)) {
    return MemoryError("[backward] ", meter.Exhausted(bytes).message());
  }
  charged_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<OpNode*>> BackwardPass::Below(absl::Span<ArrayNode* const> outputs) {
  std::vector<OpNode*> ops;
  absl::flat_hash_set<OpNode*> found;
  const auto visit = [&](const ArrayNode* node) {
    OpNode* op = node == nullptr ? nullptr : node->creator.get();
    if (op != nullptr && found.insert(op).second) ops.push_back(op);
  };
  for (ArrayNode* output : outputs) visit(output);
  for (size_t i = 0; i < ops.size(); ++i) {
    CHX_RETURN_IF_ERROR(Charge(kOpNodeBytes));
    for (const Ref<ArrayNode>& input : ops[i]->EdgeOf(options_.id)->inputs) visit(input.get());
  }
  return ops;
}

absl::Status BackwardPass::LimitTo(absl::Span<ArrayNode* const> outputs,
                                   absl::Span<ArrayNode* const> inputs) {
  limited_ = true;
  for (ArrayNode* input : inputs) {
    if (kept_.insert(input).second) kept_refs_.emplace_back(input);
  }
  CHX_ASSIGN_OR_RETURN(std::vector<OpNode*> ops, Below(outputs));
  std::sort(ops.begin(), ops.end(), [](OpNode* a, OpNode* b) { return a->rank < b->rank; });
  for (OpNode* op : ops) {
    const auto& below = op->EdgeOf(options_.id)->inputs;
    if (std::any_of(below.begin(), below.end(),
                    [this](const Ref<ArrayNode>& node) { return Wants(node.get()); })) {
      useful_.insert(op);
      useful_refs_.emplace_back(op);
    }
  }
  return absl::OkStatus();
}

absl::Status BackwardPass::Watch(absl::Span<ArrayNode* const> outputs,
                                 absl::Span<const Ref<ArrayNode>> nodes, GradientSink* sink) {
  sink_ = sink;
  for (size_t i = 0; i < nodes.size(); ++i) watched_.try_emplace(nodes[i].get(), Watched{i});
  CHX_ASSIGN_OR_RETURN(const std::vector<OpNode*> ops, Below(outputs));
  for (OpNode* op : ops) {
    for (const Ref<ArrayNode>& input : op->EdgeOf(options_.id)->inputs) {
      const auto it = watched_.find(input.get());
      if (it != watched_.end()) ++it->second.uses;
    }
  }
  return absl::OkStatus();
}

absl::Status BackwardPass::TellOfInputs(OpNode& op_node) {
  if (sink_ == nullptr) return absl::OkStatus();
  for (const Ref<ArrayNode>& input : op_node.EdgeOf(options_.id)->inputs) {
    const auto it = watched_.find(input.get());
    if (it == watched_.end() || --it->second.uses > 0) continue;
    const Variable* const grad = Find(input.get());
    if (grad != nullptr) CHX_RETURN_IF_ERROR(sink_->Complete(it->second.number, *grad));
  }
  return absl::OkStatus();
}

absl::Status BackwardPass::Start(ArrayNode* node, Variable grad) {
  CHX_RETURN_IF_ERROR(Push(node));
  return Accumulate(node, grad);
}

absl::Status BackwardPass::Run() {
  while (!queue_.empty() && !call_.has_value()) {
    const Ref<OpNode> node = queue_.top();
    queue_.pop();
    CHX_RETURN_IF_ERROR(Step(node));
  }
  return absl::OkStatus();
}

Variable* BackwardPass::Find(ArrayNode* node) {
  auto it = grads_.find(node);
  return it == grads_.end() ? nullptr : &it->second;
}

std::vector<std::pair<Ref<ArrayNode>, Variable>> BackwardPass::Finish() {
  grads_.clear();
  return std::move(retained_);
}

absl::StatusOr<Variable> BackwardPass::Full(const ArraySpec& spec, double value) {
  const AttrValue attrs[] = {AttrValue::FromInts(spec.shape.span()), AttrValue(Scalar(value)),
                             AttrValue(spec.dtype)};
  return Apply1(runtime_, {OpNamed("full"), {}, attrs, spec.device}, mode_);
}

bool BackwardPass::Wants(const ArrayNode* node) const {
  if (node == nullptr || !limited_) return node != nullptr;
  return kept_.contains(node) || (node->creator && useful_.contains(node->creator.get()));
}

absl::Status BackwardPass::Push(ArrayNode* node) {
  if (!node->creator || (limited_ && !useful_.contains(node->creator.get()))) {
    return absl::OkStatus();
  }
  if (!seen_.insert(node->creator.get()).second) return absl::OkStatus();
  queue_.push(node->creator);
  return Charge(kOpNodeBytes);
}

// Sums a gradient over the dimensions that its array was broadcast along, and casts it to the
// array's dtype: the one place where this happens.
absl::StatusOr<Variable> BackwardPass::Reduce(Variable grad, const ArraySpec& spec) {
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

absl::StatusOr<Variable> BackwardPass::Unary(absl::string_view op, const Variable& x,
                                             absl::Span<const AttrValue> attrs) {
  const VariableOperand input(&x);
  return Apply1(runtime_, {OpNamed(op), absl::MakeConstSpan(&input, 1), attrs}, mode_);
}

absl::Status BackwardPass::Accumulate(ArrayNode* node, const Variable& grad) {
  auto it = grads_.find(node);
  if (it == grads_.end()) {
    CHX_RETURN_IF_ERROR(Charge(kGradientBytes));
    order_.emplace_back(node);
    grads_.emplace(node, grad);
    return absl::OkStatus();
  }
  const VariableOperand inputs[] = {VariableOperand(&it->second), VariableOperand(&grad)};
  CHX_ASSIGN_OR_RETURN(it->second, Apply1(runtime_, {OpNamed("add"), inputs, {}}, mode_));
  return absl::OkStatus();
}

absl::StatusOr<bool> BackwardPass::AddToPart(OpNode* op_node, const Variable& output_grad) {
  if (!op_node->op.part_of_input) return false;
  const ArrayNode* const node = op_node->EdgeOf(options_.id)->inputs[0].get();
  const auto it = node == nullptr ? grads_.end() : grads_.find(node);
  if (it == grads_.end()) return false;
  const Variable& whole = it->second;
  const ArraySpec& given = output_grad.array.spec;
  const Buffer& buffer = *whole.array.buffer;
  if (!whole.nodes.empty() || !output_grad.nodes.empty() || !buffer.unique() || buffer.shared() ||
      !whole.array.spec.is_contiguous() || whole.array.spec.shape != node->spec.shape ||
      given.shape != op_node->outputs[0].spec.shape || given.dtype != whole.array.spec.dtype) {
    return false;
  }
  const VariableOperand input(&whole);
  CHX_ASSIGN_OR_RETURN(const Variable part,
                       Apply1(runtime_, {op_node->op, {&input, 1}, op_node->attrs}, mode_));
  const VariableOperand operands[] = {VariableOperand(&part), VariableOperand(&output_grad)};
  ApplyOutputs none;
  CHX_RETURN_IF_ERROR(Apply(runtime_, {OpNamed("add_"), operands, {}}, mode_, &none));
  return true;
}

absl::Status BackwardPass::Propagate(ArrayNode* node, const Variable& grad) {
  CHX_ASSIGN_OR_RETURN(Variable reduced, Reduce(grad, node->spec));
  CHX_RETURN_IF_ERROR(Accumulate(node, reduced));
  return Push(node);
}

// Takes the outputs' gradients (every op node above has run) and gives the inputs theirs.
absl::Status BackwardPass::Step(const Ref<OpNode>& op_node) {
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
  if (any && op_node->function != nullptr) {
    CHX_RETURN_IF_ERROR(Call(op_node, output_grads));
    if (call_.has_value()) return absl::OkStatus();  // Answer has the rest
  } else if (any) {
    CHX_RETURN_IF_ERROR(RunRule(op_node.get(), output_grads));
  }
  return TellOfInputs(*op_node);
}

absl::Status BackwardPass::RunRule(OpNode* op_node, absl::Span<const Variable> output_grads) {
  CHX_ASSIGN_OR_RETURN(const bool added, AddToPart(op_node, output_grads[0]));
  if (added) return absl::OkStatus();
  OpNode::Edge* edge = op_node->EdgeOf(options_.id);
  absl::InlinedVector<bool, 3> wanted;
  for (const Ref<ArrayNode>& input : edge->inputs) wanted.push_back(Wants(input.get()));
  GradientRun run(runtime_, op_node, wanted, output_grads, mode_);
  op_node->op.gradient(run);
  CHX_RETURN_IF_ERROR(run.status());
  for (size_t i = 0; i < edge->inputs.size(); ++i) {
    ArrayNode* node = edge->inputs[i].get();
    const Variable* grad = node == nullptr ? nullptr : run.input_grad(static_cast<int>(i));
    if (grad != nullptr) CHX_RETURN_IF_ERROR(Propagate(node, *grad));
  }
  return absl::OkStatus();
}

// The client takes gradients to be contiguous.
absl::Status BackwardPass::Call(const Ref<OpNode>& op_node,
                                absl::Span<const Variable> output_grads) {
  const OpNode::Edge& edge = *op_node->EdgeOf(options_.id);
  FunctionCall call;
  call.function = op_node->function->number;
  for (size_t i = 0; i < edge.inputs.size(); ++i) {
    if (Wants(edge.inputs[i].get())) call.targets.push_back(static_cast<int>(i));
  }
  if (call.targets.empty()) return absl::OkStatus();
  const size_t arrays = output_grads.size() + op_node->function->retained_inputs.size() +
                        op_node->function->retained_outputs.size();
  CHX_RETURN_IF_ERROR(Charge(static_cast<int64_t>(2 * arrays * sizeof(Variable))));
  for (const Variable& grad : output_grads) {
    call.output_grads.push_back(grad);
    if (!grad.array.valid() || grad.array.spec.is_contiguous()) continue;
    CHX_ASSIGN_OR_RETURN(call.output_grads.back(), Unary("copy", grad, {}));
  }
  for (int i : op_node->function->retained_inputs) {
    call.retained_inputs.push_back(op_node->inputs[i].value);
  }
  for (int i : op_node->function->retained_outputs) {
    Variable value;
    value.array = op_node->outputs[i].saved;
    if (value.array.valid() && IsFloat(value.array.spec.dtype)) value = op_node->OutputValue(i);
    call.retained_outputs.push_back(std::move(value));
  }
  call_ = std::move(call);
  waiting_ = op_node;
  return absl::OkStatus();
}

absl::Status BackwardPass::Answer(absl::Span<const Variable* const> input_grads) {
  const FunctionCall call = *std::exchange(call_, absl::nullopt);
  const Ref<OpNode> op_node = std::move(waiting_);
  if (input_grads.size() != call.targets.size()) {
    return GradientError("[backward] expects ", call.targets.size(),
                         " gradients from the client's function, got ", input_grads.size());
  }
  for (size_t i = 0; i < input_grads.size(); ++i) {
    if (input_grads[i] == nullptr) continue;
    const Ref<ArrayNode> node = op_node->EdgeOf(options_.id)->inputs[call.targets[i]];
    const ArraySpec& spec = input_grads[i]->array.spec;
    if (spec.shape != node->spec.shape || spec.device != node->spec.device) {
      return GradientError("[backward] expects a gradient of ", node->spec.ToString(),
                           " for input ", call.targets[i], " of the client's function, got ",
                           spec.ToString());
    }
    CHX_RETURN_IF_ERROR(Propagate(node.get(), *input_grads[i]));
  }
  return TellOfInputs(*op_node);
}

}  // namespace chx::server
