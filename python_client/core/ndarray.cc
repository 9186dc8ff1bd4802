// The ndarray type. All but the values is answered here, without the network.
#include <cstddef>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "client/modes.h"
#include "python_client/core/common.h"

namespace chx::python {

PyObject* ItemOf(PyObject* self);  // numeric.cc

namespace {

// Objects come and go with every operator: some are kept.
constexpr int kMaxFree = 512;
PyArray* free_list[kMaxFree];
int num_free = 0;

PyObject* NewObject() {
  if (num_free > 0) {
    PyArray* self = free_list[--num_free];
    return PyObject_Init(reinterpret_cast<PyObject*>(self), &array_type);
  }
  return PyObject_New(PyObject, &array_type);
}

void ArrayDealloc(PyObject* object) {
  auto* self = reinterpret_cast<PyArray*>(object);
  // Before weakref callbacks, which may wrap the same body again.
  self->body->binding = nullptr;
  if (self->weakrefs != nullptr) PyObject_ClearWeakRefs(object);
  self->body->Unref();
  PyObject* const session = self->session;
  if (num_free < kMaxFree) {
    free_list[num_free++] = self;
  } else {
    PyObject_Free(self);
  }
  Py_DECREF(session);  // maybe its end, which lets other threads run
}

// ndarray(shape, dtype, device=None): an array of unspecified values.
PyObject* ArrayNew(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  const Owned create(GetCallback(Callback::kNewNdarray));
  return create ? PyObject_Call(create.get(), args, kwargs) : nullptr;
}

PyObject* ArrayRepr(PyObject* self) {
  const Owned repr(GetCallback(Callback::kReprArray));
  return repr ? PyObject_CallOneArg(repr.get(), self) : nullptr;
}

const ArraySpec& Spec(PyObject* self) { return BodyOf(self)->spec; }

PyObject* GetShape(PyObject* self, void*) { return FromDims(Spec(self).shape); }
PyObject* GetStrides(PyObject* self, void*) { return FromDims(Spec(self).strides); }
PyObject* GetDtype(PyObject* self, void*) { return FromDtype(Spec(self).dtype); }
PyObject* GetNdim(PyObject* self, void*) { return PyLong_FromLong(Spec(self).ndim()); }
PyObject* GetSize(PyObject* self, void*) { return PyLong_FromLongLong(Spec(self).size()); }
PyObject* GetNbytes(PyObject* self, void*) { return PyLong_FromLongLong(Spec(self).nbytes()); }
PyObject* GetItemsize(PyObject* self, void*) { return PyLong_FromLongLong(Spec(self).item_size()); }
PyObject* GetOffset(PyObject* self, void*) { return PyLong_FromLongLong(Spec(self).offset); }
PyObject* GetDataPtr(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(BodyOf(self)->storage);
}
// From the first byte that some element has to the last.
PyObject* GetDataSize(PyObject* self, void*) {
  const ArraySpec& spec = Spec(self);
  int64_t bytes = spec.size() == 0 ? 0 : spec.item_size();
  for (int i = 0; i < spec.ndim() && bytes > 0; ++i) {
    bytes += (spec.shape[i] - 1) * std::abs(spec.strides[i]);
  }
  return PyLong_FromLongLong(bytes);
}
PyObject* GetContiguous(PyObject* self, void*) {
  return PyBool_FromLong(Spec(self).is_contiguous());
}
PyObject* GetDevice(PyObject* self, void*) { return DeviceOf(self); }
PyObject* GetPriority(PyObject*, void*) { return PyFloat_FromDouble(100.0); }

PyObject* GetTransposed(PyObject* self, void*) {
  const Operand input(BodyOf(self));
  const AttrValue none;
  return Call(BodyOf(self)->session.get(), Op("transpose"), absl::MakeConstSpan(&input, 1),
              absl::MakeConstSpan(&none, 1), 0);
}

PyObject* GetGradOf(PyObject* self, BackpropId id) {
  ArrayBody* body = BodyOf(self);
  absl::StatusOr<ArrayPtr> grad = body->session->gradients().GetGrad(body, id);
  if (!grad.ok()) return Raise(grad.status(), body->session.get());
  if (!*grad) Py_RETURN_NONE;
  return Wrap(*std::move(grad));
}

int SetGradOf(PyObject* self, PyObject* grad, BackpropId id) {
  Owned converted;
  if (grad != nullptr && grad != Py_None && !IsArray(grad) && !IsScalar(grad)) {
    const Owned arrays(PyTuple_Pack(1, self));
    converted = Owned(arrays ? AsOperand(grad, arrays.get(), Op("copy")) : nullptr);
    if (!converted) return -1;
    if (converted.get() != Py_NotImplemented) grad = converted.get();
  }
  if (grad != nullptr && grad != Py_None && !IsArray(grad)) {
    PyErr_Format(PyExc_TypeError, "expected an ndarray or None, got %s", Py_TYPE(grad)->tp_name);
    return -1;
  }
  ArrayBody* body = BodyOf(self);
  const bool clear = grad == nullptr || grad == Py_None;
  const absl::Status status =
      body->session->gradients().SetGrad(body, clear ? ArrayPtr() : ArrayPtr(BodyOf(grad)), id);
  if (status.ok()) return 0;
  Raise(status, body->session.get());
  return -1;
}

PyObject* GetGrad(PyObject* self, void*) { return GetGradOf(self, 0); }
int SetGrad(PyObject* self, PyObject* value, void*) { return SetGradOf(self, value, 0); }

// One optional argument, backprop_id.
bool ParseId(PyObject* args, PyObject* kwargs, BackpropId* id) {
  static const char* const kNames[] = {"backprop_id", nullptr};
  PyObject* object = nullptr;
  return PyArg_ParseTupleAndKeywords(args, kwargs, "|O", const_cast<char**>(kNames), &object) &&
         ToBackpropId(object, id);
}

PyObject* RequireGrad(PyObject* self, PyObject* args, PyObject* kwargs) {
  BackpropId id = 0;
  if (!ParseId(args, kwargs, &id)) return nullptr;
  const absl::Status status = BodyOf(self)->session->gradients().RequireGrad(BodyOf(self), id);
  return status.ok() ? Py_NewRef(self) : Raise(status, BodyOf(self)->session.get());
}

PyObject* FromBool(PyObject* self, const absl::StatusOr<bool>& value) {
  return value.ok() ? PyBool_FromLong(*value) : Raise(value.status(), BodyOf(self)->session.get());
}

PyObject* IsGradRequired(PyObject* self, PyObject* args, PyObject* kwargs) {
  BackpropId id = 0;
  if (!ParseId(args, kwargs, &id)) return nullptr;
  return FromBool(self, BodyOf(self)->session->graphs().IsGradRequired(BodyOf(self), id));
}

// With anygraph: in any of them.
PyObject* IsBackpropRequired(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const kNames[] = {"backprop_id", nullptr};
  PyObject* object = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", const_cast<char**>(kNames), &object)) {
    return nullptr;
  }
  absl::optional<BackpropId> id;
  if (object == nullptr || PyObject_HasAttrString(object, "_any_graph") == 0) {
    id = 0;
    if (!ToBackpropId(object, &*id)) return nullptr;
  }
  return FromBool(self, BodyOf(self)->session->graphs().IsBackpropRequired(BodyOf(self), id));
}

PyObject* Unchain(PyObject* self, PyObject* args, PyObject* kwargs) {
  BackpropId id = 0;
  if (!ParseId(args, kwargs, &id)) return nullptr;
  const absl::Status status = BodyOf(self)->session->graphs().Unchain(BodyOf(self), id);
  if (!status.ok()) return Raise(status, BodyOf(self)->session.get());
  Py_RETURN_NONE;
}

PyObject* IsChained(PyObject* self, PyObject* args, PyObject* kwargs) {
  BackpropId id = 0;
  if (!ParseId(args, kwargs, &id)) return nullptr;
  return FromBool(self, BodyOf(self)->session->graphs().IsChained(BodyOf(self), id));
}

PyObject* DumpGraph(PyObject* self, PyObject* args, PyObject* kwargs) {
  BackpropId id = 0;
  if (!ParseId(args, kwargs, &id)) return nullptr;
  const absl::StatusOr<std::string> text = BodyOf(self)->session->graphs().Dump(BodyOf(self), id);
  if (!text.ok()) return Raise(text.status(), BodyOf(self)->session.get());
  const Owned object(
      PyUnicode_DecodeUTF8(text->data(), static_cast<Py_ssize_t>(text->size()), "replace"));
  PyObject* const out = PySys_GetObject("stdout");
  if (!object || out == nullptr || PyFile_WriteObject(object.get(), out, Py_PRINT_RAW) < 0) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* GetGradMethod(PyObject* self, PyObject* args, PyObject* kwargs) {
  BackpropId id = 0;
  return ParseId(args, kwargs, &id) ? GetGradOf(self, id) : nullptr;
}

PyObject* SetGradMethod(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const kNames[] = {"grad", "backprop_id", nullptr};
  PyObject* grad = nullptr;
  PyObject* object = nullptr;
  BackpropId id = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", const_cast<char**>(kNames), &grad,
                                   &object) ||
      !ToBackpropId(object, &id) || SetGradOf(self, grad, id) < 0) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* ClearGrad(PyObject* self, PyObject* args, PyObject* kwargs) {
  BackpropId id = 0;
  if (!ParseId(args, kwargs, &id) || SetGradOf(self, nullptr, id) < 0) return nullptr;
  Py_RETURN_NONE;
}

PyObject* AsType(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const kNames[] = {"dtype", "copy", nullptr};
  PyObject* object = nullptr;
  int copy = 1;
  Dtype dtype;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p", const_cast<char**>(kNames), &object,
                                   &copy) ||
      !ToDtype(object, &dtype)) {
    return nullptr;
  }
  if (copy == 0 && dtype == Spec(self).dtype) return Py_NewRef(self);
  const Operand input(BodyOf(self));
  const AttrValue attr(dtype);
  return Call(BodyOf(self)->session.get(), Op("astype"), absl::MakeConstSpan(&input, 1),
              absl::MakeConstSpan(&attr, 1), 0);
}

// to_device(device) or to_device(backend_name, index). The array API standard has a keyword for a
// stream; there are none here.
PyObject* ToDeviceMethod(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const kNames[] = {"stream", nullptr};
  const Owned none(PyTuple_New(0));
  PyObject* stream = nullptr;
  if (!none ||
      (kwargs != nullptr && !PyArg_ParseTupleAndKeywords(none.get(), kwargs, "|O:to_device",
                                                         const_cast<char**>(kNames), &stream))) {
    return nullptr;
  }
  if (stream != nullptr && stream != Py_None) {
    PyErr_SetString(PyExc_ValueError, "[to_device] expects stream=None: there are no streams");
    return nullptr;
  }
  PyObject* argument = nullptr;
  const char* backend = nullptr;
  int index = 0;
  Owned name;
  if (PyTuple_GET_SIZE(args) == 2) {
    if (!PyArg_ParseTuple(args, "si", &backend, &index)) return nullptr;
    name = Owned(PyUnicode_FromFormat("%s:%d", backend, index));
    argument = name.get();
  } else if (!PyArg_ParseTuple(args, "O", &argument)) {
    return nullptr;
  }
  if (argument == nullptr) return nullptr;
  Target target;
  target.session = BodyOf(self)->session.get();
  // A name is one of the array's own session, whatever the default one is.
  if (PyUnicode_Check(argument) ? !FindDevice(*target.session, argument, &target.device)
                                : !ToTarget(argument, &target)) {
    return nullptr;
  }
  if (target.session != BodyOf(self)->session.get()) {
    return Raise(
        MakeError(ErrorKind::kContext, "[to_device] expects a device of the array's own session"));
  }
  const Operand input(BodyOf(self));
  const AttrValue attr(int64_t{target.device});
  return Call(target.session, Op("to_device"), absl::MakeConstSpan(&input, 1),
              absl::MakeConstSpan(&attr, 1), 0);
}

PyObject* Flatten(PyObject* self, PyObject*) {
  const Operand input(BodyOf(self));
  const Owned copy(
      Call(BodyOf(self)->session.get(), Op("copy"), absl::MakeConstSpan(&input, 1), {}, 0));
  if (!copy) return nullptr;
  const Operand copied(BodyOf(copy.get()));
  return Call(BodyOf(self)->session.get(), Op("ravel"), absl::MakeConstSpan(&copied, 1), {}, 0);
}

PyObject* Item(PyObject* self, PyObject*) { return ItemOf(self); }

PyObject* ToList(PyObject* self, PyObject*) {
  const Owned convert(GetCallback(Callback::kToNumpy));
  const Owned array(convert ? PyObject_CallOneArg(convert.get(), self) : nullptr);
  return array ? PyObject_CallMethod(array.get(), "tolist", nullptr) : nullptr;
}

// Calls callback(self, *args, **kwargs).
PyObject* Delegate(Callback callback, PyObject* self, PyObject* args, PyObject* kwargs) {
  const Owned function(GetCallback(callback));
  if (!function) return nullptr;
  const Py_ssize_t size = PyTuple_GET_SIZE(args);
  const Owned all(PyTuple_New(size + 1));
  if (!all) return nullptr;
  PyTuple_SET_ITEM(all.get(), 0, Py_NewRef(self));
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyTuple_SET_ITEM(all.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
  }
  return PyObject_Call(function.get(), all.get(), kwargs);
}

PyObject* AsGradStopped(PyObject* self, PyObject* args, PyObject* kwargs) {
  return Delegate(Callback::kAsGradStopped, self, args, kwargs);
}

PyObject* BackwardMethod(PyObject* self, PyObject* args, PyObject* kwargs) {
  return Delegate(Callback::kBackward, self, args, kwargs);
}

template <typename Fn>
PyCFunction AsCFunction(Fn fn) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(fn));
}

// As Python 3.12 has it for all types: the view is of the memory that __buffer__ shows.
int ArrayGetBuffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  // Whoever wants neither shape nor format takes elements for what they aren't, as
  // torch.asarray() does.
  if ((flags & PyBUF_ND) == 0 && (Spec(self).ndim() > 1 || Spec(self).item_size() > 1)) {
    PyErr_SetString(PyExc_BufferError,
                    "[buffer] expects a request for the array's shape: memoryview(a), a.tobytes(), "
                    "numpy.asarray(a) and DLPack make one");
    return -1;
  }
  const Owned shown(PyObject_CallMethod(self, "__buffer__", "i", flags));
  return shown ? PyObject_GetBuffer(shown.get(), view, flags) : -1;
}
PyBufferProcs array_as_buffer = {ArrayGetBuffer, nullptr};

// _add_array_attribute(name, value): a method that is written in Python.
PyObject* AddArrayAttribute(PyObject*, PyObject* args) {
  PyObject *name = nullptr, *value = nullptr;
  if (!PyArg_ParseTuple(args, "UO", &name, &value) ||
      PyDict_SetItem(array_type.tp_dict, name, value) < 0) {
    return nullptr;
  }
  PyType_Modified(&array_type);
  Py_RETURN_NONE;
}

PyMethodDef array_functions[] = {{"_add_array_attribute", AddArrayAttribute, METH_VARARGS, nullptr},
                                 {nullptr, nullptr, 0, nullptr}};

}  // namespace

Owned WriteTarget(PyObject* array) {
  const ArrayBody& body = *BodyOf(array);
  const GraphMirror& graphs = body.session->graphs();
  bool stopped = false;
  for (const GraphMembership& membership : body.memberships) {
    const BackpropId id = membership.node->id;
    if (!graphs.backprop_ids().IsOpen(id)) continue;
    if (CurrentMode().Records(body.session.get(), id) || membership.node->creator) {
      return Owned(Py_NewRef(array));
    }
    stopped = true;
  }
  if (!stopped) return Owned(Py_NewRef(array));
  const Owned stop(GetCallback(Callback::kAsGradStopped));
  return Owned(stop ? PyObject_CallOneArg(stop.get(), array) : nullptr);
}

PyObject* Wrap(ArrayPtr body) {
  if (body->binding != nullptr) return Py_NewRef(static_cast<PyObject*>(body->binding));
  auto* const session = static_cast<PyObject*>(body->session->binding);
  if (session == nullptr) {
    return Raise(MakeError(ErrorKind::kConnection, "the session of the array is gone"));
  }
  auto* self = reinterpret_cast<PyArray*>(NewObject());
  if (self == nullptr) return nullptr;
  body->AddRef();
  self->body = body.get();
  self->session = Py_NewRef(session);
  self->weakrefs = nullptr;
  body->binding = self;
  return reinterpret_cast<PyObject*>(self);
}

PyGetSetDef array_getset[] = {
    {"shape", GetShape, nullptr, "Dimensions, as a tuple of ints.", nullptr},
    {"strides", GetStrides, nullptr, "Bytes to the next element of each dimension.", nullptr},
    {"dtype", GetDtype, nullptr, "The elements' type, a numpy.dtype.", nullptr},
    {"device", GetDevice, nullptr, "Where the array is; always the same object.", nullptr},
    {"ndim", GetNdim, nullptr, "Number of dimensions.", nullptr},
    {"size", GetSize, nullptr, "Number of elements.", nullptr},
    {"nbytes", GetNbytes, nullptr, "Bytes of all elements.", nullptr},
    {"itemsize", GetItemsize, nullptr, "Bytes of an element.", nullptr},
    {"offset", GetOffset, nullptr, "Bytes from the storage's start to the first element.", nullptr},
    {"data_ptr", GetDataPtr, nullptr,
     "A number of the memory within the session, the same for views of one another. No address: "
     "the memory is the daemon's.",
     nullptr},
    {"data_size", GetDataSize, nullptr, "Bytes from the first element to the last.", nullptr},
    {"_debug_data_memory_address", GetDataPtr, nullptr, "As data_ptr.", nullptr},
    {"is_contiguous", GetContiguous, nullptr, "Whether elements are in C order.", nullptr},
    {"T", GetTransposed, nullptr, "The array with its axes reversed, a view.", nullptr},
    {"grad", GetGrad, SetGrad, "The gradient in the default graph, or None.", nullptr},
    {"__array_priority__", GetPriority, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef array_methods[] = {
    {"item", Item, METH_NOARGS, "item()\n--\n\nThe only element as a Python number; waits for it."},
    {"tolist", ToList, METH_NOARGS, "tolist()\n--\n\nNested lists of Python numbers; waits."},
    {"astype", AsCFunction(AsType), METH_VARARGS | METH_KEYWORDS,
     "astype($self, dtype, copy=True)\n--\n\nThe array cast to a dtype; itself if it has it and "
     "copy is False."},
    {"flatten", Flatten, METH_NOARGS, "flatten()\n--\n\nA copy in one dimension."},
    {"to_device", AsCFunction(ToDeviceMethod), METH_VARARGS | METH_KEYWORDS,
     "to_device($self, device, index=None, /, *, stream=None)\n--\n\n"
     "The array on another device of its session, which is a Device, a name, or a backend's name "
     "and an index."},
    {"require_grad", AsCFunction(RequireGrad), METH_VARARGS | METH_KEYWORDS,
     "require_grad($self, backprop_id=None)\n--\n\nMakes the array a leaf whose gradient backward "
     "computes; returns itself. DtypeError unless it is a float array."},
    {"is_grad_required", AsCFunction(IsGradRequired), METH_VARARGS | METH_KEYWORDS,
     "is_grad_required($self, backprop_id=None)\n--\n\nWhether require_grad was called."},
    {"is_backprop_required", AsCFunction(IsBackpropRequired), METH_VARARGS | METH_KEYWORDS,
     "is_backprop_required($self, backprop_id=None)\n--\n\nWhether operators on the array are "
     "recorded, in the current mode: in one graph, or, with anygraph, in any."},
    {"get_grad", AsCFunction(GetGradMethod), METH_VARARGS | METH_KEYWORDS,
     "get_grad($self, backprop_id=None)\n--\n\nThe gradient, or None. ChainerxError unless the "
     "array requires it."},
    {"set_grad", AsCFunction(SetGradMethod), METH_VARARGS | METH_KEYWORDS,
     "set_grad($self, grad, backprop_id=None)\n--\n\nSets the gradient: shape, dtype and device "
     "must be the array's (GradientError). The array requires a gradient from then on."},
    {"cleargrad", AsCFunction(ClearGrad), METH_VARARGS | METH_KEYWORDS,
     "cleargrad($self, backprop_id=None)\n--\n\nRemoves the gradient."},
    {"as_grad_stopped", AsCFunction(AsGradStopped), METH_VARARGS | METH_KEYWORDS,
     "as_grad_stopped($self, backprop_ids=None, copy=False)\n--\n\nThe same memory, or a copy, "
     "outside of the graphs."},
    {"unchain", AsCFunction(Unchain), METH_VARARGS | METH_KEYWORDS,
     "unchain($self, backprop_id=None)\n--\n\nForgets how the array was made: it becomes a leaf "
     "of the graph, and what only it kept of the graph is freed."},
    {"_is_chained", AsCFunction(IsChained), METH_VARARGS | METH_KEYWORDS,
     "_is_chained($self, backprop_id=None)\n--\n\nWhether the graph knows how the array was made."},
    {"_debug_dump_computational_graph", AsCFunction(DumpGraph), METH_VARARGS | METH_KEYWORDS,
     "_debug_dump_computational_graph($self, backprop_id=None)\n--\n\nPrints the daemon's graph "
     "below the array, a line for each node; waits."},
    {"backward", AsCFunction(BackwardMethod), METH_VARARGS | METH_KEYWORDS,
     "backward($self, backprop_id=None, enable_double_backprop=False, loss_scale=None)\n--\n\n"
     "Adds gradients to all leaves that this array depends on."},
    {nullptr, nullptr, 0, nullptr}};

// By indices, as a list's.
PyObject* Iterate(PyObject* self) {
  if (BodyOf(self)->spec.ndim() > 0) return PySeqIter_New(self);
  return Raise(TypeError("[iter] expects an array with dimensions, got shape ()"));
}

PyTypeObject array_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "chx.ndarray";
  type.tp_doc =
      "ndarray(shape, dtype, device=None)\n--\n\nAn n-dimensional array in a chxd daemon.";
  type.tp_basicsize = sizeof(PyArray);
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_dealloc = ArrayDealloc;
  type.tp_new = ArrayNew;
  type.tp_repr = ArrayRepr;
  type.tp_richcompare = RichCompare;
  type.tp_hash = PyObject_HashNotImplemented;
  type.tp_iter = Iterate;
  type.tp_weaklistoffset = offsetof(PyArray, weakrefs);
  type.tp_as_number = &array_as_number;
  type.tp_as_mapping = &array_as_mapping;
  type.tp_as_sequence = &array_as_sequence;
  type.tp_as_buffer = &array_as_buffer;
  type.tp_getset = array_getset;
  type.tp_methods = array_methods;
  return type;
}();

bool InitArrayType(PyObject* module) {
  return PyType_Ready(&array_type) == 0 && PyModule_AddFunctions(module, array_functions) == 0 &&
         PyModule_AddObjectRef(module, "ndarray", reinterpret_cast<PyObject*>(&array_type)) == 0;
}

}  // namespace chx::python
