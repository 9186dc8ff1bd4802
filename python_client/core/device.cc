// Devices, and which of them a call works on.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

int DeviceTraverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(AsDevice(self)->backend);
  Py_VISIT(AsDevice(self)->session);
  return 0;
}

void DeviceDealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_XDECREF(AsDevice(self)->name);
  Py_XDECREF(AsDevice(self)->backend);
  Py_XDECREF(AsDevice(self)->session);
  PyObject_GC_Del(self);
}

PyObject* DeviceRepr(PyObject* self) { return Py_NewRef(AsDevice(self)->name); }

std::pair<std::string, std::string> Parts(PyObject* self) {
  const std::string name = PyUnicode_AsUTF8(AsDevice(self)->name);
  return absl::StrSplit(name, absl::MaxSplits(':', 1));
}

PyObject* DeviceGetName(PyObject* self, void*) { return Py_NewRef(AsDevice(self)->name); }
PyObject* GetIndex(PyObject* self, void*) {
  return PyLong_FromString(Parts(self).second.c_str(), nullptr, 10);
}
PyObject* GetBackend(PyObject* self, void*) { return Py_NewRef(AsDevice(self)->backend); }
PyObject* GetContext(PyObject* self, void*) {
  return PyObject_GetAttrString(AsDevice(self)->backend, "context");
}

PyObject* Reduce(PyObject* self, PyObject*) {
  const Owned reduce(GetCallback(Callback::kReduceDevice));
  return reduce ? PyObject_CallOneArg(reduce.get(), self) : nullptr;
}

bool TargetOf(PyDevice* device, Target* target) {
  if (device->session == nullptr) {
    Raise(MakeError(ErrorKind::kConnection, "the session is closed that the device is of"));
    return false;
  }
  target->keeper = Owned(Py_NewRef(device->session));
  target->session = AsSession(device->session)->session;
  target->device = device->id;
  return true;
}

PyObject* DeviceSynchronize(PyObject* self, PyObject*) {
  Target target;
  if (!TargetOf(AsDevice(self), &target)) return nullptr;
  return PyObject_CallMethod(target.keeper.get(), "synchronize", nullptr);
}

PyGetSetDef device_getset[] = {
    {"name", DeviceGetName, nullptr, "For example 'native:0'.", nullptr},
    {"index", GetIndex, nullptr, "Number within the backend.", nullptr},
    {"backend", GetBackend, nullptr, "The backend: its name is 'native' or 'cuda'.", nullptr},
    {"context", GetContext, nullptr, "The Context that the device is of.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef device_methods[] = {{"synchronize", DeviceSynchronize, METH_NOARGS,
                                 "synchronize()\n--\n\nWaits until all that was called is done."},
                                {"__reduce__", Reduce, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};

PyObject* GetDevice(PyObject*, PyObject* object) {
  if (Py_TYPE(object) == &device_type) return Py_NewRef(object);
  Target target;
  if (!ToTarget(object, &target)) return nullptr;
  return Py_NewRef(PyTuple_GET_ITEM(AsSession(target.keeper.get())->devices, target.device));
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

bool MakeDevices(PySession* session) {
  const std::vector<std::string>& names = session->session->devices();
  session->devices = PyTuple_New(static_cast<Py_ssize_t>(names.size()));
  const Owned make(GetCallback(Callback::kBackend));
  if (session->devices == nullptr || !make) return false;
  for (size_t i = 0; i < names.size(); ++i) {
    auto* const device = PyObject_GC_New(PyDevice, &device_type);
    if (device == nullptr) return false;
    device->name = PyUnicode_FromString(names[i].c_str());
    device->backend = nullptr;
    device->session = Py_NewRef(reinterpret_cast<PyObject*>(session));
    device->id = static_cast<DeviceId>(i);
    auto* const object = reinterpret_cast<PyObject*>(device);
    PyTuple_SET_ITEM(session->devices, static_cast<Py_ssize_t>(i), object);
    if (device->name == nullptr) return false;
    for (size_t j = 0; j < i && device->backend == nullptr; ++j) {
      PyObject* const other = PyTuple_GET_ITEM(session->devices, static_cast<Py_ssize_t>(j));
      if (Parts(other).first == Parts(object).first) {
        device->backend = Py_NewRef(AsDevice(other)->backend);
      }
    }
    if (device->backend == nullptr) {
      device->backend = PyObject_CallFunction(make.get(), "sO", Parts(object).first.c_str(),
                                              reinterpret_cast<PyObject*>(session));
    }
    if (device->backend == nullptr) return false;
    PyObject_GC_Track(object);
  }
  return true;
}

void DetachDevices(PySession* session) {
  if (session->devices == nullptr) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(session->devices); ++i) {
    Py_CLEAR(AsDevice(PyTuple_GET_ITEM(session->devices, i))->session);
  }
}

PyObject* DeviceOf(PyObject* array) {
  const PySession* const session = AsSession(reinterpret_cast<PyArray*>(array)->session);
  return Py_NewRef(PyTuple_GET_ITEM(session->devices, BodyOf(array)->spec.device));
}

bool DefaultTarget(Target* target) {
  if (DefaultSession() == nullptr) {
    const Owned connect(GetCallback(Callback::kConnectDefault));
    const Owned connected(connect ? PyObject_CallNoArgs(connect.get()) : nullptr);
    if (!connected) return false;
  }
  if (PyObject* const chosen = ThreadDevice()) return TargetOf(AsDevice(chosen), target);
  PyObject* const session = DefaultSession();
  if (session == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "there is no default session");
    return false;
  }
  target->keeper = Owned(Py_NewRef(session));
  target->session = AsSession(session)->session;
  target->device = 0;
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
                    absl::StrCat("the daemon does not serve backend '", backend, "'",
                                 backend == "gpu" ? " (GPUs are cuda:0, cuda:1, ...)" : "",
                                 ": it serves ", absl::StrJoin(names, ", "))));
  } else if (!absl::SimpleAtoi(parts.second, &index)) {
    Raise(ValueError("[get_device] expects 'BACKEND' or 'BACKEND:INDEX', got '", name, "'"));
  } else {
    Raise(MakeError(ErrorKind::kIndex,
                    absl::StrCat("the daemon does not serve device '", name, "': it has ", count,
                                 " of backend '", backend, "'")));
  }
  return false;
}

bool ToTarget(PyObject* object, Target* target) {
  if (object == nullptr || object == Py_None) return DefaultTarget(target);
  if (Py_TYPE(object) == &device_type) return TargetOf(AsDevice(object), target);
  if (!PyUnicode_Check(object)) {
    PyErr_Format(PyExc_TypeError, "expected a device or its name, got %s",
                 Py_TYPE(object)->tp_name);
    return false;
  }
  return DefaultTarget(target) && FindDevice(*target->session, object, &target->device);
}

PyTypeObject device_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "chx.Device";
  type.tp_doc = "A device of a session; there is one object for each.";
  type.tp_basicsize = sizeof(PyDevice);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_traverse = DeviceTraverse;
  type.tp_dealloc = DeviceDealloc;
  type.tp_repr = DeviceRepr;
  type.tp_getset = device_getset;
  type.tp_methods = device_methods;
  return type;
}();

PyMethodDef device_functions[] = {{"_find_device", FindDeviceOf, METH_VARARGS, nullptr},
                                  {"_get_device", GetDevice, METH_O, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};

bool InitDeviceType(PyObject* module) {
  return PyType_Ready(&device_type) == 0 &&
         PyModule_AddObjectRef(module, "Device", reinterpret_cast<PyObject*>(&device_type)) == 0;
}

}  // namespace chx::python
