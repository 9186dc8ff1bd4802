// Sessions and devices.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

PyObject* global_session;               // PySession, or null
thread_local PyObject* thread_session;  // PySession that counts instead in this thread, or null
thread_local PyObject* default_device;  // PyDevice, or null

PyObject* DefaultSession() { return thread_session != nullptr ? thread_session : global_session; }

PySession* AsSession(PyObject* object) { return reinterpret_cast<PySession*>(object); }
PyDevice* AsDevice(PyObject* object) { return reinterpret_cast<PyDevice*>(object); }
PySession* Of(Session* session) { return static_cast<PySession*>(session->binding); }

void DeallocDevice(PyObject* self) {
  Py_XDECREF(AsDevice(self)->name);
  Py_XDECREF(AsDevice(self)->backend);
  PyObject_Free(self);
}

PyObject* ReprDevice(PyObject* self) { return Py_NewRef(AsDevice(self)->name); }

std::pair<std::string, std::string> Parts(PyObject* self) {
  const std::string name = PyUnicode_AsUTF8(AsDevice(self)->name);
  return absl::StrSplit(name, absl::MaxSplits(':', 1));
}

PyObject* GetDeviceName(PyObject* self, void*) { return Py_NewRef(AsDevice(self)->name); }
PyObject* GetDeviceIndex(PyObject* self, void*) {
  return PyLong_FromString(Parts(self).second.c_str(), nullptr, 10);
}
PyObject* GetBackend(PyObject* self, void*) { return Py_NewRef(AsDevice(self)->backend); }
PyObject* GetContext(PyObject* self, void*) {
  return PyObject_GetAttrString(AsDevice(self)->backend, "context");
}

PyObject* ReduceDevice(PyObject* self, PyObject*) {
  const Owned reduce(Support("reduce_device"));
  return reduce ? PyObject_CallOneArg(reduce.get(), self) : nullptr;
}

PyObject* SynchronizeSession(Session* session) {
  absl::Status status;
  {
    const WithoutGil nogil;
    status = session->Synchronize();
  }
  if (!status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

PyObject* SynchronizeDevice(PyObject* self, PyObject*) {
  return SynchronizeSession(AsDevice(self)->session->session);
}

PyGetSetDef device_getset[] = {
    {"name", GetDeviceName, nullptr, "For example 'native:0'.", nullptr},
    {"index", GetDeviceIndex, nullptr, "Number within the backend.", nullptr},
    {"backend", GetBackend, nullptr, "The backend: its name is 'native' or 'cuda'.", nullptr},
    {"context", GetContext, nullptr, "The Context that the device is of.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef device_methods[] = {{"synchronize", SynchronizeDevice, METH_NOARGS,
                                 "synchronize()\n--\n\nWaits until all that was called is done."},
                                {"__reduce__", ReduceDevice, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};

void DeallocSession(PyObject* self) {
  PySession* session = AsSession(self);
  if (session->session != nullptr) {
    session->session->binding = nullptr;
    const WithoutGil nogil;
    session->session->Unref();
  }
  Py_XDECREF(session->devices);
  Py_XDECREF(session->address);
  Py_TYPE(self)->tp_free(self);
}

PyObject* ReprSession(PyObject* self) {
  return PyUnicode_FromFormat("<chx.Session at %U>", AsSession(self)->address);
}

// Fills self->devices, in the order of their ids.
bool MakeDevices(PySession* self) {
  const std::vector<std::string>& names = self->session->devices();
  self->devices = PyTuple_New(static_cast<Py_ssize_t>(names.size()));
  if (self->devices == nullptr) return false;
  for (size_t i = 0; i < names.size(); ++i) {
    auto* device = PyObject_New(PyDevice, &device_type);
    if (device == nullptr) return false;
    device->name = PyUnicode_FromString(names[i].c_str());
    device->backend = nullptr;
    device->session = self;
    device->id = static_cast<DeviceId>(i);
    auto* object = reinterpret_cast<PyObject*>(device);
    PyTuple_SET_ITEM(self->devices, static_cast<Py_ssize_t>(i), object);
    for (size_t j = 0; j < i && device->backend == nullptr; ++j) {
      PyObject* other = PyTuple_GET_ITEM(self->devices, static_cast<Py_ssize_t>(j));
      if (Parts(other).first == Parts(object).first) {
        device->backend = Py_NewRef(AsDevice(other)->backend);
      }
    }
    if (device->backend != nullptr) continue;
    const Owned make(Support("Backend"));
    if (!make) return false;
    device->backend = PyObject_CallFunction(make.get(), "sO", Parts(object).first.c_str(), self);
    if (device->backend == nullptr) return false;
  }
  return true;
}

// Session(address, client_name, token, tls_roots)
PyObject* NewSession(PyTypeObject* type, PyObject* args, PyObject*) {
  const char *address = nullptr, *client_name = nullptr, *token = nullptr, *roots = nullptr;
  if (!PyArg_ParseTuple(args, "ssss", &address, &client_name, &token, &roots)) return nullptr;
  ConnectOptions options;
  options.client_name = client_name;
  options.token = token;
  options.tls_roots = roots;
  absl::StatusOr<Ref<Session>> session = absl::UnknownError("");
  {
    const WithoutGil nogil;
    session = Session::Connect(address, options);
  }
  if (!session.ok()) return Raise(session.status());
  auto* self = reinterpret_cast<PySession*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  // Arrays ask for their session's object as long as they live: it stays for good.
  Py_INCREF(self);
  (*session)->AddRef();
  self->session = session->get();
  self->session->binding = self;
  self->address = PyUnicode_FromString(address);
  if (self->address == nullptr || !MakeDevices(self)) return nullptr;
  return reinterpret_cast<PyObject*>(self);
}

PyObject* CloseSession(PyObject* self, PyObject*) {
  absl::Status status;
  {
    const WithoutGil nogil;
    status = AsSession(self)->session->Close();
  }
  if (!status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

PyObject* SynchronizeMethod(PyObject* self, PyObject*) {
  return SynchronizeSession(AsSession(self)->session);
}

PyObject* FlushSession(PyObject* self, PyObject*) {
  absl::Status status;
  {
    const WithoutGil nogil;
    status = AsSession(self)->session->Flush();
  }
  if (!status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

PyObject* SeedSession(PyObject* self, PyObject* seed) {
  const unsigned long long value = PyLong_AsUnsignedLongLongMask(seed);
  if (PyErr_Occurred() != nullptr) return nullptr;
  AsSession(self)->session->Seed(value);
  Py_RETURN_NONE;
}

PyObject* TakeErrors(PyObject* self, PyObject*) {
  PyObject* list = PyList_New(0);
  for (const absl::Status& status : AsSession(self)->session->connection().TakeErrors()) {
    const Owned text(PyUnicode_FromString(std::string(status.message()).c_str()));
    if (list == nullptr || !text || PyList_Append(list, text.get()) < 0) return nullptr;
  }
  return list;
}

PyObject* StatsOf(PyObject* self, PyObject*) {
  const Session::Stats stats = AsSession(self)->session->stats();
  return Py_BuildValue("{s:L,s:L}", "commands", static_cast<long long>(stats.commands),  // NOLINT
                       "round_trips", static_cast<long long>(stats.round_trips));        // NOLINT
}

PyObject* ConfigureSession(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  PyObject* value = nullptr;
  if (!PyArg_ParseTuple(args, "sO", &name, &value)) return nullptr;
  Scalar scalar;
  if (!ToScalar(value, &scalar)) return nullptr;
  const absl::Status status = AsSession(self)->session->Configure(name, scalar);
  if (!status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

PyObject* SettingsOf(PyObject* self, PyObject*) {
  const Settings settings = AsSession(self)->session->settings();
  return Py_BuildValue("{s:N,s:N,s:N,s:L}", "use_cudnn", PyBool_FromLong(settings.use_cudnn),
                       "cudnn_deterministic", PyBool_FromLong(settings.cudnn_deterministic),
                       "autotune", PyBool_FromLong(settings.autotune), "max_workspace_size",
                       static_cast<long long>(settings.max_workspace_size));  // NOLINT
}

PyMethodDef session_methods[] = {
    {"close", CloseSession, METH_NOARGS,
     "close()\n--\n\nEnds the session and frees all that it holds in the daemon."},
    {"synchronize", SynchronizeMethod, METH_NOARGS,
     "synchronize()\n--\n\nWaits until all that was called is done."},
    {"flush", FlushSession, METH_NOARGS, "flush()\n--\n\nSends what is pending; does not wait."},
    {"seed", SeedSession, METH_O, "seed($self, seed)\n--\n\nSeeds the session's random numbers."},
    {"_configure", ConfigureSession, METH_VARARGS, nullptr},
    {"_settings", SettingsOf, METH_NOARGS, nullptr},
    {"stats", StatsOf, METH_NOARGS,
     "stats()\n--\n\nCommands sent since the session began, and how often something waited: a "
     "dict."},
    {"take_errors", TakeErrors, METH_NOARGS,
     "take_errors()\n--\n\nTexts of errors reported since the last call, read or not."},
    {nullptr, nullptr, 0, nullptr}};
PyMemberDef session_members[] = {
    {"address", T_OBJECT, offsetof(PySession, address), READONLY, "Where the daemon listens."},
    {"devices", T_OBJECT, offsetof(PySession, devices), READONLY, "The daemon's devices."},
    {nullptr, 0, 0, 0, nullptr}};

PyObject* OrNone(PyObject* object) { return Py_NewRef(object != nullptr ? object : Py_None); }

PyObject* GetDefaultSession(PyObject*, PyObject*) { return OrNone(DefaultSession()); }
PyObject* GetGlobalSession(PyObject*, PyObject*) { return OrNone(global_session); }
PyObject* GetThreadSession(PyObject*, PyObject*) { return OrNone(thread_session); }
PyObject* GetThreadDevice(PyObject*, PyObject*) { return OrNone(default_device); }

PyObject* Replace(PyObject** variable, PyObject* session) {
  PyObject* old = *variable;
  *variable = session == Py_None ? nullptr : Py_NewRef(session);
  Py_XDECREF(old);
  // A default device would be one of the old session.
  Py_CLEAR(default_device);
  Py_RETURN_NONE;
}

PyObject* SetDefaultSession(PyObject*, PyObject* session) {
  return Replace(&global_session, session);
}
PyObject* SetThreadSession(PyObject*, PyObject* session) {
  return Replace(&thread_session, session);
}

PyObject* GetDefaultDevice(PyObject*, PyObject*) {
  Session* session = nullptr;
  DeviceId device = 0;
  if (!DefaultDevice(&session, &device)) return nullptr;
  return Py_NewRef(PyTuple_GET_ITEM(Of(session)->devices, device));
}

PyObject* SetDefaultDevice(PyObject*, PyObject* object) {
  PyObject* old = default_device;
  if (object == Py_None) {
    default_device = nullptr;
  } else {
    Session* session = nullptr;
    DeviceId device = 0;
    if (!ToDevice(object, &session, &device)) return nullptr;
    default_device = Py_NewRef(PyTuple_GET_ITEM(Of(session)->devices, device));
  }
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

PyObject* GetDevice(PyObject*, PyObject* object) {
  Session* session = nullptr;
  DeviceId device = 0;
  if (!ToDevice(object, &session, &device)) return nullptr;
  return Py_NewRef(PyTuple_GET_ITEM(Of(session)->devices, device));
}

// _find_device(session, name)
PyObject* FindDeviceOf(PyObject*, PyObject* args) {
  PyObject *session = nullptr, *name = nullptr;
  DeviceId device = 0;
  if (!PyArg_ParseTuple(args, "O!U", &session_type, &session, &name) ||
      !FindDevice(*AsSession(session)->session, name, &device)) {
    return nullptr;
  }
  return Py_NewRef(PyTuple_GET_ITEM(AsSession(session)->devices, device));
}

}  // namespace

bool DefaultDevice(Session** session, DeviceId* device) {
  if (DefaultSession() == nullptr) {
    const Owned connect(Support("connect_default"));
    const Owned connected(connect ? PyObject_CallNoArgs(connect.get()) : nullptr);
    if (!connected) return false;
    if (DefaultSession() == nullptr) {
      PyErr_SetString(PyExc_RuntimeError, "there is no default session");
      return false;
    }
  }
  PyDevice* chosen = default_device == nullptr ? nullptr : AsDevice(default_device);
  PySession* owner = chosen == nullptr ? AsSession(DefaultSession()) : chosen->session;
  *session = owner->session;
  *device = chosen == nullptr ? 0 : chosen->id;
  return true;
}

bool FindDevice(const Session& session, PyObject* text, DeviceId* device) {
  const char* utf8 = PyUnicode_AsUTF8(text);
  if (utf8 == nullptr) return false;
  std::string name = utf8;
  if (name.find(':') == std::string::npos) name += ":0";
  const std::vector<std::string>& names = session.devices();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != name) continue;
    *device = static_cast<DeviceId>(i);
    return true;
  }
  const std::pair<std::string, std::string> parts = absl::StrSplit(name, absl::MaxSplits(':', 1));
  const std::string& backend = parts.first;
  const auto count = std::count_if(names.begin(), names.end(), [&](const std::string& other) {
    return absl::StartsWith(other, backend + ":");
  });
  int64_t index = 0;
  if (count == 0) {
    Raise(MakeError(ErrorKind::kBackend,
                    absl::StrCat("the daemon does not serve backend '", backend, "'")));
  } else if (!absl::SimpleAtoi(parts.second, &index)) {
    Raise(ValueError("[get_device] expects 'BACKEND' or 'BACKEND:INDEX', got '", name, "'"));
  } else {
    Raise(MakeError(ErrorKind::kIndex,
                    absl::StrCat("the daemon does not serve device '", name, "': it has ", count,
                                 " of backend '", backend, "'")));
  }
  return false;
}

bool ToDevice(PyObject* object, Session** session, DeviceId* device) {
  if (object == nullptr || object == Py_None) return DefaultDevice(session, device);
  if (Py_TYPE(object) == &device_type) {
    *session = AsDevice(object)->session->session;
    *device = AsDevice(object)->id;
    return true;
  }
  if (!PyUnicode_Check(object)) {
    PyErr_Format(PyExc_TypeError, "expected a device or its name, got %s",
                 Py_TYPE(object)->tp_name);
    return false;
  }
  return DefaultDevice(session, device) && FindDevice(**session, object, device);
}

PyObject* DeviceOf(const ArrayBody& body) {
  return Py_NewRef(PyTuple_GET_ITEM(Of(body.session.get())->devices, body.spec.device));
}

PyTypeObject device_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "chx.Device";
  type.tp_doc = "A device of a session; there is one object for each.";
  type.tp_basicsize = sizeof(PyDevice);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_dealloc = DeallocDevice;
  type.tp_repr = ReprDevice;
  type.tp_getset = device_getset;
  type.tp_methods = device_methods;
  return type;
}();

PyTypeObject session_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "chx._core.Session";
  type.tp_doc = "A session with a daemon; made by chx.connect().";
  type.tp_basicsize = sizeof(PySession);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  type.tp_dealloc = DeallocSession;
  type.tp_repr = ReprSession;
  type.tp_new = NewSession;
  type.tp_methods = session_methods;
  type.tp_members = session_members;
  return type;
}();

PyMethodDef session_functions[] = {
    {"_get_default_session", GetDefaultSession, METH_NOARGS, nullptr},
    {"_set_default_session", SetDefaultSession, METH_O, nullptr},
    {"_get_global_session", GetGlobalSession, METH_NOARGS, nullptr},
    {"_get_thread_session", GetThreadSession, METH_NOARGS, nullptr},
    {"_set_thread_session", SetThreadSession, METH_O, nullptr},
    {"_get_thread_device", GetThreadDevice, METH_NOARGS, nullptr},
    {"_find_device", FindDeviceOf, METH_VARARGS, nullptr},
    {"get_default_device", GetDefaultDevice, METH_NOARGS,
     "get_default_device()\n--\n\nWhere the calling thread's new arrays are made."},
    {"set_default_device", SetDefaultDevice, METH_O,
     "set_default_device(device)\n--\n\nSets where the calling thread's new arrays are made."},
    {"_get_device", GetDevice, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

bool InitSessionTypes(PyObject* module) {
  return PyType_Ready(&device_type) == 0 && PyType_Ready(&session_type) == 0 &&
         PyModule_AddObjectRef(module, "Device", reinterpret_cast<PyObject*>(&device_type)) == 0 &&
         PyModule_AddObjectRef(module, "Session", reinterpret_cast<PyObject*>(&session_type)) == 0;
}

}  // namespace chx::python
