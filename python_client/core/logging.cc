// What the client logs, on its way to Python's logging. Messages come from any thread, with locks
// of the client held: they are kept until a thread that has the interpreter's lock takes them.
#include <deque>
#include <utility>

#include "base/mutex.h"
#include "client/log.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

constexpr size_t kMost = 1000;  // the oldest go first

struct Messages {
  Mutex mutex;
  std::deque<LogMessage> kept ABSL_GUARDED_BY(mutex);
  bool announced ABSL_GUARDED_BY(mutex) = false;  // DeliverPending will run
  bool open ABSL_GUARDED_BY(mutex) = false;
};
Messages& GetMessages() {
  static Messages& messages = *new Messages;
  return messages;
}
PyObject* receiver = nullptr;  // of Python, called with a level and a text

std::deque<LogMessage> TakeMessages() {
  Messages& messages = GetMessages();
  MutexLock lock(&messages.mutex);
  messages.announced = false;
  return std::exchange(messages.kept, {});
}

int DeliverPending(void*) { return DeliverLog() ? 0 : -1; }

// Python calls DeliverPending in the main thread, as soon as that runs Python code.
void Keep(const LogMessage& message) {
  Messages& messages = GetMessages();
  MutexLock lock(&messages.mutex);
  if (!messages.open) return;
  if (messages.kept.size() == kMost) messages.kept.pop_front();
  messages.kept.push_back(message);
  // There may be no room just now; the next message tries again.
  if (!messages.announced) messages.announced = Py_AddPendingCall(DeliverPending, nullptr) == 0;
}

// _set_log(receiver, least): receiver(level, text) gets what is logged; None: nobody does.
PyObject* SetLog(PyObject*, PyObject* args) {
  PyObject* given = nullptr;
  int least = 0;
  if (!PyArg_ParseTuple(args, "Oi", &given, &least)) return nullptr;
  const bool open = given != Py_None;
  {
    // After this none is announced: the interpreter may end.
    MutexLock lock(&GetMessages().mutex);
    GetMessages().open = open;
  }
  const Owned old(std::exchange(receiver, open ? Py_NewRef(given) : nullptr));
  SetLogHandler(open ? LogHandler(Keep) : nullptr, static_cast<LogLevel>(least));
  Py_RETURN_NONE;
}

}  // namespace

bool DeliverLog() {
  if (receiver == nullptr) return true;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  for (const LogMessage& message : TakeMessages()) {
    const Owned function(Py_XNewRef(receiver));
    if (!function) break;  // meanwhile nobody wants them
    const Owned result(PyObject_CallFunction(function.get(), "is", static_cast<int>(message.level),
                                             message.text.c_str()));
    if (result) continue;
    // A handler's error is no error of the call that waits; Ctrl-C ends it.
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) {
      Py_XDECREF(type);
      Py_XDECREF(value);
      Py_XDECREF(traceback);
      return false;
    }
    PyErr_WriteUnraisable(function.get());
  }
  PyErr_Restore(type, value, traceback);
  return true;
}

PyMethodDef log_functions[] = {{"_set_log", SetLog, METH_VARARGS, nullptr},
                               {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
