// Operators of ndarray: type slots, for which a call costs tens of nanoseconds.
#include "absl/base/attributes.h"
#include "python_client/core/common.h"

namespace chx::python {

const OpDef& Op(absl::string_view name) { return *OpRegistry::Global().Find(name); }

PyObject* Call(Session* session, const OpDef& op, absl::Span<const Operand> inputs,
               absl::Span<const AttrValue> attrs, DeviceId device, bool confirm) {
  SetCallerLocation();
  ArrayPtrs outputs;
  bool flush_due = false;
  absl::Status status = session->Apply({op, inputs, attrs, device}, &outputs, &flush_due);
  if (status.ok() && (confirm || op.IsChecked(attrs)) && !outputs.empty()) {
    const WithoutGil nogil;
    status = session->Confirm(*outputs[0]);
  } else if (status.ok() && flush_due) {
    const WithoutGil nogil;
    status = session->FlushDue();
  }
  if (!status.ok()) return Raise(status, session);
  if (op.in_place) Py_RETURN_NONE;
  const bool tuple = op.tuple || !op.variadic_outputs;
  if (tuple && outputs.size() == 1) return Wrap(std::move(outputs[0]));
  if (tuple) {
    PyObject* result = PyTuple_New(static_cast<Py_ssize_t>(outputs.size()));
    for (size_t i = 0; result != nullptr && i < outputs.size(); ++i) {
      PyTuple_SET_ITEM(result, static_cast<Py_ssize_t>(i), Wrap(std::move(outputs[i])));
    }
    return result;
  }
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(outputs.size()));
  for (size_t i = 0; list != nullptr && i < outputs.size(); ++i) {
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), Wrap(std::move(outputs[i])));
  }
  return list;
}

PyObject* AsOperand(PyObject* object, PyObject* arrays, const OpDef& op) {
  const Owned convert(GetCallback(Callback::kAsOperand));
  const Owned name(
      PyUnicode_FromStringAndSize(op.name.data(), static_cast<Py_ssize_t>(op.name.size())));
  if (!convert || !name) return nullptr;
  Owned result(PyObject_CallFunctionObjArgs(convert.get(), object, arrays, name.get(), nullptr));
  if (result && result.get() != Py_NotImplemented && !IsArray(result.get())) {
    PyErr_SetString(PyExc_TypeError, "as_operand() must return an ndarray or NotImplemented");
    return nullptr;
  }
  return result.release();
}

Owned OfTraced(PyObject* number, PyObject* array, const OpDef& op) {
  return Owned(PyObject_CallMethod(number, "_operand", "Os", array, op.name.c_str()));
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

// Of an array and what is not one: a NumPy array, a list, or, for an operator of arrays, a number.
ABSL_ATTRIBUTE_NOINLINE PyObject* BinaryOfOther(const OpDef& op, PyObject* a, PyObject* b) {
  const bool first = IsArray(a);
  const Owned arrays(PyTuple_Pack(1, first ? a : b));
  const Owned other(arrays ? AsOperand(first ? b : a, arrays.get(), op) : nullptr);
  if (!other || other.get() == Py_NotImplemented) return Py_XNewRef(other.get());
  const Operand inputs[] = {Operand(BodyOf(first ? a : other.get())),
                            Operand(BodyOf(first ? other.get() : b))};
  const ArrayBody& array = *BodyOf(first ? a : b);
  return Call(array.session.get(), op, inputs, {}, array.spec.device);
}

PyObject* Binary(const OpDef& op, PyObject* a, PyObject* b);

ABSL_ATTRIBUTE_NOINLINE PyObject* BinaryOfTraced(const OpDef& op, PyObject* a, PyObject* b) {
  const bool first = IsTraced(a);
  const Owned other = first ? OfTraced(a, b, op) : OfTraced(b, a, op);
  if (!other) return nullptr;
  return Binary(op, first ? other.get() : a, first ? b : other.get());
}

PyObject* Binary(const OpDef& op, PyObject* a, PyObject* b) {
  if (IsTraced(a) || IsTraced(b)) return BinaryOfTraced(op, a, b);
  Operand inputs[2];
  const int first = ToOperand(a, &inputs[0]);
  const int second = first == 1 ? ToOperand(b, &inputs[1]) : 0;
  if (first < 0 || second < 0) return nullptr;
  if (first == 0 || second == 0) return BinaryOfOther(op, a, b);
  const ArrayBody& array = *BodyOf(IsArray(a) ? a : b);
  return Call(array.session.get(), op, inputs, {}, array.spec.device);
}

PyObject* InPlace(const OpDef& op, PyObject* a, PyObject* b) {
  Owned target;  // unlike a where a is in a graph
  if (!BodyOf(a)->memberships.empty()) {
    target = WriteTarget(a);
    if (!target) return nullptr;
  }
  PyObject* result = Binary(op, target ? target.get() : a, b);
  if (result == nullptr || result == Py_NotImplemented) return result;
  Py_DECREF(result);
  return Py_NewRef(a);
}

PyObject* Unary(const OpDef& op, PyObject* a) {
  const Operand input(BodyOf(a));
  return Call(BodyOf(a)->session.get(), op, absl::MakeConstSpan(&input, 1), {}, 0);
}

// Slots by the operator's name; it is looked up once.
template <const char* kName>
PyObject* BinarySlot(PyObject* a, PyObject* b) {
  static const OpDef& op = Op(kName);
  return Binary(op, a, b);
}
template <const char* kName>
PyObject* InPlaceSlot(PyObject* a, PyObject* b) {
  static const OpDef& op = Op(kName);
  return InPlace(op, a, b);
}
template <const char* kName>
PyObject* UnarySlot(PyObject* a) {
  static const OpDef& op = Op(kName);
  return Unary(op, a);
}

#define CHX_OP_NAME(op) constexpr char k_##op[] = #op;
CHX_OP_NAME(abs)
CHX_OP_NAME(add)
CHX_OP_NAME(add_)
CHX_OP_NAME(bitwise_and)
CHX_OP_NAME(bitwise_and_)
CHX_OP_NAME(bitwise_or)
CHX_OP_NAME(bitwise_or_)
CHX_OP_NAME(bitwise_xor)
CHX_OP_NAME(bitwise_xor_)
CHX_OP_NAME(copy)
CHX_OP_NAME(divide)
CHX_OP_NAME(divide_)
CHX_OP_NAME(floor_divide)
CHX_OP_NAME(floor_divide_)
CHX_OP_NAME(invert)
CHX_OP_NAME(left_shift)
CHX_OP_NAME(left_shift_)
CHX_OP_NAME(multiply)
CHX_OP_NAME(multiply_)
CHX_OP_NAME(negative)
CHX_OP_NAME(remainder)
CHX_OP_NAME(remainder_)
CHX_OP_NAME(right_shift)
CHX_OP_NAME(right_shift_)
CHX_OP_NAME(subtract)
CHX_OP_NAME(subtract_)
#undef CHX_OP_NAME

PyObject* Power(PyObject* a, PyObject* b, PyObject* modulus) {
  static const OpDef& op = Op("power");
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return Binary(op, a, b);
}
PyObject* Matmul(PyObject* a, PyObject* b) {
  static const OpDef& op = Op("matmul");
  return IsArray(a) && IsArray(b) ? Binary(op, a, b) : BinaryOfOther(op, a, b);
}

// a OP= b for operators without an in-place form: the result is written into a. Arrays in a graph
// are not written: as in ChainerX, which lacks these, the name gets the new array.
PyObject* WriteInto(PyObject* a, PyObject* result) {
  const Owned owned(result);
  if (result == nullptr || result == Py_NotImplemented) return Py_XNewRef(result);
  const absl::StatusOr<bool> recorded =
      BodyOf(a)->session->graphs().IsBackpropRequired(BodyOf(result), absl::nullopt);
  if (!recorded.ok()) return Raise(recorded.status(), BodyOf(a)->session.get());
  if (*recorded) return Py_NewRef(result);
  const ArraySpec &to = BodyOf(a)->spec, &from = BodyOf(result)->spec;
  if (to.shape != from.shape) {
    return Raise(DimensionError("[in-place operator] expects a result of shape ",
                                to.shape.ToString(), ", got ", from.shape.ToString()));
  }
  if (to.dtype != from.dtype) {
    return Raise(DtypeError("[in-place operator] expects a result of dtype ", DtypeName(to.dtype),
                            ", got ", DtypeName(from.dtype)));
  }
  static const OpDef& op = Op("copyto");
  const Owned target = WriteTarget(a);
  if (!target) return nullptr;
  const Operand operands[] = {Operand(BodyOf(target.get())), Operand(BodyOf(result))};
  const Owned done(Call(BodyOf(a)->session.get(), op, operands, {}, 0));
  return done ? Py_NewRef(a) : nullptr;
}
PyObject* InPlacePower(PyObject* a, PyObject* b, PyObject* modulus) {
  return WriteInto(a, Power(a, b, modulus));
}
PyObject* InPlaceMatmul(PyObject* a, PyObject* b) { return WriteInto(a, Matmul(a, b)); }

PyObject* DivMod(PyObject* a, PyObject* b) {
  const Owned quotient(BinarySlot<k_floor_divide>(a, b));
  if (!quotient || quotient.get() == Py_NotImplemented) return Py_XNewRef(quotient.get());
  const Owned remainder(BinarySlot<k_remainder>(a, b));
  return remainder ? PyTuple_Pack(2, quotient.get(), remainder.get()) : nullptr;
}

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
  return status.ok() ? FromScalarBytes(data, body.spec.dtype) : Raise(status, body.session.get());
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
// Only what is an integer without doubt; waits for it.
PyObject* Index(PyObject* self) {
  const ArraySpec& spec = BodyOf(self)->spec;
  if (spec.ndim() == 0 && IsInt(spec.dtype)) return Item(self);
  PyErr_Format(PyExc_TypeError, "[index] expects an integer array of shape (), got %s of shape %s",
               std::string(DtypeName(spec.dtype)).c_str(), spec.shape.ToString().c_str());
  return nullptr;
}

// What a comparison with None gives, as in NumPy; Python would compare identities.
ABSL_ATTRIBUTE_NOINLINE PyObject* EveryElement(const ArrayBody& array, bool value) {
  const Shape& shape = array.spec.shape;
  const AttrValue attrs[] = {AttrValue(Ints(shape.begin(), shape.end())), AttrValue(Scalar(value)),
                             AttrValue(Dtype::kBool)};
  return Call(array.session.get(), Op("full"), {}, attrs, array.spec.device);
}

}  // namespace

PyObject* RichCompare(PyObject* a, PyObject* b, int comparison) {
  // In the order of Py_LT, LE, EQ, NE, GT, GE.
  static const OpDef* const ops[] = {&Op("less"),      &Op("less_equal"), &Op("equal"),
                                     &Op("not_equal"), &Op("greater"),    &Op("greater_equal")};
  if (b == Py_None && (comparison == Py_EQ || comparison == Py_NE)) {
    return EveryElement(*BodyOf(a), comparison == Py_NE);
  }
  return Binary(*ops[comparison], a, b);
}

PyNumberMethods array_as_number = [] {
  PyNumberMethods slots = {};
  slots.nb_add = BinarySlot<k_add>;
  slots.nb_subtract = BinarySlot<k_subtract>;
  slots.nb_multiply = BinarySlot<k_multiply>;
  slots.nb_true_divide = BinarySlot<k_divide>;
  slots.nb_floor_divide = BinarySlot<k_floor_divide>;
  slots.nb_remainder = BinarySlot<k_remainder>;
  slots.nb_divmod = DivMod;
  slots.nb_power = Power;
  slots.nb_matrix_multiply = Matmul;
  slots.nb_and = BinarySlot<k_bitwise_and>;
  slots.nb_or = BinarySlot<k_bitwise_or>;
  slots.nb_xor = BinarySlot<k_bitwise_xor>;
  slots.nb_lshift = BinarySlot<k_left_shift>;
  slots.nb_rshift = BinarySlot<k_right_shift>;
  slots.nb_negative = UnarySlot<k_negative>;
  slots.nb_positive = UnarySlot<k_copy>;
  slots.nb_absolute = UnarySlot<k_abs>;
  slots.nb_invert = UnarySlot<k_invert>;
  slots.nb_bool = Bool;
  slots.nb_int = Int;
  slots.nb_float = Float;
  slots.nb_index = Index;
  slots.nb_inplace_add = InPlaceSlot<k_add_>;
  slots.nb_inplace_subtract = InPlaceSlot<k_subtract_>;
  slots.nb_inplace_multiply = InPlaceSlot<k_multiply_>;
  slots.nb_inplace_true_divide = InPlaceSlot<k_divide_>;
  slots.nb_inplace_floor_divide = InPlaceSlot<k_floor_divide_>;
  slots.nb_inplace_remainder = InPlaceSlot<k_remainder_>;
  slots.nb_inplace_power = InPlacePower;
  slots.nb_inplace_matrix_multiply = InPlaceMatmul;
  slots.nb_inplace_and = InPlaceSlot<k_bitwise_and_>;
  slots.nb_inplace_or = InPlaceSlot<k_bitwise_or_>;
  slots.nb_inplace_xor = InPlaceSlot<k_bitwise_xor_>;
  slots.nb_inplace_lshift = InPlaceSlot<k_left_shift_>;
  slots.nb_inplace_rshift = InPlaceSlot<k_right_shift_>;
  return slots;
}();

PyObject* ItemOf(PyObject* self) { return Item(self); }

}  // namespace chx::python
