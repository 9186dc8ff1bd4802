// How gradient rules and compositions apply operators, without knowing who runs them: the server
// runs (and records) each one, a test infers shapes only.
#ifndef CHX_OPS_OP_CONTEXT_H_
#define CHX_OPS_OP_CONTEXT_H_

#include <initializer_list>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/array_spec.h"
#include "ops/attr.h"
#include "ops/op_call.h"
#include "ops/op_def.h"
#include "ops/operand.h"

namespace chx {

class OpContext;

// An array of a context, by its number there.
struct ContextArray {
  OpContext* context = nullptr;
  int id = -1;
};

// An operand inside a rule; valid while its context lives.
class Value : public BasicOperand<ContextArray> {
 public:
  Value() = default;
  Value(Scalar scalar) : BasicOperand(scalar) {}   // NOLINT
  Value(int scalar) : Value(Scalar(scalar)) {}     // NOLINT
  Value(double scalar) : Value(Scalar(scalar)) {}  // NOLINT
  Value(OpContext* context, int id) : BasicOperand(ContextArray{context, id}) {}

  // Of an array.
  OpContext* context() const { return array().context; }
  int id() const { return array().id; }
  inline const ArraySpec& spec() const;
  const Shape& shape() const { return spec().shape; }
  Dtype dtype() const { return spec().dtype; }
  int ndim() const { return spec().ndim(); }
};

using NamedAttr = std::pair<absl::string_view, AttrValue>;

class OpContext {
 public:
  virtual ~OpContext() = default;
  // Applies an operator. Attributes not named have their defaults. After an error every further
  // call does nothing and returns a placeholder; the error is kept in status().
  Value Apply(absl::string_view op, std::initializer_list<Value> inputs,
              std::initializer_list<NamedAttr> attrs = {});
  Value Apply(absl::string_view op, absl::Span<const Value> inputs,
              std::initializer_list<NamedAttr> attrs = {});
  // Several outputs: the returned value is the first, the others follow at id() + 1, ...
  virtual Value ApplyOp(const OpDef& op, absl::Span<const Value> inputs, const Attrs& attrs) = 0;
  virtual const ArraySpec& spec(int id) const = 0;

  // The operator whose rule this is, and its attributes.
  const OpDef& op() const { return op_; }
  const AttrValue& attr(int i) const { return attrs_[i]; }
  absl::Span<const AttrValue> attrs() const { return attrs_; }

  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

 protected:
  OpContext(const OpDef& op, absl::Span<const AttrValue> attrs) : op_(op), attrs_(attrs) {}

 private:
  const OpDef& op_;
  const absl::Span<const AttrValue> attrs_;
  absl::Status status_;
};

inline const ArraySpec& Value::spec() const { return context()->spec(id()); }

// A gradient rule's view of the operator application it differentiates. Gradients set may be of a
// broadcast shape and of another float dtype: the caller sums and casts them back.
class GradContext : public OpContext {
 public:
  virtual int num_inputs() const = 0;
  virtual int num_outputs() const = 0;
  // Shape, dtype and strides of any input or output, saved or not. A scalar input has none.
  virtual bool input_is_array(int i) const = 0;
  virtual const ArraySpec& input_spec(int i) const = 0;
  virtual const ArraySpec& output_spec(int i) const = 0;
  // Values, which the operator must name in Saves(). A scalar input needs no naming.
  virtual Value input(int i) = 0;
  virtual Value output(int i) = 0;
  // Absent where nothing depends on that output; with one output it is always there.
  virtual Value output_grad(int i) = 0;
  // Whether the gradient of input i is wanted; a rule may skip it otherwise.
  virtual bool needs_grad(int i) const = 0;
  virtual void SetInputGrad(int i, Value grad) = 0;

 protected:
  using OpContext::OpContext;
};

// A composition's view of the call it carries out.
class ComposeContext : public OpContext {
 public:
  virtual int num_inputs() const = 0;
  virtual Value input(int i) = 0;  // array, scalar or absent
  virtual DeviceId device() const = 0;
  virtual void SetOutput(int i, Value value) = 0;

 protected:
  using OpContext::OpContext;
};

Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
Value operator-(Value a);

}  // namespace chx

#endif  // CHX_OPS_OP_CONTEXT_H_
