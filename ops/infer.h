// Inference: from input specs and attributes to output specs. The same code runs on the client,
// for errors at the caller's line, and on the server, which trusts nobody.
#ifndef CHX_OPS_INFER_H_
#define CHX_OPS_INFER_H_

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/array_spec.h"
#include "ops/error.h"
#include "ops/op_def.h"

namespace chx {

// One input as inference sees it: an array's spec, a scalar, or nothing (an absent optional).
struct InferInput {
  const ArraySpec* array = nullptr;
  bool is_scalar = false;
  Scalar scalar;

  InferInput() = default;
  InferInput(const ArraySpec* spec) : array(spec) {}            // NOLINT
  InferInput(Scalar value) : is_scalar(true), scalar(value) {}  // NOLINT
};

struct InferResult {
  absl::InlinedVector<ArraySpec, 1> outputs;
  // What each array input is cast to before the kernel runs.
  absl::InlinedVector<Dtype, 3> input_dtypes;
  // A view whose strides don't allow it: input 0 is copied to C order first, and the outputs are
  // views of the copy.
  bool copy_first = false;
  bool views = false;  // outputs are views of input 0

  void Clear() {
    outputs.clear();
    input_dtypes.clear();
    copy_first = false;
    views = false;
  }
};

// What a rule (OpDef::infer) reads and writes. Arity, attribute types and devices are checked
// before.
class InferContext {
 public:
  InferContext(const OpDef& op, absl::Span<const InferInput> inputs,
               absl::Span<const AttrValue> attrs, DeviceId device, InferResult* result)
      : op_(op), inputs_(inputs), attrs_(attrs), device_(device), result_(result) {}

  const OpDef& op() const { return op_; }
  const std::string& name() const { return op_.name; }
  DeviceId device() const { return device_; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool has_array(int i) const { return i < num_inputs() && inputs_[i].array != nullptr; }
  bool is_scalar(int i) const { return inputs_[i].is_scalar; }
  const ArraySpec& input(int i) const { return *inputs_[i].array; }
  Scalar scalar(int i) const { return inputs_[i].scalar; }
  const AttrValue& attr(int i) const { return attrs_[i]; }

  // A new C-contiguous array; checks the shape.
  absl::Status AddOutput(Dtype dtype, const Shape& shape);
  // A view of input 0, or of its C-order copy after CopyFirst().
  void AddView(const ArraySpec& spec) {
    result_->outputs.push_back(spec);
    result_->views = true;
  }
  // Makes base() the spec that input 0 has after a copy to C order.
  void CopyFirst();
  const ArraySpec& base() const { return result_->copy_first ? copied_ : input(0); }
  void CastInput(int i, Dtype dtype) { result_->input_dtypes[i] = dtype; }
  void CastInputs(Dtype dtype) {
    for (int i = 0; i < num_inputs(); ++i) CastInput(i, dtype);
  }

 private:
  const OpDef& op_;
  const absl::Span<const InferInput> inputs_;
  const absl::Span<const AttrValue> attrs_;
  const DeviceId device_;
  InferResult* const result_;
  ArraySpec copied_;
};

// Checks the call against the operator's declaration and runs its rule. `device` is where an
// operator without array inputs runs. On error *result is unspecified.
absl::Status InferOp(const OpDef& op, absl::Span<const InferInput> inputs,
                     absl::Span<const AttrValue> attrs, DeviceId device, InferResult* result);

}  // namespace chx

#endif  // CHX_OPS_INFER_H_
