// The session and the device of calls that name none: the process has a session, and each thread
// may have others instead.
#include "python_client/core/common.h"

namespace chx::python {
namespace {

PyObject* global_session;  // PySession, or null

// In the dict of the thread's state in the interpreter, so that it goes with the thread.
struct ThreadDefaults {
  PyObject_HEAD PyObject* session;  // PySession, or null
  PyObject* device;                 // PyDevice, or null
};

constexpr char kKey[] = "chx._core.defaults";

// What a thread's dict has; states are numbered, and numbers are not used again.
thread_local struct {
  uint64_t thread = 0;
  ThreadDefaults* defaults = nullptr;
} cache;

void DefaultsDealloc(PyObject* self) {
  auto* const defaults = reinterpret_cast<ThreadDefaults*>(self);
  if (cache.defaults == defaults) cache.defaults = nullptr;
  Py_XDECREF(defaults->session);
  Py_XDECREF(defaults->device);
  PyObject_Free(self);
}

PyTypeObject defaults_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "chx._core.ThreadDefaults";
  type.tp_basicsize = sizeof(ThreadDefaults);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_dealloc = DefaultsDealloc;
  return type;
}();

// The calling thread's; null if it has none yet.
ThreadDefaults* Mine() {
  const uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
  if (cache.thread != thread) {
    PyObject* const dict = PyThreadState_GetDict();
    PyObject* const found = dict == nullptr ? nullptr : PyDict_GetItemString(dict, kKey);
    cache = {thread, reinterpret_cast<ThreadDefaults*>(found)};
  }
  return cache.defaults;
}

ThreadDefaults* MakeMine() {
  if (ThreadDefaults* const mine = Mine()) return mine;
  PyObject* const dict = PyThreadState_GetDict();
  if (dict == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "the thread has no state in the interpreter");
    return nullptr;
  }
  auto* const made = PyObject_New(ThreadDefaults, &defaults_type);
  if (made == nullptr) return nullptr;
  made->session = made->device = nullptr;
  const Owned owned(reinterpret_cast<PyObject*>(made));
  if (PyDict_SetItemString(dict, kKey, owned.get()) < 0) return nullptr;
  cache.defaults = made;
  return made;
}

void Assign(PyObject** variable, PyObject* value) {
  PyObject* const old = *variable;
  *variable = value == Py_None ? nullptr : Py_NewRef(value);
  Py_XDECREF(old);
}

PyObject* OrNone(PyObject* object) { return Py_NewRef(object != nullptr ? object : Py_None); }

PyObject* ThreadSession() {
  const ThreadDefaults* const mine = Mine();
  return mine == nullptr ? nullptr : mine->session;
}

// A default device would be one of the session before.
void ForgetDevice() {
  if (ThreadDefaults* const mine = Mine()) Assign(&mine->device, Py_None);
}

bool IsSession(PyObject* object) {
  if (object == Py_None || PyObject_TypeCheck(object, &session_type) != 0) return true;
  PyErr_Format(PyExc_TypeError, "expected a Session or None, got %s", Py_TYPE(object)->tp_name);
  return false;
}

PyObject* GetDefaultSession(PyObject*, PyObject*) { return OrNone(DefaultSession()); }
PyObject* GetGlobalSession(PyObject*, PyObject*) { return OrNone(global_session); }
PyObject* GetThreadSession(PyObject*, PyObject*) { return OrNone(ThreadSession()); }
PyObject* GetThreadDevice(PyObject*, PyObject*) { return OrNone(ThreadDevice()); }

PyObject* SetDefaultSession(PyObject*, PyObject* session) {
  if (!IsSession(session)) return nullptr;
  Assign(&global_session, session);
  ForgetDevice();
  Py_RETURN_NONE;
}

PyObject* SetThreadSession(PyObject*, PyObject* session) {
  if (!IsSession(session)) return nullptr;
  if (session != Py_None || Mine() != nullptr) {
    ThreadDefaults* const mine = MakeMine();
    if (mine == nullptr) return nullptr;
    Assign(&mine->session, session);
  }
  ForgetDevice();
  Py_RETURN_NONE;
}

PyObject* GetDefaultDevice(PyObject*, PyObject*) {
  Target target;
  if (!DefaultTarget(&target)) return nullptr;
  return Py_NewRef(PyTuple_GET_ITEM(AsSession(target.keeper.get())->devices, target.device));
}

PyObject* SetDefaultDevice(PyObject*, PyObject* object) {
  if (object == Py_None) {
    ForgetDevice();
    Py_RETURN_NONE;
  }
  Target target;
  ThreadDefaults* const mine = ToTarget(object, &target) ? MakeMine() : nullptr;
  if (mine == nullptr) return nullptr;
  Assign(&mine->device, PyTuple_GET_ITEM(AsSession(target.keeper.get())->devices, target.device));
  Py_RETURN_NONE;
}

}  // namespace

PyObject* DefaultSession() {
  PyObject* const mine = ThreadSession();
  return mine != nullptr ? mine : global_session;
}

PyObject* ThreadDevice() {
  const ThreadDefaults* const mine = Mine();
  return mine == nullptr ? nullptr : mine->device;
}

PyMethodDef default_functions[] = {
    {"_get_default_session", GetDefaultSession, METH_NOARGS, nullptr},
    {"_set_default_session", SetDefaultSession, METH_O, nullptr},
    {"_get_global_session", GetGlobalSession, METH_NOARGS, nullptr},
    {"_get_thread_session", GetThreadSession, METH_NOARGS, nullptr},
    {"_set_thread_session", SetThreadSession, METH_O, nullptr},
    {"_get_thread_device", GetThreadDevice, METH_NOARGS, nullptr},
    {"get_default_device", GetDefaultDevice, METH_NOARGS,
     "get_default_device()\n--\n\nWhere the calling thread's new arrays are made."},
    {"set_default_device", SetDefaultDevice, METH_O,
     "set_default_device(device)\n--\n\nSets where the calling thread's new arrays are made."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
