// Operators of ndarray: type slots, for which a call costs tens of nanoseconds.
#include "python_client/core/common.h"

namespace chx::python {

const OpDef& Op(absl::string_view name) { return *OpRegistry::Global().Find(name); }

PyObject* Call(Session* session, const OpDef& op, absl::Span<const Operand> inputs,
               absl::Span<const AttrValue> attrs, DeviceId device) {
  SetCallerLocation();
  ArrayPtrs outputs;
  bool flush_due = false;
  absl::Status status = session->Apply(op, inputs, attrs, device, &outputs, &flush_due);
  if (status.ok() && flush_due) {
    const WithoutGil nogil;
    status = session->Flush();
  }
  if (!status.ok()) return Raise(status);
  if (op.in_place) Py_RETURN_NONE;
  if (!op.variadic_outputs) return Wrap(std::move(outputs[0]));
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(outputs.size()));
  for (size_t i = 0; list != nullptr && i < outputs.size(); ++i) {
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), Wrap(std::move(outputs[i])));
  }
  return list;
}

namespace {

// 1: an operand; 0: some other type; -1: an exception.
int ToOperand(PyObject* object, Operand* operand) {
  if (IsArray(object)) {
    *operand = Operand(BodyOf(object));
    return 1;
  }
  if (!IsScalar(object)) return 0;
  Scalar scalar;
  if (!ToScalar(object, &scalar)) return -1;
  *operand = Operand(scalar);
  return 1;
}

PyObject* Binary(const OpDef& op, PyObject* a, PyObject* b) {
  Operand inputs[2];
  const int first = ToOperand(a, &inputs[0]);
  const int second = first == 1 ? ToOperand(b, &inputs[1]) : 0;
  if (first < 0 || second < 0) return nullptr;
  if (first == 0 || second == 0) Py_RETURN_NOTIMPLEMENTED;
  const ArrayBody& array = *BodyOf(IsArray(a) ? a : b);
  return Call(array.session.get(), op, inputs, {}, array.spec.device);
}

PyObject* InPlace(const OpDef& op, PyObject* a, PyObject* b) {
  PyObject* result = Binary(op, a, b);
  if (result == nullptr || result == Py_NotImplemented) return result;
  Py_DECREF(result);
  return Py_NewRef(a);
}

PyObject* Unary(const OpDef& op, PyObject* a) {
  const Operand input(BodyOf(a));
  return Call(BodyOf(a)->session.get(), op, absl::MakeConstSpan(&input, 1), {}, 0);
}

PyObject* Add(PyObject* a, PyObject* b) {
  static const OpDef& op = Op("add");
  return Binary(op, a, b);
}
PyObject* Subtract(PyObject* a, PyObject* b) {
  static const OpDef& op = Op("subtract");
  return Binary(op, a, b);
}
PyObject* Multiply(PyObject* a, PyObject* b) {
  static const OpDef& op = Op("multiply");
  return Binary(op, a, b);
}
PyObject* TrueDivide(PyObject* a, PyObject* b) {
  static const OpDef& op = Op("divide");
  return Binary(op, a, b);
}
PyObject* FloorDivide(PyObject* a, PyObject* b) {
  static const OpDef& op = Op("floor_divide");
  return Binary(op, a, b);
}
PyObject* Remainder(PyObject* a, PyObject* b) {
  static const OpDef& op = Op("remainder");
  return Binary(op, a, b);
}
PyObject* Power(PyObject* a, PyObject* b, PyObject* modulus) {
  static const OpDef& op = Op("power");
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return Binary(op, a, b);
}
PyObject* Matmul(PyObject* a, PyObject* b) {
  static const OpDef& op = Op("matmul");
  if (!IsArray(a) || !IsArray(b)) Py_RETURN_NOTIMPLEMENTED;
  return Binary(op, a, b);
}
PyObject* Negative(PyObject* a) { return Unary(Op("negative"), a); }
PyObject* Absolute(PyObject* a) { return Unary(Op("abs"), a); }
PyObject* AddInPlace(PyObject* a, PyObject* b) {
  static const OpDef& op = Op("add_");
  return InPlace(op, a, b);
}
PyObject* SubtractInPlace(PyObject* a, PyObject* b) {
  static const OpDef& op = Op("subtract_");
  return InPlace(op, a, b);
}
PyObject* MultiplyInPlace(PyObject* a, PyObject* b) {
  static const OpDef& op = Op("multiply_");
  return InPlace(op, a, b);
}
PyObject* DivideInPlace(PyObject* a, PyObject* b) { return InPlace(Op("divide_"), a, b); }
PyObject* FloorDivideInPlace(PyObject* a, PyObject* b) {
  return InPlace(Op("floor_divide_"), a, b);
}
PyObject* RemainderInPlace(PyObject* a, PyObject* b) { return InPlace(Op("remainder_"), a, b); }

// The one element as a Python number; waits for it.
PyObject* Item(PyObject* self) {
  const ArrayBody& body = *BodyOf(self);
  if (body.spec.size() != 1) {
    return Raise(DimensionError("[item] expects an array of one element, got shape ",
                                body.spec.shape.ToString()));
  }
  char data[8];
  absl::Status status;
  {
    const WithoutGil nogil;
    status = body.session->Fetch(body, data, static_cast<size_t>(body.spec.item_size()));
  }
  return status.ok() ? FromScalarBytes(data, body.spec.dtype) : Raise(status);
}

int Bool(PyObject* self) {
  const Owned item(Item(self));
  return item ? PyObject_IsTrue(item.get()) : -1;
}
PyObject* Int(PyObject* self) {
  const Owned item(Item(self));
  return item ? PyNumber_Long(item.get()) : nullptr;
}
PyObject* Float(PyObject* self) {
  const Owned item(Item(self));
  return item ? PyNumber_Float(item.get()) : nullptr;
}

}  // namespace

PyObject* RichCompare(PyObject* a, PyObject* b, int comparison) {
  // In the order of Py_LT, LE, EQ, NE, GT, GE.
  static const OpDef* const ops[] = {&Op("less"),      &Op("less_equal"), &Op("equal"),
                                     &Op("not_equal"), &Op("greater"),    &Op("greater_equal")};
  // Not a matter of identity, as it would be if Python had the last word.
  if (b == Py_None) return Raise(ChainerxError("Cannot create an array from null."));
  return Binary(*ops[comparison], a, b);
}

PyNumberMethods array_as_number = [] {
  PyNumberMethods slots = {};
  slots.nb_add = Add;
  slots.nb_subtract = Subtract;
  slots.nb_multiply = Multiply;
  slots.nb_true_divide = TrueDivide;
  slots.nb_floor_divide = FloorDivide;
  slots.nb_remainder = Remainder;
  slots.nb_power = Power;
  slots.nb_matrix_multiply = Matmul;
  slots.nb_negative = Negative;
  slots.nb_absolute = Absolute;
  slots.nb_bool = Bool;
  slots.nb_int = Int;
  slots.nb_float = Float;
  slots.nb_inplace_add = AddInPlace;
  slots.nb_inplace_subtract = SubtractInPlace;
  slots.nb_inplace_multiply = MultiplyInPlace;
  slots.nb_inplace_true_divide = DivideInPlace;
  slots.nb_inplace_floor_divide = FloorDivideInPlace;
  slots.nb_inplace_remainder = RemainderInPlace;
  return slots;
}();

PyObject* ItemOf(PyObject* self) { return Item(self); }

}  // namespace chx::python
