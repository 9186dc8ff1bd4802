// Rules and compositions without kernels: every operator they apply is only inferred. For tests of
// the operator table.
#ifndef CHX_OPS_TESTING_SHAPE_ONLY_H_
#define CHX_OPS_TESTING_SHAPE_ONLY_H_

#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "ops/infer.h"
#include "ops/op_context.h"

namespace chx {

// One argument by value: an array's spec, a scalar, or nothing.
struct Argument {
  absl::optional<ArraySpec> array;
  absl::optional<Scalar> scalar;

  Argument() = default;
  Argument(const ArraySpec& spec) : array(spec) {}  // NOLINT
  Argument(Scalar value) : scalar(value) {}         // NOLINT
};

// One application of an operator.
struct Call {
  const OpDef* op = nullptr;
  std::vector<Argument> inputs;
  Attrs attrs;

  // "take(float32(2, 3), int64(4,), 1, None)".
  std::string ToString() const;
};

absl::Status Infer(const Call& call, InferResult* result);

// What a rule did: the operators it applied, each with its arguments.
using Trace = std::vector<Call>;

// Arrays by id, and how one infers an operator on them. Part of both contexts.
class SpecTable {
 public:
  int Add(const ArraySpec& spec) {
    specs_.push_back(spec);
    return static_cast<int>(specs_.size()) - 1;
  }
  const ArraySpec& at(int id) const { return specs_[id]; }
  // The id of the first output; on error that of a placeholder, as on the server.
  int Apply(const OpDef& op, absl::Span<const Value> inputs, const Attrs& attrs, Trace* trace,
            absl::Status* status);

 private:
  std::deque<ArraySpec> specs_;
};

// Runs a gradient rule. Not thread-safe; `call` must outlive it.
class ShapeOnlyGradContext final : public GradContext {
 public:
  // `output_grads`: which outputs have a gradient; `needs`: which inputs want one (bit masks).
  ShapeOnlyGradContext(const Call& call, const InferResult& inferred,
                       uint64_t output_grads = ~uint64_t{0}, uint64_t needs = ~uint64_t{0});

  Value ApplyOp(const OpDef& op, absl::Span<const Value> inputs, const Attrs& attrs) override;
  const ArraySpec& spec(int id) const override { return specs_.at(id); }
  int num_inputs() const override { return static_cast<int>(call_.inputs.size()); }
  int num_outputs() const override { return static_cast<int>(outputs_.size()); }
  bool input_is_array(int i) const override { return call_.inputs[i].array.has_value(); }
  const ArraySpec& input_spec(int i) const override { return *call_.inputs[i].array; }
  const ArraySpec& output_spec(int i) const override { return outputs_[i]; }
  Value input(int i) override;
  Value output(int i) override;
  Value output_grad(int i) override;
  bool needs_grad(int i) const override;
  void SetInputGrad(int i, Value grad) override { input_grads_[i] = grad; }

  // Null if the rule set none.
  const ArraySpec* input_grad(int i) const {
    return input_grads_[i].is_array() ? &spec(input_grads_[i].id()) : nullptr;
  }
  // As OpDef::saved_inputs and saved_outputs: what the rule read.
  uint32_t touched_inputs() const { return touched_inputs_; }
  uint32_t touched_outputs() const { return touched_outputs_; }
  const Trace& trace() const { return trace_; }

 private:
  const Call& call_;
  const uint64_t grads_;
  const uint64_t needs_;
  std::vector<ArraySpec> outputs_;
  std::vector<Value> output_grads_;
  std::vector<Value> input_grads_;
  SpecTable specs_;
  Trace trace_;
  uint32_t touched_inputs_ = 0;
  uint32_t touched_outputs_ = 0;
};

// Runs a composition. Not thread-safe; `call` must outlive it.
class ShapeOnlyComposeContext final : public ComposeContext {
 public:
  explicit ShapeOnlyComposeContext(const Call& call);

  Value ApplyOp(const OpDef& op, absl::Span<const Value> inputs, const Attrs& attrs) override;
  const ArraySpec& spec(int id) const override { return specs_.at(id); }
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  Value input(int i) override { return inputs_[i]; }
  DeviceId device() const override { return 0; }
  void SetOutput(int i, Value value) override;

  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  // Null if the composition did not set it.
  const ArraySpec* output(int i) const {
    return outputs_[i].is_array() ? &spec(outputs_[i].id()) : nullptr;
  }
  const Trace& trace() const { return trace_; }

 private:
  std::vector<Value> inputs_;
  std::vector<Value> outputs_;
  SpecTable specs_;
  Trace trace_;
};

// Everything that must hold of one call that inference accepts: outputs are sound, views stay
// inside their base, a composition makes what was inferred, and a gradient rule runs, reads only
// what is saved and sets gradients that can be summed to its inputs' shapes. With depth > 1 the
// same of the operators that these apply. "" or what is wrong. `touched` gathers what was read.
struct Touched {
  uint32_t inputs = 0;
  uint32_t outputs = 0;
};
std::string CheckCall(const Call& call, const InferResult& inferred, int depth,
                      Touched* touched = nullptr);

}  // namespace chx

#endif  // CHX_OPS_TESTING_SHAPE_ONLY_H_
