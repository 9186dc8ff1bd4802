// What DLPack capsules of other libraries hold, as Python's buffers.
#include "python_client/core/common.h"
#include "python_client/core/dlpack.h"

namespace chx::python {
namespace {

// What a capsule held, which now is ours to delete.
struct Taken {
  DlManaged* managed = nullptr;
  DlVersioned* versioned = nullptr;
  bool read_only = false;
  char format[2] = {};
  bool is_bfloat16 = false;
  Py_ssize_t item_size = 0;
  Py_ssize_t bytes = 0;
  char* data = nullptr;
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;  // in bytes

  ~Taken() {
    if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
    if (versioned != nullptr && versioned->deleter != nullptr) versioned->deleter(versioned);
  }
};

struct DlpackMemory {
  PyObject_HEAD Taken* taken;
};

void DlpackDealloc(PyObject* self) {
  delete reinterpret_cast<DlpackMemory*>(self)->taken;
  PyObject_Free(self);
}

int DlpackGetBuffer(PyObject* self, Py_buffer* view, int flags) {
  Taken& taken = *reinterpret_cast<DlpackMemory*>(self)->taken;
  view->obj = nullptr;
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES || (flags & PyBUF_FORMAT) == 0 ||
      ((flags & PyBUF_WRITABLE) != 0 && taken.read_only)) {
    PyErr_SetString(PyExc_BufferError, "[from_dlpack] expects a request for strides and a format");
    return -1;
  }
  *view = {};
  view->buf = taken.data;
  view->obj = Py_NewRef(self);
  view->len = taken.bytes;
  view->itemsize = taken.item_size;
  view->readonly = taken.read_only ? 1 : 0;
  view->ndim = static_cast<int>(taken.shape.size());
  view->format = taken.format;
  view->shape = taken.shape.data();
  view->strides = taken.strides.data();
  return 0;
}

PyBufferProcs dlpack_buffer_procs = {DlpackGetBuffer, nullptr};

PyTypeObject dlpack_memory_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "chx._core.DlpackMemory";
  type.tp_doc = "Another library's memory.";
  type.tp_basicsize = sizeof(DlpackMemory);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_dealloc = DlpackDealloc;
  type.tp_as_buffer = &dlpack_buffer_procs;
  return type;
}();

// The format of a buffer's elements, for bfloat16 that of uint16; 0: there is none.
char FormatOf(const DlDtype& dtype) {
  if (dtype.lanes != 1) return 0;
  switch (dtype.code << 8 | dtype.bits) {
    case kDlBool << 8 | 8:
      return '?';
    case kDlInt << 8 | 8:
      return 'b';
    case kDlInt << 8 | 16:
      return 'h';
    case kDlInt << 8 | 32:
      return 'i';
    case kDlInt << 8 | 64:
      return 'q';
    case kDlUint << 8 | 8:
      return 'B';
    case kDlUint << 8 | 16:
      return 'H';
    case kDlUint << 8 | 32:
      return 'I';
    case kDlUint << 8 | 64:
      return 'Q';
    case kDlFloat << 8 | 16:
      return 'e';
    case kDlBfloat << 8 | 16:
      return 'H';
    case kDlFloat << 8 | 32:
      return 'f';
    case kDlFloat << 8 | 64:
      return 'd';
    default:
      return 0;
  }
}

bool Describe(const DlTensor& tensor, Taken* taken) {
  if (tensor.device.type != kDlCpu) {
    PyErr_Format(PyExc_BufferError, "[from_dlpack] expects memory of the host, got device (%d, %d)",
                 tensor.device.type, tensor.device.id);
    return false;
  }
  const DlDtype& dtype = tensor.dtype;
  taken->format[0] = FormatOf(dtype);
  taken->is_bfloat16 = dtype.code == kDlBfloat;
  if (taken->format[0] == 0) {
    PyErr_Format(
        PyExc_BufferError,
        "[from_dlpack] expects bool, integers or floats of 16, 32 or 64 bits, got DLPack's "
        "type %d of %d bits and %d lanes",
        dtype.code, dtype.bits, dtype.lanes);
    return false;
  }
  if (tensor.ndim < 0 || tensor.ndim > PyBUF_MAX_NDIM) {
    PyErr_Format(PyExc_BufferError, "[from_dlpack] expects at most %d dimensions, got %d",
                 PyBUF_MAX_NDIM, tensor.ndim);
    return false;
  }
  const auto ndim = static_cast<size_t>(tensor.ndim);
  taken->data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  taken->item_size = taken->bytes = dtype.bits / 8;
  taken->shape.assign(tensor.shape, tensor.shape + ndim);
  taken->strides.resize(ndim);
  for (size_t i = ndim; i-- > 0;) {
    taken->strides[i] =
        tensor.strides == nullptr ? taken->bytes : tensor.strides[i] * taken->item_size;
    taken->bytes *= taken->shape[i];
  }
  return true;
}

// Takes the capsule's content. Null: it is of another name, or has been taken.
template <typename Managed>
Managed* Take(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, Managed::kName) == 0) return nullptr;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName));
  return PyCapsule_SetName(capsule, Managed::kUsedName) == 0 ? managed : nullptr;
}

// _dlpack_import(capsule): an object whose buffer is the memory, and which keeps it.
PyObject* ImportFunction(PyObject*, PyObject* capsule) {
  auto taken = std::make_unique<Taken>();
  const DlTensor* tensor = nullptr;
  if ((taken->versioned = Take<DlVersioned>(capsule)) != nullptr) {
    if (taken->versioned->major != 1) {
      PyErr_Format(PyExc_BufferError, "[from_dlpack] expects DLPack 1, got version %u.%u",
                   taken->versioned->major, taken->versioned->minor);
      return nullptr;
    }
    taken->read_only = (taken->versioned->flags & kDlReadOnly) != 0;
    tensor = &taken->versioned->tensor;
  } else if ((taken->managed = Take<DlManaged>(capsule)) != nullptr) {
    tensor = &taken->managed->tensor;
  } else {
    PyErr_SetString(PyExc_BufferError, "[from_dlpack] expects a DLPack capsule that is not taken");
    return nullptr;
  }
  if (!Describe(*tensor, taken.get())) return nullptr;
  auto* const memory = PyObject_New(DlpackMemory, &dlpack_memory_type);
  if (memory != nullptr) memory->taken = taken.release();
  return reinterpret_cast<PyObject*>(memory);
}

// _dlpack_is_bfloat16(memory): of what _dlpack_import has given; its buffer says uint16 then.
PyObject* IsBfloat16(PyObject*, PyObject* memory) {
  if (PyObject_TypeCheck(memory, &dlpack_memory_type) == 0) {
    PyErr_Format(PyExc_TypeError, "expected a DlpackMemory, got %s", Py_TYPE(memory)->tp_name);
    return nullptr;
  }
  return PyBool_FromLong(reinterpret_cast<DlpackMemory*>(memory)->taken->is_bfloat16 ? 1 : 0);
}

PyMethodDef dlpack_import_functions[] = {{"_dlpack_import", ImportFunction, METH_O, nullptr},
                                         {"_dlpack_is_bfloat16", IsBfloat16, METH_O, nullptr},
                                         {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool InitDlpack(PyObject* module) {
  return PyType_Ready(&dlpack_memory_type) == 0 &&
         PyModule_AddFunctions(module, dlpack_import_functions) == 0 &&
         PyModule_AddFunctions(module, dlpack_export_functions) == 0;
}

}  // namespace chx::python
