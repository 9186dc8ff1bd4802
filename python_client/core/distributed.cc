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
    {"_group_from_environment", GroupFromEnvironment, METH_NOARGS, nullptr},
    {"_is_group_in_environment", IsGroupInEnvironment, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
