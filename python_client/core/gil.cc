// The interpreter's lock at the end of the interpreter. Whoever asks for the lock then, and does
// not end it, is ended by pthread_exit(), which unwinds the thread's stack like an exception.
// Destructors would touch objects without the lock, and a destructor that is left in this way
// aborts the process.
#include <unistd.h>

#include "python_client/core/common.h"

namespace chx::python {
namespace {

// The process ends soon. What has been caught is never let go: that would abort.
[[noreturn]] void WaitForTheEnd() {
  for (;;) pause();
}

}  // namespace

void TakeGil(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    WaitForTheEnd();
  }
}

void Drop(PyObject* object) {
  if (Py_IsFinalizing() != 0) return;  // nobody needs the memory
  try {
    Py_DECREF(object);  // may run Python code, which gives up the lock
  } catch (...) {
    WaitForTheEnd();
  }
}

void DropUnlocked(PyObject* object) {
  if (Py_IsFinalizing() != 0) return;
  try {
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(object);
    PyGILState_Release(state);
  } catch (...) {
    WaitForTheEnd();
  }
}

}  // namespace chx::python
