// The functions of the package that the core calls. Python registers them when it is imported, so
// that the core imports nothing of the package.
#include <array>

#include "absl/strings/string_view.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

// In the order of the enum.
constexpr std::array<const char*, kNumCallbacks> kNames = {
    "Backend",  "as_array_like",      "as_grad_stopped", "as_indices",        "as_operand",
    "backward", "call_with_keywords", "connect_default", "getitem_by_arrays", "new_ndarray",
    "Number",   "reduce_device",      "repr_array",      "setitem_by_arrays", "signature",
    "to_numpy"};

std::array<PyObject*, kNumCallbacks> callbacks;  // null before they are registered

bool IsKnown(PyObject* name) {
  const char* const text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return false;
  for (const char* known : kNames) {
    if (absl::string_view(text) == known) return true;
  }
  PyErr_Format(PyExc_TypeError, "[_register] got an unknown callback '%s'", text);
  return false;
}

// _register(**callbacks): all of them, by name. Registers none if one is wrong.
PyObject* Register(PyObject*, PyObject* args, PyObject* kwargs) {
  if (PyTuple_GET_SIZE(args) != 0) {
    PyErr_SetString(PyExc_TypeError, "[_register] expects callbacks by name, got positional ones");
    return nullptr;
  }
  const Owned given(kwargs == nullptr ? PyDict_New() : Py_NewRef(kwargs));
  if (!given) return nullptr;
  Py_ssize_t position = 0;
  PyObject *name = nullptr, *function = nullptr;
  while (PyDict_Next(given.get(), &position, &name, &function) != 0) {
    if (!IsKnown(name)) return nullptr;
  }
  std::array<PyObject*, kNumCallbacks> found = {};
  for (size_t i = 0; i < kNames.size(); ++i) {
    found[i] = PyDict_GetItemString(given.get(), kNames[i]);
    if (found[i] == nullptr) {
      PyErr_Format(PyExc_TypeError, "[_register] expects a callback '%s', got none", kNames[i]);
      return nullptr;
    }
    if (PyCallable_Check(found[i]) == 0) {
      PyErr_Format(PyExc_TypeError, "[_register] expects '%s' to be callable, got %s", kNames[i],
                   Py_TYPE(found[i])->tp_name);
      return nullptr;
    }
  }
  for (size_t i = 0; i < kNames.size(); ++i) {
    const Owned old(callbacks[i]);
    callbacks[i] = Py_NewRef(found[i]);
  }
  Py_RETURN_NONE;
}

}  // namespace

PyObject* GetCallback(Callback callback) {
  const auto i = static_cast<size_t>(callback);
  if (callbacks[i] != nullptr) return Py_NewRef(callbacks[i]);
  PyErr_Format(PyExc_RuntimeError, "[_core] expects '%s' to be registered: import chx first",
               kNames[i]);
  return nullptr;
}

bool IsTraced(PyObject* object) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) ==
         callbacks[static_cast<size_t>(Callback::kNumber)];
}

PyMethodDef callback_functions[] = {
    {"_register",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Register)),  // NOLINT
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
