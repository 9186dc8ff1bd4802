// Process groups, as chx/distributed.py calls for them.
#include "client/distributed.h"

#include <utility>

#include "python_client/core/common.h"

namespace chx::python {
namespace {

// _join_group(session, name, secret, address, rank, size) -> number
PyObject* JoinGroupFunction(PyObject*, PyObject* args) {
  PyObject* session = nullptr;
  const char* name = nullptr;
  const char* secret = nullptr;
  const char* address = nullptr;
  Py_ssize_t name_size = 0;
  Py_ssize_t secret_size = 0;
  Py_ssize_t address_size = 0;
  long long rank = 0;  // NOLINT(runtime/int): the format's
  long long size = 0;  // NOLINT(runtime/int): the format's
  if (!PyArg_ParseTuple(args, "O!s#s#s#LL", &session_type, &session, &name, &name_size, &secret,
                        &secret_size, &address, &address_size, &rank, &size)) {
    return nullptr;
  }
  GroupOptions options;
  options.name.assign(name, static_cast<size_t>(name_size));
  options.secret.assign(secret, static_cast<size_t>(secret_size));
  options.address.assign(address, static_cast<size_t>(address_size));
  options.rank = rank;
  options.size = size;
  Session* const opened = AsSession(session)->session;
  absl::StatusOr<int64_t> number = absl::UnknownError("");
  {
    const WithoutGil nogil;
    number = internal::JoinGroup(*opened, options);
  }
  if (!number.ok()) return Raise(number.status(), opened);
  return PyLong_FromLongLong(*number);
}

// _leave_group(session, number)
PyObject* LeaveGroupFunction(PyObject*, PyObject* args) {
  PyObject* session = nullptr;
  long long number = 0;  // NOLINT(runtime/int): the format's
  if (!PyArg_ParseTuple(args, "O!L", &session_type, &session, &number)) return nullptr;
  Session* const opened = AsSession(session)->session;
  absl::Status status;
  {
    const WithoutGil nogil;
    status = internal::LeaveGroup(*opened, number);
  }
  if (!status.ok()) return Raise(status, opened);
  Py_RETURN_NONE;
}

// _new_reducer() -> number
PyObject* NewReducerFunction(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(internal::NewReducer());
}

// _reduce_backward(outputs, parameters, group, reducer, op, dtype, bucket_bytes, delayed,
// backprop_id, loss_scale)
PyObject* ReduceBackward(PyObject*, PyObject* args) {
  PyObject *outputs = nullptr, *parameters = nullptr, *group_object = nullptr, *dtype = nullptr,
           *id = nullptr;
  unsigned long long reducer = 0;  // NOLINT(runtime/int): the format's
  long long op = 0;                // NOLINT(runtime/int): the format's
  long long bucket_bytes = 0;      // NOLINT(runtime/int): the format's
  int delayed = 0;
  BackwardArgs options;
  GradientReduction reduction;
  Arrays losses, arrays;
  Ints group;
  if (!PyArg_ParseTuple(args, "OOOKLOLpOd", &outputs, &parameters, &group_object, &reducer, &op,
                        &dtype, &bucket_bytes, &delayed, &id, &options.loss_scale) ||
      !ToInts(group_object, &group) || !ToBackpropId(id, &options.id) ||
      !ToArrays(outputs, false, &losses) || !ToArrays(parameters, false, &arrays)) {
    return nullptr;
  }
  if (dtype != Py_None) {
    reduction.dtype.emplace();
    if (!ToDtype(dtype, &*reduction.dtype)) return nullptr;
  }
  if (arrays.bodies.empty()) return Raise(ValueError("[backward] expects parameters to reduce"));
  reduction.reducer = reducer;
  reduction.reduction = op;
  reduction.bucket_bytes = bucket_bytes;
  reduction.delayed = delayed != 0;
  SetCallerLocation();
  Session* const session = arrays.bodies[0]->session.get();
  bool flush_due = false;
  absl::Status status = session->gradients().ReduceBackward(losses.bodies, arrays.bodies, group,
                                                            reduction, options, &flush_due);
  if (status.ok() && flush_due) {
    const WithoutGil nogil;
    status = session->FlushDue();
  }
  if (!status.ok()) return RaiseFromBackward(status, session);
  Py_RETURN_NONE;
}

// _is_group_in_environment() -> bool
PyObject* IsGroupInEnvironment(PyObject*, PyObject*) {
  return PyBool_FromLong(GroupOptions::AreInEnvironment() ? 1 : 0);
}

// _group_from_environment() -> (name, secret, address, rank, size)
PyObject* GroupFromEnvironment(PyObject*, PyObject*) {
  const absl::StatusOr<GroupOptions> options = GroupOptions::FromEnvironment();
  if (!options.ok()) return Raise(options.status());
  using Number = long long;  // NOLINT(runtime/int): the format's
  return Py_BuildValue("(sssLL)", options->name.c_str(), options->secret.c_str(),
                       options->address.c_str(), static_cast<Number>(options->rank),
                       static_cast<Number>(options->size));
}

}  // namespace

PyMethodDef distributed_functions[] = {
    {"_join_group", JoinGroupFunction, METH_VARARGS, nullptr},
    {"_leave_group", LeaveGroupFunction, METH_VARARGS, nullptr},
    {"_new_reducer", NewReducerFunction, METH_NOARGS, nullptr},
    {"_reduce_backward", ReduceBackward, METH_VARARGS, nullptr},
    {"_group_from_environment", GroupFromEnvironment, METH_NOARGS, nullptr},
    {"_is_group_in_environment", IsGroupInEnvironment, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
