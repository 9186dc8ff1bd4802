#include "server/autograd/rule_context.h"

#include <algorithm>
#include <utility>

#include "ops/error.h"

namespace chx::server {

absl::StatusOr<int> ValueTable::Apply(Runtime& runtime, const OpCall<Value>& call,
                                      const RecordMode& mode) {
  absl::InlinedVector<VariableOperand, 4> inputs;
  for (const Value& value : call.inputs) {
    inputs.push_back(value.As<VariableOperand>([this](ContextArray a) { return &at(a.id); }));
  }
  ApplyOutputs outputs;
  CHX_RETURN_IF_ERROR(
      server::Apply(runtime, {call.op, inputs, call.attrs, call.device}, mode, &outputs));
  const int first = static_cast<int>(variables_.size());
  for (Variable& output : outputs) Add(std::move(output));
  return first;
}

int ValueTable::Placeholder(const OpCall<Value>& call) {
  absl::InlinedVector<SpecOperand, 4> inputs;
  for (const Value& value : call.inputs) {
    inputs.push_back(
        value.As<SpecOperand>([this](ContextArray a) { return &at(a.id).array.spec; }));
  }
  InferResult result;
  const int first = static_cast<int>(variables_.size());
  if (!InferOp({call.op, inputs, call.attrs, call.device}, &result).ok() ||
      result.outputs.empty()) {
    result.outputs.assign(1, ArraySpec());
  }
  for (const ArraySpec& spec : result.outputs) {
    Variable variable;
    variable.array.spec = spec;
    Add(std::move(variable));
  }
  return first;
}

ComposeRun::ComposeRun(Runtime& runtime, const VariableCall& call, const RecordMode& mode)
    : ComposeContext(call.op, call.attrs), runtime_(runtime), device_(call.device), mode_(mode) {
  for (const VariableOperand& input : call.inputs) {
    inputs_.push_back(
        input.As<Value>([this](const Variable* v) { return Value(this, values_.Add(*v)); }));
  }
}

Value ComposeRun::ApplyOp(const OpDef& op, absl::Span<const Value> inputs, const Attrs& attrs) {
  const OpCall<Value> call{op, inputs, attrs, device_};
  if (status().ok()) {
    absl::StatusOr<int> id = values_.Apply(runtime_, call, mode_);
    if (id.ok()) return Value(this, *id);
    Fail(id.status());
  }
  return Value(this, values_.Placeholder(call));
}

void ComposeRun::SetOutput(int i, Value value) {
  if (i >= static_cast<int>(outputs_.size())) outputs_.resize(i + 1);
  outputs_[i] = value;
}

absl::Status ComposeRun::TakeOutputs(const InferResult& inferred, ApplyOutputs* outputs) {
  if (outputs_.size() != inferred.outputs.size()) {
    return ChainerxError("[", op().name, "] its composition made ", outputs_.size(),
                         " outputs instead of ", inferred.outputs.size());
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const ArraySpec& promised = inferred.outputs[i];
    if (!outputs_[i].is_array() || outputs_[i].dtype() != promised.dtype ||
        outputs_[i].shape() != promised.shape) {
      return ChainerxError("[", op().name, "] its composition made ",
                           outputs_[i].is_array() ? outputs_[i].spec().ToString() : "nothing",
                           " instead of ", promised.ToString());
    }
    // A new array was promised, as the client has it: no view, and in C order.
    const Array& made = values_.at(outputs_[i].id()).array;
    const bool aliases = std::any_of(inputs_.begin(), inputs_.end(), [&](const Value& input) {
      return input.is_array() && values_.at(input.id()).array.buffer == made.buffer;
    });
    const bool as_promised =
        made.spec.strides == promised.strides && made.spec.offset == promised.offset;
    Value output = outputs_[i];
    if (!as_promised || (aliases && !inferred.views)) output = Apply("copy", {output});
    CHX_RETURN_IF_ERROR(status());
    outputs->push_back(values_.at(output.id()));
  }
  return absl::OkStatus();
}

GradientRun::GradientRun(Runtime& runtime, OpNode* node, absl::Span<const bool> wanted,
                         absl::Span<const Variable> output_grads, const RecordMode& mode)
    : GradContext(node->op, node->attrs),
      runtime_(runtime),
      node_(node),
      wanted_(wanted),
      mode_(mode),
      input_grads_(node->inputs.size()) {
  for (const Variable& grad : output_grads) {
    output_grads_.push_back(grad.array.valid() ? Value(this, values_.Add(grad)) : Value());
  }
}

Value GradientRun::ApplyOp(const OpDef& op, absl::Span<const Value> inputs, const Attrs& attrs) {
  const OpCall<Value> call{op, inputs, attrs, node_->outputs[0].spec.device};
  if (status().ok()) {
    absl::StatusOr<int> id = values_.Apply(runtime_, call, mode_);
    if (id.ok()) return Value(this, *id);
    Fail(id.status());
  }
  return Value(this, values_.Placeholder(call));
}

Value GradientRun::input(int i) {
  const OpNode::InputRecord& input = node_->inputs[i];
  if (!input.is_array) return Value(input.scalar);
  if (!input.saved) {
    Fail(ChainerxError("[", op().name, "] its gradient uses input ", i, ", which is not saved"));
    Variable placeholder;
    placeholder.array.spec = input.spec;
    return Value(this, values_.Add(std::move(placeholder)));
  }
  return Value(this, values_.Add(input.value));
}

Value GradientRun::output(int i) {
  if (!node_->outputs[i].saved.valid()) {
    Fail(ChainerxError("[", op().name, "] its gradient uses output ", i, ", which is not saved"));
    Variable placeholder;
    placeholder.array.spec = node_->outputs[i].spec;
    return Value(this, values_.Add(std::move(placeholder)));
  }
  return Value(this, values_.Add(node_->OutputValue(i)));
}

}  // namespace chx::server
