// backward, grad, modes, bulk data and random numbers, as the package calls them.
#include "client/modes.h"
#include "client/waiting.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

// Some output of a backward pass has to be in its graph.
bool CheckInGraph(absl::Span<ArrayBody* const> outputs, BackpropId id) {
  Session* const session = outputs[0]->session.get();
  absl::Status status = session->graphs().backprop_ids().CheckOpen(id);
  for (size_t i = 0; status.ok() && i < outputs.size(); ++i) {
    status = outputs[i]->session->graphs().Resolve(outputs[i]);
    if (status.ok() && outputs[i]->MembershipIn(id) != nullptr) return true;
  }
  if (status.ok()) {
    status = ChainerxError("[backward] expects an array in the graph of backprop ID '",
                           session->graphs().backprop_ids().Name(id),
                           "', got none: no input of it called require_grad() there");
  }
  Raise(status, session);
  return false;
}

// _backward(outputs, backprop_id, enable_double_backprop, loss_scale)
PyObject* Backward(PyObject*, PyObject* args) {
  PyObject *outputs = nullptr, *id = nullptr;
  int enable_double = 0;
  BackwardArgs options;
  Arrays arrays;
  if (!PyArg_ParseTuple(args, "OOpd", &outputs, &id, &enable_double, &options.loss_scale) ||
      !ToBackpropId(id, &options.id) || !ToArrays(outputs, false, &arrays)) {
    return nullptr;
  }
  const std::vector<ArrayBody*>& bodies = arrays.bodies;
  if (bodies.empty()) Py_RETURN_NONE;
  options.enable_double_backprop = enable_double != 0;
  if (!CheckInGraph(bodies, options.id)) return nullptr;
  SetCallerLocation();
  // The mirror of the graph is the GIL's; only sending is not.
  bool flush_due = false;
  absl::Status status = bodies[0]->session->gradients().Backward(bodies, options, &flush_due);
  if (status.ok() && flush_due) {
    const WithoutGil nogil;
    status = bodies[0]->session->FlushDue();
  }
  if (!status.ok()) return RaiseFromBackward(status, bodies[0]->session.get());
  Py_RETURN_NONE;
}

// _grad(outputs, inputs, grad_outputs, backprop_id, enable_double_backprop, loss_scale,
// retain_grad)
PyObject* Grad(PyObject*, PyObject* args) {
  PyObject *outputs = nullptr, *inputs = nullptr, *output_grads = nullptr, *id = nullptr;
  int enable_double = 0;
  int retain_grad = 0;
  BackwardArgs options;
  Arrays output_arrays, input_arrays, grad_arrays;
  if (!PyArg_ParseTuple(args, "OOOOpdp", &outputs, &inputs, &output_grads, &id, &enable_double,
                        &options.loss_scale, &retain_grad) ||
      !ToBackpropId(id, &options.id) || !ToArrays(outputs, false, &output_arrays) ||
      !ToArrays(inputs, false, &input_arrays) || !ToArrays(output_grads, true, &grad_arrays)) {
    return nullptr;
  }
  const std::vector<ArrayBody*>& output_bodies = output_arrays.bodies;
  const std::vector<ArrayBody*>& input_bodies = input_arrays.bodies;
  options.enable_double_backprop = enable_double != 0;
  options.retain_grad = retain_grad != 0;
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(input_bodies.size()));
  if (output_bodies.empty() || list == nullptr) {
    for (size_t i = 0; list != nullptr && i < input_bodies.size(); ++i) {
      PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), Py_NewRef(Py_None));
    }
    return list;
  }
  SetCallerLocation();
  absl::StatusOr<std::vector<ArrayPtr>> grads = output_bodies[0]->session->gradients().Grad(
      output_bodies, input_bodies, grad_arrays.bodies, options);
  if (!grads.ok()) {
    Py_DECREF(list);
    return RaiseFromBackward(grads.status(), output_bodies[0]->session.get());
  }
  for (size_t i = 0; i < grads->size(); ++i) {
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i),
                    (*grads)[i] ? Wrap(std::move((*grads)[i])) : Py_NewRef(Py_None));
  }
  return list;
}

// _push_mode(record, backprop_ids, session): for some graphs, or, without ids, for those of a
// session, or, without that either, for all.
PyObject* Push(PyObject*, PyObject* args) {
  int record = 0;
  PyObject *ids = nullptr, *session = nullptr;
  if (!PyArg_ParseTuple(args, "pOO", &record, &ids, &session)) return nullptr;
  if (ids == Py_None) {
    if (session == Py_None) {
      PushMode(record != 0);
    } else {
      PushMode(record != 0, *SessionOf(session));
    }
    Py_RETURN_NONE;
  }
  const Owned sequence(PySequence_Fast(ids, "expected a sequence of backprop ids"));
  if (!sequence) return nullptr;
  std::vector<BackpropId> numbers;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
    BackpropId id = 0;
    if (!ToBackpropId(PySequence_Fast_GET_ITEM(sequence.get(), i), &id)) return nullptr;
    numbers.push_back(id);
  }
  PushMode(record != 0, numbers);
  Py_RETURN_NONE;
}

PyObject* Pop(PyObject*, PyObject*) {
  PopMode();
  Py_RETURN_NONE;
}

// _records(backprop_id, session): in the calling thread's mode. Without a session: of any.
PyObject* Records(PyObject*, PyObject* args) {
  PyObject *object = nullptr, *session = nullptr;
  BackpropId id = 0;
  if (!PyArg_ParseTuple(args, "OO", &object, &session) || !ToBackpropId(object, &id)) {
    return nullptr;
  }
  const Session* const of = session == Py_None ? nullptr : SessionOf(session);
  return PyBool_FromLong(CurrentMode().Records(of, id));
}

// _backprop_ids(array): the numbers of the graphs that it is in.
PyObject* IdsOf(PyObject*, PyObject* array) {
  if (!ResolveArray(array)) return nullptr;
  Owned list(PyList_New(0));
  for (const GraphMembership& membership : BodyOf(array)->memberships) {
    const Owned number(PyLong_FromUnsignedLong(membership.node->id));
    if (!list || !number || PyList_Append(list.get(), number.get()) < 0) return nullptr;
  }
  return list.release();
}

// _graphs_in_daemon(array): the numbers of the graphs that it is in there, and whether it has a
// gradient in the default one.
PyObject* GraphsInDaemon(PyObject*, PyObject* array) {
  const absl::StatusOr<GraphState> state =
      BodyOf(array)->session->graphs().queries().StateOf(*BodyOf(array), 0);
  if (!state.ok()) return Raise(state.status(), BodyOf(array)->session.get());
  Owned list(PyList_New(0));
  for (BackpropId id : state->graphs) {
    const Owned number(PyLong_FromUnsignedLong(id));
    if (!list || !number || PyList_Append(list.get(), number.get()) < 0) return nullptr;
  }
  return list ? Py_BuildValue("OO", list.get(), state->has_grad ? Py_True : Py_False) : nullptr;
}

// _new_backprop_id(session, name="")
PyObject* NewId(PyObject*, PyObject* args) {
  PyObject* session = nullptr;
  const char* name = "";
  if (!PyArg_ParseTuple(args, "O|s", &session, &name)) return nullptr;
  const absl::StatusOr<BackpropId> id = SessionOf(session)->graphs().NewBackpropId(name);
  return id.ok() ? PyLong_FromUnsignedLong(*id) : Raise(id.status());
}

PyObject* ReleaseId(PyObject*, PyObject* args) {
  PyObject* session = nullptr;
  unsigned int id = 0;
  if (!PyArg_ParseTuple(args, "OI", &session, &id)) return nullptr;
  const absl::Status status = SessionOf(session)->graphs().ReleaseBackpropId(id);
  if (!status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

// _check_backprop_id(session, id): raises unless it is open.
PyObject* CheckId(PyObject*, PyObject* args) {
  PyObject* session = nullptr;
  unsigned int id = 0;
  if (!PyArg_ParseTuple(args, "OI", &session, &id)) return nullptr;
  const absl::Status status = SessionOf(session)->graphs().backprop_ids().CheckOpen(id);
  if (!status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

// _as_strided(array, shape, strides, offset): elements of a contiguous array, a view.
PyObject* AsStrided(PyObject*, PyObject* args) {
  static const OpDef& op = Op("as_strided");
  PyObject *array = nullptr, *shape_object = nullptr, *strides_object = nullptr;
  long long offset = 0;
  Ints shape;
  Ints strides;
  if (!PyArg_ParseTuple(args, "O!OOL", &array_type, &array, &shape_object, &strides_object,
                        &offset) ||
      !ToInts(shape_object, &shape) || !ToInts(strides_object, &strides)) {
    return nullptr;
  }
  const Operand input(BodyOf(array));
  const AttrValue attrs[] = {AttrValue(std::move(shape)), AttrValue(std::move(strides)),
                             AttrValue(int64_t{offset})};
  return Call(BodyOf(array)->session.get(), op, absl::MakeConstSpan(&input, 1), attrs, 0);
}

// _upload(buffer, dtype, shape, device): the buffer holds the elements in C order.
PyObject* Upload(PyObject*, PyObject* args) {
  Py_buffer buffer;
  PyObject *dtype_object = nullptr, *shape_object = nullptr, *device_object = nullptr;
  if (!PyArg_ParseTuple(args, "y*OOO", &buffer, &dtype_object, &shape_object, &device_object)) {
    return nullptr;
  }
  Dtype dtype;
  Ints shape;
  Target target;
  absl::StatusOr<ArrayPtr> array = absl::UnknownError("");
  const bool valid = ToDtype(dtype_object, &dtype) && ToInts(shape_object, &shape) &&
                     ToTarget(device_object, &target);
  if (valid) {
    const WithoutGil nogil;
    array = target.session->Upload(
        absl::string_view(static_cast<const char*>(buffer.buf), static_cast<size_t>(buffer.len)),
        dtype, shape, target.device);
  }
  PyBuffer_Release(&buffer);
  if (!valid) return nullptr;
  return array.ok() ? Wrap(*std::move(array)) : Raise(array.status(), target.session);
}

// _fetch(array, buffer): waits for the elements, in C order.
PyObject* Fetch(PyObject*, PyObject* args) {
  PyObject* array = nullptr;
  Py_buffer buffer;
  if (!PyArg_ParseTuple(args, "O!w*", &array_type, &array, &buffer)) return nullptr;
  const ArrayBody& body = *BodyOf(array);
  absl::Status status;
  {
    const WithoutGil nogil;
    status = body.session->Fetch(body, buffer.buf, static_cast<size_t>(buffer.len));
  }
  PyBuffer_Release(&buffer);
  if (!status.ok()) return Raise(status, body.session.get());
  Py_RETURN_NONE;
}

// _random(operator, shape, a, b, dtype, device)
PyObject* Random(PyObject*, PyObject* args) {
  const char* op = nullptr;
  PyObject *shape_object = nullptr, *dtype_object = nullptr, *device_object = nullptr;
  double a = 0;
  double b = 0;
  if (!PyArg_ParseTuple(args, "sOddOO", &op, &shape_object, &a, &b, &dtype_object,
                        &device_object)) {
    return nullptr;
  }
  Dtype dtype;
  Ints shape;
  Target target;
  if (!ToDtype(dtype_object, &dtype) || !ToInts(shape_object, &shape) ||
      !ToTarget(device_object, &target)) {
    return nullptr;
  }
  SetCallerLocation();
  absl::StatusOr<ArrayPtr> array = target.session->Random(op, shape, a, b, dtype, target.device);
  return array.ok() ? Wrap(*std::move(array)) : Raise(array.status(), target.session);
}

// _random_of(operator, *parameters)
PyObject* RandomOf(PyObject*, PyObject* args) {
  absl::InlinedVector<Operand, 2> parameters;
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  for (Py_ssize_t i = 1; i < count; ++i) {
    PyObject* const item = PyTuple_GET_ITEM(args, i);
    if (!IsArray(item)) return Raise(TypeError("[random] expects arrays as parameters"));
    parameters.emplace_back(BodyOf(item));
  }
  const char* const op = count > 0 ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(args, 0)) : nullptr;
  if (op == nullptr || parameters.empty()) {
    return Raise(TypeError("[random] expects an operator and its parameters"));
  }
  SetCallerLocation();
  Session* const session = parameters[0].array()->session.get();
  absl::StatusOr<ArrayPtr> array = session->RandomOf(op, parameters);
  return array.ok() ? Wrap(*std::move(array)) : Raise(array.status(), session);
}

// Waits inside of the client's calls don't keep other threads from running.
void* BeginWait() { return PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr; }
void EndWait(void* state) {
  if (state != nullptr) TakeGil(static_cast<PyThreadState*>(state));
}

}  // namespace

void InitWaits() { SetWaitHooks(BeginWait, EndWait, SignalRaised); }

bool ResolveArray(PyObject* array) {
  ArrayBody* const body = BodyOf(array);
  const absl::Status status = body->session->graphs().Resolve(body);
  if (!status.ok()) Raise(status, body->session.get());
  return status.ok();
}

PyMethodDef grad_functions[] = {{"_backward", Backward, METH_VARARGS, nullptr},
                                {"_grad", Grad, METH_VARARGS, nullptr},
                                {"_push_mode", Push, METH_VARARGS, nullptr},
                                {"_pop_mode", Pop, METH_NOARGS, nullptr},
                                {"_records", Records, METH_VARARGS, nullptr},
                                {"_backprop_ids", IdsOf, METH_O, nullptr},
                                {"_graphs_in_daemon", GraphsInDaemon, METH_O, nullptr},
                                {"_new_backprop_id", NewId, METH_VARARGS, nullptr},
                                {"_release_backprop_id", ReleaseId, METH_VARARGS, nullptr},
                                {"_check_backprop_id", CheckId, METH_VARARGS, nullptr},
                                {"_upload", Upload, METH_VARARGS, nullptr},
                                {"_as_strided", AsStrided, METH_VARARGS, nullptr},
                                {"_fetch", Fetch, METH_VARARGS, nullptr},
                                {"_random", Random, METH_VARARGS, nullptr},
                                {"_random_of", RandomOf, METH_VARARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
