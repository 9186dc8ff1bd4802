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
  const char* doc;
  PyObject* const* base = &PyExc_Exception;
};

constexpr Row kOwn[] = {
    {ErrorKind::kChainerx, "ChainerxError",
     "What has no exception of its own; the base of some that do."},
    {ErrorKind::kContext, "ContextError",
     "Arrays of different sessions meet, or there is no such context."},
    {ErrorKind::kBackend, "BackendError", "There is no such backend, or it failed."},
    {ErrorKind::kDevice, "DeviceError",
     "There is no such device, or arrays of different devices meet."},
    {ErrorKind::kDimension, "DimensionError",
     "A shape, an axis or a number of dimensions does not fit; a ValueError.", &PyExc_ValueError},
    {ErrorKind::kDtype, "DtypeError", "A dtype does not fit; a TypeError.", &PyExc_TypeError},
    {ErrorKind::kNotImplemented, "NotImplementedError",
     "The operator cannot do this, or its gradient cannot."},
    {ErrorKind::kGradient, "GradientError", "A gradient does not fit its array, or there is none."},
    {ErrorKind::kGradientCheck, "GradientCheckError",
     "A gradient differs from the numerical one: check_backward() and its like."},
    {ErrorKind::kCancelled, "CancelledError",
     "The value was never computed, because its work was cancelled."},
};

PyObject* NewException(PyObject* module, const char* name, const char* doc, PyObject* bases) {
  const std::string full_name = std::string("chx.") + name;
  PyObject* const exception = PyErr_NewExceptionWithDoc(full_name.c_str(), doc, bases, nullptr);
  return exception != nullptr && PyModule_AddObjectRef(module, name, exception) == 0 ? exception
                                                                                     : nullptr;
}

// A ChainerxError that is also one of Python's own.
PyObject* NewChainerxError(PyObject* module, const char* name, const char* doc, PyObject* builtin) {
  const Owned bases(PyTuple_Pack(2, exceptions[static_cast<int>(ErrorKind::kChainerx)], builtin));
  return bases ? NewException(module, name, doc, bases.get()) : nullptr;
}

}  // namespace

bool InitErrors(PyObject* module) {
  // None is a subclass of ChainerxError, as in ChainerX.
  for (const Row& row : kOwn) {
    PyObject* const exception = NewException(module, row.name, row.doc, *row.base);
    if (exception == nullptr) return false;
    exceptions[static_cast<int>(row.kind)] = exception;
  }
  authentication_error = NewChainerxError(module, "AuthenticationError",
                                          "The daemon expects another token; a PermissionError.",
                                          PyExc_PermissionError);
  PyObject* const memory = NewChainerxError(
      module, "OutOfMemoryError",
      "A limit of memory: the text says which, what holds it and how to raise it; a MemoryError.",
      PyExc_MemoryError);
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
