#include "ops/op_context.h"

#include "ops/error.h"
#include "ops/registry.h"

namespace chx {
namespace {

Value Binary(absl::string_view op, Value a, Value b) {
  OpContext* context = a.is_array() ? a.context() : b.context();
  return context->Apply(op, {a, b});
}

}  // namespace

Value OpContext::Apply(absl::string_view op, std::initializer_list<Value> inputs,
                       std::initializer_list<NamedAttr> attrs) {
  return Apply(op, absl::MakeConstSpan(inputs.begin(), inputs.size()), attrs);
}

Value OpContext::Apply(absl::string_view op, absl::Span<const Value> inputs,
                       std::initializer_list<NamedAttr> attrs) {
  const OpDef* def = OpRegistry::Global().Find(op);
  if (def == nullptr) {
    Fail(ChainerxError("[", op_.name, "] its rule names an unknown operator '", op, "'"));
    return inputs.empty() ? Value() : inputs[0];
  }
  Attrs values;
  for (const AttrDef& attr : def->attrs) values.push_back(attr.default_value);
  for (const NamedAttr& attr : attrs) {
    const int index = def->AttrIndex(attr.first);
    if (index < 0) {
      Fail(ChainerxError("[", op_.name, "] its rule names an unknown attribute '", attr.first,
                         "' of '", op, "'"));
      return inputs.empty() ? Value() : inputs[0];
    }
    values[index] = attr.second;
  }
  return ApplyOp(*def, inputs, values);
}

// Two scalars make one: x1 of an operator may be one, and x1 * x1 is written for both cases.
Value operator+(Value a, Value b) {
  if (a.is_scalar() && b.is_scalar()) return a.scalar().AsDouble() + b.scalar().AsDouble();
  return Binary("add", a, b);
}
Value operator-(Value a, Value b) {
  if (a.is_scalar() && b.is_scalar()) return a.scalar().AsDouble() - b.scalar().AsDouble();
  return Binary("subtract", a, b);
}
Value operator*(Value a, Value b) {
  if (a.is_scalar() && b.is_scalar()) return a.scalar().AsDouble() * b.scalar().AsDouble();
  return Binary("multiply", a, b);
}
Value operator/(Value a, Value b) {
  if (a.is_scalar() && b.is_scalar()) return a.scalar().AsDouble() / b.scalar().AsDouble();
  return Binary("divide", a, b);
}
Value operator-(Value a) {
  return a.is_scalar() ? Value(-a.scalar().AsDouble()) : a.context()->Apply("negative", {a});
}

}  // namespace chx
