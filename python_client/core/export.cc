// Arrays' memory as Python's buffers, and NumPy arrays of such memory as arrays again.
#include <utility>

#include "client/exports.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

// The bytes that an array's elements lie in; NumPy keeps it as the base of its arrays.
struct SharedMemory {
  PyObject_HEAD Export* exported;
  PyObject* session;  // PySession: it is open as long as anybody sees the memory
};

const Export& ExportOf(PyObject* self) { return *reinterpret_cast<SharedMemory*>(self)->exported; }

void SharedDealloc(PyObject* self) {
  delete reinterpret_cast<SharedMemory*>(self)->exported;
  PyObject* const session = reinterpret_cast<SharedMemory*>(self)->session;
  PyObject_Free(self);
  Py_DECREF(session);
}

// A broadcast array has elements that are one in memory: read-only, as NumPy's own.
bool IsReadOnly(const ArraySpec& spec) {
  for (int i = 0; i < spec.ndim(); ++i) {
    if (spec.shape[i] > 1 && spec.strides[i] == 0) return true;
  }
  return false;
}

int SharedGetBuffer(PyObject* self, Py_buffer* view, int flags) {
  const Export& exported = ExportOf(self);
  const ByteRange range = BytesTouched(exported.spec());
  return PyBuffer_FillInfo(view, self, exported.block() + range.begin, range.end - range.begin,
                           IsReadOnly(exported.spec()) || !exported.writable() ? 1 : 0, flags);
}

PyBufferProcs shared_buffer_procs = {SharedGetBuffer, nullptr};

PyTypeObject shared_memory_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "chx._core.SharedMemory";
  type.tp_doc = "An array's memory, which the daemon maps too.";
  type.tp_basicsize = sizeof(SharedMemory);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_dealloc = SharedDealloc;
  type.tp_as_buffer = &shared_buffer_procs;
  return type;
}();

// _export(array) -> (memory, offset, strides), or None where memory is not shared.
PyObject* ExportFunction(PyObject*, PyObject* object) {
  if (!IsArray(object)) {
    PyErr_Format(PyExc_TypeError, "expected an ndarray, got %s", Py_TYPE(object)->tp_name);
    return nullptr;
  }
  const ArrayPtr body(BodyOf(object));
  absl::StatusOr<std::unique_ptr<Export>> exported = absl::UnknownError("");
  {
    const WithoutGil nogil;
    exported = body->session->exports().ExportArray(body);
  }
  if (!exported.ok()) return Raise(exported.status(), body->session.get());
  if (*exported == nullptr) Py_RETURN_NONE;
  auto* const memory = PyObject_New(SharedMemory, &shared_memory_type);
  if (memory == nullptr) return nullptr;
  memory->exported = exported->release();
  memory->session = Py_NewRef(reinterpret_cast<PyArray*>(object)->session);
  const Owned owned(reinterpret_cast<PyObject*>(memory));
  const ArraySpec& spec = memory->exported->spec();
  const Owned strides(FromDims(spec.strides));
  if (!strides) return nullptr;
  return Py_BuildValue("OLO", owned.get(),
                       static_cast<long long>(spec.offset - BytesTouched(spec).begin),
                       strides.get());
}

// _import(address, dtype, shape, strides, device): the array over exported memory; None if the
// address is elsewhere.
PyObject* Import(PyObject*, PyObject* args) {
  unsigned long long address = 0;
  PyObject *dtype_object = nullptr, *shape_object = nullptr, *strides_object = nullptr;
  PyObject* device_object = nullptr;
  ArraySpec spec;
  Ints shape;
  Ints strides;
  Target target;
  if (!PyArg_ParseTuple(args, "KOOOO", &address, &dtype_object, &shape_object, &strides_object,
                        &device_object) ||
      !ToDtype(dtype_object, &spec.dtype) || !ToInts(shape_object, &shape) ||
      !ToInts(strides_object, &strides) || !ToTarget(device_object, &target)) {
    return nullptr;
  }
  spec.device = target.device;
  if (shape.size() > kMaxNdim || strides.size() != shape.size()) Py_RETURN_NONE;
  spec.shape = Shape(shape);
  spec.strides = Strides(strides);
  absl::StatusOr<ArrayPtr> array = absl::UnknownError("");
  {
    const WithoutGil nogil;
    array = target.session->exports().ImportArray(reinterpret_cast<const char*>(address),
                                                  std::move(spec));
  }
  if (!array.ok()) return Raise(array.status(), target.session);
  if (!*array) Py_RETURN_NONE;
  return Wrap(*std::move(array));
}

PyMethodDef export_functions[] = {{"_export", ExportFunction, METH_O, nullptr},
                                  {"_import", Import, METH_VARARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool InitExports(PyObject* module) {
  return PyType_Ready(&shared_memory_type) == 0 &&
         PyModule_AddFunctions(module, export_functions) == 0;
}

}  // namespace chx::python
