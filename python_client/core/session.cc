// Sessions.
#include <algorithm>
#include <chrono>
#include <utility>

#include "python_client/core/common.h"

namespace chx::python {
namespace {

int SessionTraverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(AsSession(self)->devices);
  return 0;
}

int Clear(PyObject* self) {
  Py_CLEAR(AsSession(self)->devices);
  return 0;
}

void SessionDealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  PySession* const session = AsSession(self);
  if (session->session != nullptr) {
    session->session->binding = nullptr;
    const WithoutGil nogil;
    // Memory that is shown as NumPy arrays may still refer to it.
    session->session->Close().IgnoreError();
    session->session->Unref();
  }
  Py_XDECREF(session->devices);
  Py_XDECREF(session->address);
  Py_TYPE(self)->tp_free(self);
}

PyObject* SessionRepr(PyObject* self) {
  return PyUnicode_FromFormat("<chx.Session at %U>", AsSession(self)->address);
}

// Session(address, client_name, token, tls_roots, reconnect, tls_cert, tls_key, token_file,
// session): seconds, or negative for the default; a name, or "".
PyObject* SessionNew(PyTypeObject* type, PyObject* args, PyObject*) {
  const char *address = nullptr, *client_name = nullptr, *token = nullptr, *roots = nullptr;
  const char *certificate = "", *key = "", *token_file = "", *name = "";
  double reconnect = -1;
  if (!PyArg_ParseTuple(args, "ssss|dssss", &address, &client_name, &token, &roots, &reconnect,
                        &certificate, &key, &token_file, &name)) {
    return nullptr;
  }
  ConnectOptions options;
  options.client_name = client_name;
  options.token = token;
  options.tls_roots = roots;
  options.tls_cert = certificate;
  options.tls_key = key;
  options.token_file = token_file;
  options.session = name;
  if (reconnect >= 0) {
    constexpr double kMaxSeconds = 1e9;
    options.reconnect =
        std::chrono::milliseconds(static_cast<int64_t>(std::min(reconnect, kMaxSeconds) * 1000));
  }
  absl::StatusOr<Ref<Session>> session = absl::UnknownError("");
  {
    const WithoutGil nogil;
    session = Session::Connect(address, options);
  }
  if (!session.ok()) return Raise(session.status());
  Owned object(type->tp_alloc(type, 0));
  if (!object) return nullptr;
  PySession* const self = AsSession(object.get());
  (*session)->AddRef();
  self->session = session->get();
  self->session->binding = self;
  self->cancel_on_interrupt = 1;
  self->address = PyUnicode_FromString(address);
  if (self->address == nullptr || !MakeDevices(self)) return nullptr;
  return object.release();
}

// False with an exception set in a child of the session's process, where locks may be held for
// good.
bool CheckProcess(PyObject* self) {
  if (!SessionOf(self)->Forked()) return true;
  Raise(SessionOf(self)->Flush());
  return false;
}

// What a method of the session does without the interpreter's lock.
template <typename Fn>
PyObject* Unlocked(PyObject* self, Fn fn) {
  absl::Status status;
  {
    const WithoutGil nogil;
    status = fn(SessionOf(self));
  }
  if (!status.ok()) return Raise(status, SessionOf(self));
  Py_RETURN_NONE;
}

PyObject* Close(PyObject* self, PyObject*) {
  const Owned closed(Unlocked(self, [](Session* session) { return session->Close(); }));
  DetachDevices(AsSession(self));
  return closed ? Py_NewRef(Py_None) : nullptr;
}

PyObject* Discard(PyObject* self, PyObject*) {
  const Owned closed(Unlocked(self, [](Session* session) { return session->Close(true); }));
  DetachDevices(AsSession(self));
  return closed ? Py_NewRef(Py_None) : nullptr;
}

PyObject* SessionSynchronize(PyObject* self, PyObject*) {
  return Unlocked(self, [](Session* session) { return session->Synchronize(); });
}

PyObject* UploadAhead(PyObject* self, PyObject* bytes) {
  const size_t count = PyLong_AsSize_t(bytes);
  if (PyErr_Occurred() != nullptr) return nullptr;
  return Unlocked(self, [count](Session* session) { return session->UploadAhead(count); });
}

PyObject* Flush(PyObject* self, PyObject*) {
  return Unlocked(self, [](Session* session) { return session->Flush(true); });
}

PyObject* Cancel(PyObject* self, PyObject*) {
  return Unlocked(self, [](Session* session) { return session->Cancel(); });
}

PyObject* Seed(PyObject* self, PyObject* seed) {
  const unsigned long long value = PyLong_AsUnsignedLongLongMask(seed);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (!CheckProcess(self)) return nullptr;
  SessionOf(self)->Seed(value);
  Py_RETURN_NONE;
}

PyObject* TakeErrors(PyObject* self, PyObject*) {
  if (!CheckProcess(self)) return nullptr;
  Owned list(PyList_New(0));
  for (const absl::Status& status : SessionOf(self)->connection().TakeErrors()) {
    const Owned text(PyUnicode_FromString(std::string(status.message()).c_str()));
    if (!list || !text || PyList_Append(list.get(), text.get()) < 0) return nullptr;
  }
  return list.release();
}

PyObject* Stats(PyObject* self, PyObject*) {
  if (!CheckProcess(self)) return nullptr;
  const CommandStats stats = SessionOf(self)->stats();
  return Py_BuildValue("{s:L,s:L}", "commands", static_cast<long long>(stats.commands),  // NOLINT
                       "round_trips", static_cast<long long>(stats.round_trips));        // NOLINT
}

PyObject* Configure(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  PyObject* value = nullptr;
  if (!PyArg_ParseTuple(args, "sO", &name, &value)) return nullptr;
  Scalar scalar;
  if (!ToScalar(value, &scalar)) return nullptr;
  const absl::Status status = SessionOf(self)->Configure(name, scalar);
  if (!status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

PyObject* GetSettings(PyObject* self, PyObject*) {
  if (!CheckProcess(self)) return nullptr;
  const Settings settings = SessionOf(self)->settings();
  return Py_BuildValue(
      "{s:N,s:N,s:N,s:L,s:N,s:N}", "use_cudnn", PyBool_FromLong(settings.use_cudnn),
      "cudnn_deterministic", PyBool_FromLong(settings.cudnn_deterministic), "autotune",
      PyBool_FromLong(settings.autotune), "max_workspace_size",
      static_cast<long long>(settings.max_workspace_size),  // NOLINT
      "tf32", PyBool_FromLong(settings.tf32), "cudnn_tf32", PyBool_FromLong(settings.cudnn_tf32));
}

PyObject* Draining(PyObject* self, void*) {
  if (!CheckProcess(self)) return nullptr;
  return PyBool_FromLong(SessionOf(self)->connection().draining());
}

PyGetSetDef attributes[] = {
    {"draining", Draining, nullptr,
     "Whether the daemon has said that it is about to end: it opens no more sessions, and those "
     "there are should finish. Known within some seconds, or at the next read.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef session_methods[] = {
    {"close", Close, METH_NOARGS,
     "close()\n--\n\nEnds the session and frees all that it holds in the daemon."},
    {"_save", SessionSave, METH_VARARGS, nullptr},
    {"_load", SessionLoad, METH_O, nullptr},
    {"_saved", SessionSaved, METH_NOARGS, nullptr},
    {"_forget", SessionForget, METH_O, nullptr},
    {"_upload_ahead", UploadAhead, METH_O, nullptr},
    {"_note_generator", SessionNoteGenerator, METH_O, nullptr},
    {"_former_generator", SessionFormerGenerator, METH_NOARGS, nullptr},
    {"_discard", Discard, METH_NOARGS, nullptr},
    {"synchronize", SessionSynchronize, METH_NOARGS,
     "synchronize()\n--\n\nWaits until all that was called is done."},
    {"flush", Flush, METH_NOARGS, "flush()\n--\n\nSends what is pending; does not wait."},
    {"cancel", Cancel, METH_NOARGS,
     "cancel()\n--\n\nGives up what was called and has not run: reads of its results raise "
     "CancelledError.\n\nThe command that runs is stopped. Results that were there before stay, "
     "and "
     "the session goes on."},
    {"seed", Seed, METH_O, "seed($self, seed)\n--\n\nSeeds the session's random numbers."},
    {"_configure", Configure, METH_VARARGS, nullptr},
    {"_settings", GetSettings, METH_NOARGS, nullptr},
    {"stats", Stats, METH_NOARGS,
     "stats()\n--\n\nCommands sent since the session began, and how often something waited: a "
     "dict."},
    {"take_errors", TakeErrors, METH_NOARGS,
     "take_errors()\n--\n\nTexts of errors reported since the last call, read or not."},
    {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {
    {"address", T_OBJECT, offsetof(PySession, address), READONLY, "Where the daemon listens."},
    {"devices", T_OBJECT, offsetof(PySession, devices), READONLY, "The daemon's devices."},
    {"cancel_on_interrupt", T_BOOL, offsetof(PySession, cancel_on_interrupt), 0,
     "Whether Ctrl-C in a wait cancels what was called and has not run."},
    {nullptr, 0, 0, 0, nullptr}};

}  // namespace

PyTypeObject session_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "chx._core.Session";
  type.tp_doc = "A session with a daemon; made by chx.connect().";
  type.tp_basicsize = sizeof(PySession);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  type.tp_traverse = SessionTraverse;
  type.tp_clear = Clear;
  type.tp_dealloc = SessionDealloc;
  type.tp_repr = SessionRepr;
  type.tp_new = SessionNew;
  type.tp_methods = session_methods;
  type.tp_members = members;
  type.tp_getset = attributes;
  return type;
}();

bool InitSessionType(PyObject* module) {
  return PyType_Ready(&session_type) == 0 &&
         PyModule_AddObjectRef(module, "Session", reinterpret_cast<PyObject*>(&session_type)) == 0;
}

}  // namespace chx::python
