// The server's implementations of OpContext: rules and compositions that run operators.
#ifndef CHX_SERVER_AUTOGRAD_RULE_CONTEXT_H_
#define CHX_SERVER_AUTOGRAD_RULE_CONTEXT_H_

#include <deque>

#include "ops/op_context.h"
#include "server/autograd/apply.h"

namespace chx::server {

// Values by id, and how one applies an operator to them. Mixed into both contexts.
class ValueTable {
 public:
  int Add(Variable variable) {
    variables_.push_back(std::move(variable));
    return static_cast<int>(variables_.size()) - 1;
  }
  const Variable& at(int id) const { return variables_[id]; }
  // Runs; the id of the first output.
  absl::StatusOr<int> Apply(Runtime& runtime, const OpCall<Value>& call, const RecordMode& mode);
  // After an error the rule runs on to its end: it gets outputs of the right specs without memory.
  int Placeholder(const OpCall<Value>& call);

 private:
  std::deque<Variable> variables_;  // stable addresses
};

class ComposeRun final : public ComposeContext {
 public:
  ComposeRun(Runtime& runtime, const VariableCall& call, const RecordMode& mode);

  Value ApplyOp(const OpDef& op, absl::Span<const Value> inputs, const Attrs& attrs) override;
  const ArraySpec& spec(int id) const override { return values_.at(id).array.spec; }
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  Value input(int i) override { return inputs_[i]; }
  DeviceId device() const override { return device_; }
  void SetOutput(int i, Value value) override;

  // Fails if the rule did not make what inference promised.
  absl::Status TakeOutputs(const InferResult& inferred, ApplyOutputs* outputs);

 private:
  Runtime& runtime_;
  const DeviceId device_;
  const RecordMode& mode_;
  ValueTable values_;
  absl::InlinedVector<Value, 3> inputs_;
  absl::InlinedVector<Value, 1> outputs_;
};

// One application of a gradient rule.
class GradientRun final : public GradContext {
 public:
  // `output_grads` by output; a variable without array: absent. `wanted`: inputs that need theirs.
  GradientRun(Runtime& runtime, OpNode* node, absl::Span<const bool> wanted,
              absl::Span<const Variable> output_grads, const RecordMode& mode);

  Value ApplyOp(const OpDef& op, absl::Span<const Value> inputs, const Attrs& attrs) override;
  const ArraySpec& spec(int id) const override { return values_.at(id).array.spec; }
  int num_inputs() const override { return static_cast<int>(node_->inputs.size()); }
  int num_outputs() const override { return static_cast<int>(node_->outputs.size()); }
  bool input_is_array(int i) const override { return node_->inputs[i].is_array; }
  const ArraySpec& input_spec(int i) const override { return node_->inputs[i].spec; }
  const ArraySpec& output_spec(int i) const override { return node_->outputs[i].spec; }
  Value input(int i) override;
  Value output(int i) override;
  Value output_grad(int i) override { return output_grads_[i]; }
  bool needs_grad(int i) const override { return wanted_[i]; }
  void SetInputGrad(int i, Value grad) override { input_grads_[i] = grad; }

  // What the rule set; null if nothing, or if nobody wants it.
  const Variable* input_grad(int i) const {
    return wanted_[i] && input_grads_[i].is_array() ? &values_.at(input_grads_[i].id()) : nullptr;
  }

 private:
  Runtime& runtime_;
  OpNode* const node_;
  const absl::Span<const bool> wanted_;
  const RecordMode& mode_;
  ValueTable values_;
  absl::InlinedVector<Value, 1> output_grads_;
  absl::InlinedVector<Value, 3> input_grads_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_AUTOGRAD_RULE_CONTEXT_H_
