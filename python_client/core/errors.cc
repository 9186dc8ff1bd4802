#include "python_client/core/common.h"

#include <pthread.h>

#include <utility>

#include "client/waiting.h"

namespace chx::python {
namespace {

// By ErrorKind.
PyObject* exceptions[kNumErrorKinds];
PyObject* authentication_error;

const pthread_t main_thread = pthread_self();  // which imports this, as a rule

// What a signal's handler raised while a call waited, until the call returns.
struct Raised {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
};
Raised raised;

struct Row {
  ErrorKind kind;
  const char* name;
  PyObject* const* base = &PyExc_Exception;
};

constexpr Row kOwn[] = {
    {ErrorKind::kChainerx, "ChainerxError"},
    {ErrorKind::kContext, "ContextError"},
    {ErrorKind::kBackend, "BackendError"},
    {ErrorKind::kDevice, "DeviceError"},
    {ErrorKind::kDimension, "DimensionError", &PyExc_ValueError},
    {ErrorKind::kDtype, "DtypeError", &PyExc_TypeError},
    {ErrorKind::kNotImplemented, "NotImplementedError"},
    {ErrorKind::kGradient, "GradientError"},
    {ErrorKind::kGradientCheck, "GradientCheckError"},
    {ErrorKind::kCancelled, "CancelledError"},
};

PyObject* NewException(PyObject* module, const char* name, PyObject* bases) {
  const std::string full_name = std::string("chx.") + name;
  PyObject* const exception = PyErr_NewException(full_name.c_str(), bases, nullptr);
  return exception != nullptr && PyModule_AddObjectRef(module, name, exception) == 0 ? exception
                                                                                     : nullptr;
}

// A ChainerxError that is also one of Python's own.
PyObject* NewChainerxError(PyObject* module, const char* name, PyObject* builtin) {
  const Owned bases(PyTuple_Pack(2, exceptions[static_cast<int>(ErrorKind::kChainerx)], builtin));
  return bases ? NewException(module, name, bases.get()) : nullptr;
}

}  // namespace

bool InitErrors(PyObject* module) {
  // None is a subclass of ChainerxError, as in ChainerX.
  for (const Row& row : kOwn) {
    PyObject* const exception = NewException(module, row.name, *row.base);
    if (exception == nullptr) return false;
    exceptions[static_cast<int>(row.kind)] = exception;
  }
  authentication_error = NewChainerxError(module, "AuthenticationError", PyExc_PermissionError);
  PyObject* const memory = NewChainerxError(module, "OutOfMemoryError", PyExc_MemoryError);
  if (authentication_error == nullptr || memory == nullptr) return false;
  exceptions[static_cast<int>(ErrorKind::kMemory)] = memory;
  exceptions[static_cast<int>(ErrorKind::kIndex)] = PyExc_IndexError;
  exceptions[static_cast<int>(ErrorKind::kType)] = PyExc_TypeError;
  exceptions[static_cast<int>(ErrorKind::kValue)] = PyExc_ValueError;
  exceptions[static_cast<int>(ErrorKind::kConnection)] = PyExc_ConnectionError;
  exceptions[static_cast<int>(ErrorKind::kTimeout)] = PyExc_TimeoutError;
  return true;
}

bool SignalRaised() {
  // Others have no part in signals, and may not outlive the interpreter.
  if (pthread_equal(pthread_self(), main_thread) == 0) return false;
  const PyGILState_STATE state = PyGILState_Ensure();
  // What the log says may be why there is a wait.
  const bool interrupted = PyErr_CheckSignals() != 0 || !DeliverLog();
  if (interrupted) {
    Py_XDECREF(raised.type);
    Py_XDECREF(raised.value);
    Py_XDECREF(raised.traceback);
    PyErr_Fetch(&raised.type, &raised.value, &raised.traceback);
  }
  PyGILState_Release(state);
  return interrupted;
}

PyObject* Raise(const absl::Status& status, Session* session) {
  if (Interruption::Is(status) && raised.type != nullptr) {
    const Raised now = std::exchange(raised, Raised());
    const auto* const object =
        static_cast<PySession*>(session == nullptr ? nullptr : session->binding);
    if (object != nullptr && object->cancel_on_interrupt != 0 &&
        PyErr_GivenExceptionMatches(now.type, PyExc_KeyboardInterrupt) != 0) {
      const WithoutGil nogil;
      session->Cancel().IgnoreError();  // the interrupt says more
    }
    PyErr_Restore(now.type, now.value, now.traceback);
    return nullptr;
  }
  PyObject* const exception = status.code() == absl::StatusCode::kUnauthenticated
                                  ? authentication_error
                                  : exceptions[static_cast<int>(KindOf(status))];
  PyErr_SetString(exception, std::string(status.message()).c_str());
  return nullptr;
}

}  // namespace chx::python
