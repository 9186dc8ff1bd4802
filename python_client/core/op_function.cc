// Operators as Python callables. Names, signatures, defaults and docs are the table's; there is no
// second list.
#include <cstddef>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "python_client/core/common.h"
#include "python_client/core/op_attributes.h"

namespace chx::python {
namespace {

struct OpFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  const OpDef* op;
  PyObject* names;  // tuple of the parameters' interned names
  PyObject* name;
};

int NumParams(const OpDef& op) {
  return static_cast<int>(op.inputs.size() + op.attrs.size() + (op.inputs.empty() ? 1 : 0));
}

// The parameter list, as inspect.signature() reads it.
std::string TextSignature(const OpDef& op) {
  std::vector<std::string> params;
  for (const InputDef& input : op.inputs) {
    params.push_back(absl::StrCat(input.name, input.optional ? "=None" : ""));
  }
  for (const AttrDef& attr : op.attrs) {
    const bool has_default = attr.default_value.has_value();
    std::string value = attr.default_value.ToString();
    if (has_default && !attr.choices.empty()) value = attr.choices[attr.default_value.AsInt()];
    if (attr.default_value.ints().size() == 1) value = absl::StrCat(attr.default_value.ints()[0]);
    const bool word = has_default && (attr.type == AttrType::kDtype || !attr.choices.empty());
    params.push_back(attr.required
                         ? attr.name
                         : absl::StrCat(attr.name, "=", word ? "'" : "", value, word ? "'" : ""));
  }
  if (op.inputs.empty()) params.push_back("device=None");
  return absl::StrCat("(", absl::StrJoin(params, ", "), ")");
}

// Of NumPy's functions, and not of the table (chx/_numpy/keywords.py).
bool IsNumpyKeyword(PyObject* keyword) {
  for (const char* name : {"out", "where", "initial"}) {
    if (PyUnicode_CompareWithASCIIString(keyword, name) == 0) return true;
  }
  return false;
}

// Arguments by parameter; null where none was given. False without an exception for keywords that
// NumPy has and the operator has not.
bool Bind(const OpFunction& self, PyObject* const* args, Py_ssize_t count, PyObject* keywords,
          PyObject** bound) {
  const OpDef& op = *self.op;
  const int num_params = NumParams(op);
  if (count > num_params) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments (%zd given)", op.name.c_str(),
                 num_params, count);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) bound[i] = args[i];
  const Py_ssize_t num_keywords = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t k = 0; k < num_keywords; ++k) {
    PyObject* keyword = PyTuple_GET_ITEM(keywords, k);
    int i = 0;
    while (i < num_params && PyTuple_GET_ITEM(self.names, i) != keyword &&
           PyUnicode_Compare(PyTuple_GET_ITEM(self.names, i), keyword) != 0) {
      ++i;
    }
    if (i == num_params && IsNumpyKeyword(keyword)) return false;
    if (i == num_params || bound[i] != nullptr) {
      PyErr_Format(PyExc_TypeError,
                   i == num_params ? "%s() got an unexpected keyword argument '%U'"
                                   : "%s() got multiple values for argument '%U'",
                   op.name.c_str(), keyword);
      return false;
    }
    bound[i] = args[count + k];
  }
  return true;
}

using Operands = absl::InlinedVector<Operand, 4>;

// `keep` gets what a sequence gave, until after the call: it may be the only reference, and then
// stands for the argument. False without an exception where something is neither an array nor a
// number that the operator takes.
bool ToInput(const OpDef& op, const InputDef& input, PyObject** argument, Operands* operands,
             std::vector<Owned>* keep) {
  PyObject* const object = *argument;
  const bool absent = object == nullptr || (object == Py_None && input.optional);
  if (absent && input.optional) {
    operands->emplace_back();
    return true;
  }
  if (absent) {
    PyErr_Format(PyExc_TypeError, "%s() missing argument '%s'", op.name.c_str(),
                 input.name.c_str());
    return false;
  }
  if (input.variadic) {
    keep->emplace_back(PySequence_Tuple(object));
    if (!keep->back()) return false;
    PyObject* const items = *argument = keep->back().get();
    const Py_ssize_t size = PyTuple_GET_SIZE(items);
    // Of the first list.
    const Py_ssize_t before = op.has_lists() ? PyTuple_GET_SIZE(keep->front().get()) : size;
    if (size != before) {
      Raise(DimensionError("[", op.name, "] expects lists of one length, got ", before, " and ",
                           size, " arrays"));
      return false;
    }
    if (size == 0) {
      Raise(DimensionError("[", op.name, "] expects at least one array"));
      return false;
    }
    const InputDef one{input.name, false, false, false};
    for (Py_ssize_t i = 0; i < size; ++i) {
      PyObject* item = PyTuple_GET_ITEM(items, i);
      if (!ToInput(op, one, &item, operands, nullptr)) return false;
    }
    return true;
  }
  if (IsArray(object)) {
    operands->emplace_back(BodyOf(object));
    return true;
  }
  Scalar scalar;
  if (input.scalar && IsScalar(object)) {
    if (!ToScalar(object, &scalar)) return false;
    operands->emplace_back(scalar);
    return true;
  }
  return false;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline bool ToInputs(const OpDef& op, PyObject** bound,
                                                  Operands* operands, std::vector<Owned>* keep) {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (bound[i] != nullptr && IsArray(bound[i]) && !op.inputs[i].variadic) {
      operands->emplace_back(BodyOf(bound[i]));
    } else if (!ToInput(op, op.inputs[i], &bound[i], operands, keep)) {
      return false;
    }
  }
  return true;
}

// What there is of arrays among the arguments, as a list.
Owned ArraysOf(const OpDef& op, PyObject* const* bound) {
  Owned arrays(PyList_New(0));
  const auto add = [&arrays](PyObject* object) {
    return object == nullptr || !IsArray(object) || PyList_Append(arrays.get(), object) == 0;
  };
  for (size_t i = 0; arrays && i < op.inputs.size(); ++i) {
    bool added = true;
    if (op.inputs[i].variadic && bound[i] != nullptr && PyTuple_Check(bound[i])) {
      for (Py_ssize_t k = 0; added && k < PyTuple_GET_SIZE(bound[i]); ++k) {
        added = add(PyTuple_GET_ITEM(bound[i], k));
      }
    } else {
      added = add(bound[i]);
    }
    if (!added) return Owned();
  }
  return arrays;
}

// The array that stands for one argument of an input: itself if there is no need for another.
Owned WithArray(const OpDef& op, size_t i, PyObject* object, PyObject* arrays) {
  const InputDef& input = op.inputs[i];
  const bool number = input.scalar && IsScalar(object);
  if (IsArray(object) || number || (object == Py_None && input.optional)) {
    return Owned(Py_NewRef(object));
  }
  // Not for what is written: that would be a copy.
  if (PyList_GET_SIZE(arrays) > 0 && !op.WritesInput(i)) {
    Owned array(AsOperand(object, arrays, op));
    if (array.get() != Py_NotImplemented) return array;
  }
  PyErr_Format(PyExc_TypeError, "%s() expects an ndarray%s for '%s', got %s", op.name.c_str(),
               input.scalar ? " or a number" : "", input.name.c_str(), Py_TYPE(object)->tp_name);
  return Owned();
}

// Puts arrays on the device of those that there are in the place of NumPy arrays and lists.
bool WithArrays(const OpDef& op, PyObject** bound, std::vector<Owned>* keep) {
  const Owned arrays = ArraysOf(op, bound);
  if (!arrays) return false;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (bound[i] == nullptr) continue;
    if (!op.inputs[i].variadic) {
      keep->push_back(WithArray(op, i, bound[i], arrays.get()));
      if (!keep->back()) return false;
    } else {
      const Owned items(PySequence_Tuple(bound[i]));
      const Py_ssize_t size = items ? PyTuple_GET_SIZE(items.get()) : 0;
      keep->emplace_back(items ? PyTuple_New(size) : nullptr);
      if (!keep->back()) return false;
      for (Py_ssize_t k = 0; k < size; ++k) {
        Owned item = WithArray(op, i, PyTuple_GET_ITEM(items.get(), k), arrays.get());
        if (!item) return false;
        PyTuple_SET_ITEM(keep->back().get(), k, item.release());
      }
    }
    bound[i] = keep->back().get();
  }
  return true;
}

// a.reshape(2, 3) and a.transpose(1, 0): several ints stand for a tuple of them.
bool GatherInts(const OpDef& op, PyObject* const* args, Py_ssize_t count, Owned* tuple) {
  const auto first = static_cast<Py_ssize_t>(op.inputs.size());
  if (op.attrs.size() != 1 || op.attrs[0].type != AttrType::kInts || count <= first + 1) {
    return false;
  }
  *tuple = Owned(PyTuple_New(count - first));
  for (Py_ssize_t i = first; *tuple && i < count; ++i) {
    PyTuple_SET_ITEM(tuple->get(), i - first, Py_NewRef(args[i]));
  }
  return static_cast<bool>(*tuple);
}

// A number stands for all spatial dimensions, but not a sequence of one number, which the operator
// could not tell from it.
bool FitsSpatial(const OpDef& op, const Operand& x, PyObject* const* given, const Attrs& attrs) {
  if (x.array() == nullptr) return true;
  const int ndim = x.array()->spec.ndim() - 2;
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (!op.attrs[i].spatial || attrs[i].ints().size() != 1 || ndim == 1 || given[i] == nullptr ||
        PySequence_Check(given[i]) == 0) {
      continue;
    }
    Raise(DimensionError("[", op.name, "] expects ", op.attrs[i].name, " to be a number, or ", ndim,
                         " of them, got ", attrs[i].ToString()));
    return false;
  }
  return true;
}

// As a number, 0 and -1 may be axes of an array without dimensions; in a tuple nothing is.
bool FitsNoDimensions(const OpDef& op, const Operand& x, PyObject* const* given,
                      const Attrs& attrs) {
  if (x.array() == nullptr || x.array()->spec.ndim() != 0) return true;
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (attrs[i].type() != AttrType::kInts || op.attrs[i].name != "axis" || given[i] == nullptr ||
        PySequence_Check(given[i]) == 0 || attrs[i].ints().empty()) {
      continue;
    }
    Raise(DimensionError("[", op.name, "] expects an axis in [0, 0), got ", attrs[i].ToString()));
    return false;
  }
  return true;
}

// Indices that are no array of chx become one on the device of input 0, bound in their place.
bool ConvertIndices(const OpDef& op, PyObject** bound, Owned* indices) {
  for (size_t i = 1; i < op.inputs.size(); ++i) {
    if (!op.inputs[i].array_like_indices || bound[0] == nullptr || !IsArray(bound[0]) ||
        bound[i] == nullptr || IsArray(bound[i])) {
      continue;
    }
    const Owned convert(GetCallback(Callback::kAsIndices));
    if (!convert) return false;
    *indices = Owned(PyObject_CallFunctionObjArgs(convert.get(), bound[i], bound[0], nullptr));
    bound[i] = indices->get();
    return static_cast<bool>(*indices);
  }
  return true;
}

// Of an operator of two operands: puts what stands for a traced number in its place.
bool ConvertTraced(const OpDef& op, PyObject** bound, Owned* converted) {
  if (op.inputs.size() != 2 || bound[0] == nullptr || bound[1] == nullptr) return true;
  for (int i : {0, 1}) {
    if (!IsTraced(bound[i]) || !IsArray(bound[1 - i])) continue;
    *converted = OfTraced(bound[i], bound[1 - i], op);
    bound[i] = converted->get();
    return static_cast<bool>(*converted);
  }
  return true;
}

// After ToInputs has failed: with an exception, or because of what is neither array nor number.
ABSL_ATTRIBUTE_NOINLINE bool ToInputsAgain(const OpDef& op, PyObject** bound, Operands* operands,
                                           std::vector<Owned>* keep) {
  if (PyErr_Occurred() != nullptr || !WithArrays(op, bound, keep)) return false;
  operands->clear();
  return ToInputs(op, bound, operands, keep);
}

// call_with_keywords(function, args, kwargs)
ABSL_ATTRIBUTE_NOINLINE PyObject* CallWithKeywords(PyObject* function, PyObject* const* args,
                                                   Py_ssize_t count, PyObject* keywords) {
  const Owned call(GetCallback(Callback::kCallWithKeywords));
  const Owned positional(PyTuple_New(count));
  const Owned named(PyDict_New());
  if (!call || !positional || !named) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i) {
    if (PyDict_SetItem(named.get(), PyTuple_GET_ITEM(keywords, i), args[count + i]) < 0) {
      return nullptr;
    }
  }
  return PyObject_CallFunctionObjArgs(call.get(), function, positional.get(), named.get(), nullptr);
}

PyObject* Vectorcall(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* keywords) {
  const auto& self = *reinterpret_cast<OpFunction*>(callable);
  const OpDef& op = *self.op;
  Py_ssize_t count = PyVectorcall_NARGS(nargsf);
  absl::InlinedVector<PyObject*, 8> bound(static_cast<size_t>(NumParams(op)), nullptr);
  Owned tuple;
  absl::InlinedVector<PyObject*, 8> gathered;
  if (keywords == nullptr && GatherInts(op, args, count, &tuple)) {
    gathered.assign(args, args + op.inputs.size());
    gathered.push_back(tuple.get());
    args = gathered.data();
    count = static_cast<Py_ssize_t>(gathered.size());
  }
  if (!Bind(self, args, count, keywords, bound.data())) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    return CallWithKeywords(callable, args, count, keywords);
  }
  Owned indices, traced;
  if (!ConvertIndices(op, bound.data(), &indices) || !ConvertTraced(op, bound.data(), &traced)) {
    return nullptr;
  }
  Operands operands;
  std::vector<Owned> keep;
  if (!ToInputs(op, bound.data(), &operands, &keep) &&
      !ToInputsAgain(op, bound.data(), &operands, &keep)) {
    return nullptr;
  }
  Attrs attrs(op.attrs.size());
  for (size_t i = 0; i < op.attrs.size(); ++i) {
    if (!ToAttr(op, op.attrs[i], bound[op.inputs.size() + i], &attrs[i])) return nullptr;
  }
  PyObject* const* const given = bound.data() + op.inputs.size();
  if (!operands.empty() && (!FitsSpatial(op, operands[0], given, attrs) ||
                            !FitsNoDimensions(op, operands[0], given, attrs))) {
    return nullptr;
  }
  Target target;
  Session* session = nullptr;
  DeviceId device = 0;
  for (const Operand& operand : operands) {
    if (operand.array() == nullptr) continue;
    session = operand.array()->session.get();
    device = operand.array()->spec.device;
    if (op.IsIdentity(operand.array()->spec, attrs)) return Py_NewRef(bound[0]);
    break;
  }
  if (session == nullptr) {
    if (!op.inputs.empty()) {
      return Raise(TypeError("[", op.name, "] expects at least one array"));
    }
    if (!ToTarget(bound.back(), &target)) return nullptr;
    session = target.session;
    device = target.device;
  }
  // Indices that came from here are refused here.
  const bool confirm = indices && op.MayRefuseIndices(attrs);
  return Call(session, op, operands, attrs, device, confirm);
}

// As a method, input 0 is bound.
PyObject* DescrGet(PyObject* self, PyObject* object, PyObject*) {
  return object == nullptr ? Py_NewRef(self) : PyMethod_New(self, object);
}

PyObject* OpRepr(PyObject* self) {
  return PyUnicode_FromFormat("<operator chx.%U>", reinterpret_cast<OpFunction*>(self)->name);
}

PyObject* OpGetName(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<OpFunction*>(self)->name);
}
PyObject* GetDoc(PyObject* self, void*) {
  return PyUnicode_FromString(reinterpret_cast<OpFunction*>(self)->op->doc.c_str());
}
PyObject* GetTextSignature(PyObject* self, void*) {
  return PyUnicode_FromString(TextSignature(*reinterpret_cast<OpFunction*>(self)->op).c_str());
}
PyObject* GetSignature(PyObject* self, void*) {
  const Owned text(GetTextSignature(self, nullptr));
  const Owned make(GetCallback(Callback::kSignature));
  return make && text ? PyObject_CallOneArg(make.get(), text.get()) : nullptr;
}

PyGetSetDef op_getset[] = {{"__name__", OpGetName, nullptr, nullptr, nullptr},
                           {"__qualname__", OpGetName, nullptr, nullptr, nullptr},
                           {"__doc__", GetDoc, nullptr, nullptr, nullptr},
                           {"__text_signature__", GetTextSignature, nullptr, nullptr, nullptr},
                           {"__signature__", GetSignature, nullptr, nullptr, nullptr},
                           {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject op_function_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "chx.OpFunction";
  type.tp_basicsize = sizeof(OpFunction);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
  type.tp_vectorcall_offset = offsetof(OpFunction, vectorcall);
  type.tp_call = PyVectorcall_Call;
  type.tp_descr_get = DescrGet;
  type.tp_repr = OpRepr;
  type.tp_getset = op_getset;
  return type;
}();

PyObject* NewOpFunction(const OpDef& op) {
  auto* self = PyObject_New(OpFunction, &op_function_type);
  if (self == nullptr) return nullptr;
  self->vectorcall = Vectorcall;
  self->op = &op;
  self->name = PyUnicode_InternFromString(op.name.c_str());
  self->names = PyTuple_New(NumParams(op));
  Py_ssize_t i = 0;
  const auto add = [&](const std::string& name) {
    PyTuple_SET_ITEM(self->names, i++, PyUnicode_InternFromString(name.c_str()));
  };
  for (const InputDef& input : op.inputs) add(input.name);
  for (const AttrDef& attr : op.attrs) add(attr.name);
  if (op.inputs.empty()) add("device");
  return reinterpret_cast<PyObject*>(self);
}

}  // namespace

bool InitOpFunctions(PyObject* module) {
  if (PyType_Ready(&op_function_type) < 0) return false;
  const Owned names(PyList_New(0));
  const Owned all_ops(PyList_New(0));         // with the internal ones
  const Owned differentiable(PyList_New(0));  // these two are for the completeness tests
  const Owned modules(PyDict_New());          // of submodules: name -> function
  const auto append = [](const Owned& list, const std::string& name) {
    const Owned text(PyUnicode_FromString(name.c_str()));
    return text && PyList_Append(list.get(), text.get()) == 0;
  };
  for (const auto& op : OpRegistry::Global().ops()) {
    const Owned function(NewOpFunction(*op));
    if (!function) return false;
    if (!append(all_ops, op->name)) return false;
    if (op->differentiable() && !append(differentiable, op->name)) return false;
    std::vector<std::string> all = op->aliases;
    all.push_back(op->name);
    for (const std::string& name : all) {
      if (op->method &&
          PyDict_SetItemString(array_type.tp_dict, name.c_str(), function.get()) < 0) {
        return false;
      }
      if (op->internal) continue;
      if (!op->module.empty()) {
        // Held apart: its names need not be unlike those at the top.
        if (PyDict_GetItemString(modules.get(), op->module.c_str()) == nullptr) {
          const Owned functions(PyDict_New());
          if (!functions ||
              PyDict_SetItemString(modules.get(), op->module.c_str(), functions.get()) < 0) {
            return false;
          }
        }
        PyObject* const functions = PyDict_GetItemString(modules.get(), op->module.c_str());
        if (PyDict_SetItemString(functions, name.c_str(), function.get()) < 0) return false;
        continue;
      }
      if (PyModule_AddObjectRef(module, name.c_str(), function.get()) < 0 || !append(names, name)) {
        return false;
      }
    }
  }
  PyType_Modified(&array_type);
  return PyModule_AddObjectRef(module, "_operators", names.get()) == 0 &&
         PyModule_AddObjectRef(module, "_all_operators", all_ops.get()) == 0 &&
         PyModule_AddObjectRef(module, "_submodules", modules.get()) == 0 &&
         PyModule_AddObjectRef(module, "_differentiable_operators", differentiable.get()) == 0;
}

}  // namespace chx::python
