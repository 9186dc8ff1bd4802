// Inference: from input specs and attributes to output specs. The same code runs on the client,
// for errors at the caller's line, and on the server, which trusts nobody.
#ifndef CHX_OPS_INFER_H_
#define CHX_OPS_INFER_H_

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/array_spec.h"
#include "ops/error.h"
#include "ops/op_call.h"
#include "ops/op_def.h"
#include "ops/operand.h"

namespace chx {

// An input as inference sees it.
using SpecOperand = BasicOperand<const ArraySpec*>;

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
  InferContext(const OpCall<SpecOperand>& call, InferResult* result)
      : call_(call), result_(result) {}

  const OpDef& op() const { return call_.op; }
  const std::string& name() const { return op().name; }
  DeviceId device() const { return call_.device; }
  int num_inputs() const { return static_cast<int>(call_.inputs.size()); }
  bool has_array(int i) const { return i < num_inputs() && call_.inputs[i].is_array(); }
  bool is_scalar(int i) const { return call_.inputs[i].is_scalar(); }
  const ArraySpec& input(int i) const { return *call_.inputs[i].array(); }
  Scalar scalar(int i) const { return call_.inputs[i].scalar(); }
  const AttrValue& attr(int i) const { return call_.attrs[i]; }

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
  const OpCall<SpecOperand> call_;
  InferResult* const result_;
  ArraySpec copied_;
};

// Checks the call against the operator's declaration and runs its rule. On error *result is
// unspecified.
absl::Status InferOp(const OpCall<SpecOperand>& call, InferResult* result);

}  // namespace chx

#endif  // CHX_OPS_INFER_H_
