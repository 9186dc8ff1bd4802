// DLPack capsules over Python's buffers. In C++ because who holds one lets go of it in any thread,
// without the interpreter's lock, and maybe after the interpreter's end.
#include <type_traits>

#include "absl/strings/string_view.h"
#include "python_client/core/common.h"
#include "python_client/core/dlpack.h"

namespace chx::python {
namespace {

template <typename Managed>
struct Exported {
  Managed managed = {};
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  PyObject* memory = nullptr;  // a memoryview
};

template <typename Managed>
void Delete(Managed* managed) {
  auto* const exported = static_cast<Exported<Managed>*>(managed->context);
  PyObject* const memory = exported->memory;
  delete exported;
  if (Py_IsInitialized() != 0) DropUnlocked(memory);
}

// Of a capsule that nobody has taken.
template <typename Managed>
void DeleteCapsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, Managed::kName) == 0) return;
  Delete(static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName)));
}

// Python's buffers have no format for bfloat16: they say uint16.
bool ToDlDtype(const Py_buffer& buffer, bool bfloat16, DlDtype* dtype) {
  const absl::string_view format = buffer.format == nullptr ? "B" : buffer.format;
  const auto is_in = [format](absl::string_view formats) {
    return format.size() == 1 && formats.find(format[0]) != absl::string_view::npos;
  };
  dtype->bits = static_cast<uint8_t>(8 * buffer.itemsize);
  dtype->lanes = 1;
  if (bfloat16) {
    dtype->code = kDlBfloat;
  } else if (is_in("?")) {
    dtype->code = kDlBool;
  } else if (is_in("bhilq")) {
    dtype->code = kDlInt;
  } else if (is_in("BHILQ")) {
    dtype->code = kDlUint;
  } else if (is_in("efd")) {
    dtype->code = kDlFloat;
  } else {
    PyErr_Format(PyExc_BufferError, "[dlpack] expects bool, integers or floats, got format '%s'",
                 buffer.format);
    return false;
  }
  return true;
}

// Strides in elements. Those of axes that are never stepped may be anything.
bool SetDims(const Py_buffer& buffer, std::vector<int64_t>* shape, std::vector<int64_t>* strides) {
  const bool empty = buffer.len == 0;
  int64_t compact = 1;
  shape->assign(buffer.shape, buffer.shape + buffer.ndim);
  strides->resize(shape->size());
  for (size_t i = shape->size(); i-- > 0;) {
    const bool stepped = (*shape)[i] > 1 && !empty;
    if (stepped && buffer.strides[i] % buffer.itemsize != 0) {
      PyErr_Format(PyExc_BufferError, "[dlpack] expects strides of whole elements, got %zd bytes",
                   buffer.strides[i]);
      return false;
    }
    (*strides)[i] = stepped ? buffer.strides[i] / buffer.itemsize : compact;
    compact *= (*shape)[i];
  }
  return true;
}

template <typename Managed>
PyObject* NewCapsule(PyObject* memory, bool bfloat16, uint64_t flags) {
  const Py_buffer& buffer = *PyMemoryView_GET_BUFFER(memory);
  auto exported = std::make_unique<Exported<Managed>>();
  DlTensor& tensor = exported->managed.tensor;
  if (!ToDlDtype(buffer, bfloat16, &tensor.dtype) ||
      !SetDims(buffer, &exported->shape, &exported->strides)) {
    return nullptr;
  }
  tensor.data = buffer.len == 0 ? nullptr : buffer.buf;
  tensor.device = {kDlCpu, 0};
  tensor.ndim = buffer.ndim;
  tensor.shape = exported->shape.data();
  tensor.strides = exported->strides.data();
  if constexpr (std::is_same_v<Managed, DlVersioned>) {
    exported->managed.major = 1;
    exported->managed.flags = flags;
  }
  exported->managed.context = exported.get();
  exported->managed.deleter = Delete<Managed>;
  PyObject* const capsule =
      PyCapsule_New(&exported->managed, Managed::kName, DeleteCapsule<Managed>);
  if (capsule != nullptr) exported.release()->memory = Py_NewRef(memory);
  return capsule;
}

// _dlpack_export(buffer, versioned, copied, bfloat16): the capsule, which keeps the buffer.
PyObject* DlpackExportFunction(PyObject*, PyObject* args) {
  PyObject* object = nullptr;
  int versioned = 0;
  int copied = 0;
  int bfloat16 = 0;
  if (!PyArg_ParseTuple(args, "Opp|p", &object, &versioned, &copied, &bfloat16)) return nullptr;
  const Owned memory(PyMemoryView_FromObject(object));
  if (!memory) return nullptr;
  const bool read_only = PyMemoryView_GET_BUFFER(memory.get())->readonly != 0;
  if (versioned != 0) {
    return NewCapsule<DlVersioned>(memory.get(), bfloat16 != 0,
                                   (read_only ? kDlReadOnly : 0) | (copied != 0 ? kDlCopied : 0));
  }
  if (read_only) {
    PyErr_SetString(PyExc_BufferError,
                    "[dlpack] expects max_version=(1, 0) for memory that is read-only");
    return nullptr;
  }
  return NewCapsule<DlManaged>(memory.get(), bfloat16 != 0, 0);
}

}  // namespace

PyMethodDef dlpack_export_functions[] = {
    {"_dlpack_export", DlpackExportFunction, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
