// Memory for large results, kept for the next ones: what the system has yet to make costs more than
// to copy into it, and NumPy's allocator returns what is large at once.
#include <sys/mman.h>

#include "python_client/core/common.h"

namespace chx::python {
namespace {

struct Block {
  char* data;
  Py_ssize_t bytes;
};

struct ResultMemory {
  PyObject_HEAD Block block;
};

constexpr Py_ssize_t kUnit = 2 << 20;  // a large page
constexpr size_t kMaxIdle = 8;
constexpr Py_ssize_t kMaxIdleBytes = 256 << 20;

// Oldest first. The system may take their pages whenever it needs any, without writing them out.
std::vector<Block>& Idle() {
  static auto* const idle = new std::vector<Block>;
  return *idle;
}

Block TakeBlock(Py_ssize_t bytes) {
  std::vector<Block>& idle = Idle();
  for (size_t i = idle.size(); i-- > 0;) {
    const Block block = idle[i];
    if (block.bytes < bytes || block.bytes - bytes > bytes / 4) continue;
    idle.erase(idle.begin() + static_cast<ptrdiff_t>(i));
    return block;
  }
  void* const data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return {nullptr, 0};
  madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return {static_cast<char*>(data), bytes};
}

void KeepBlock(const Block& block) {
  std::vector<Block>& idle = Idle();
  if (madvise(block.data, static_cast<size_t>(block.bytes), MADV_FREE) != 0 ||
      block.bytes > kMaxIdleBytes) {
    munmap(block.data, static_cast<size_t>(block.bytes));
    return;
  }
  idle.push_back(block);
  Py_ssize_t total = 0;
  for (const Block& each : idle) total += each.bytes;
  while (idle.size() > kMaxIdle || total > kMaxIdleBytes) {
    total -= idle.front().bytes;
    munmap(idle.front().data, static_cast<size_t>(idle.front().bytes));
    idle.erase(idle.begin());
  }
}

void ResultDealloc(PyObject* self) {
  KeepBlock(reinterpret_cast<ResultMemory*>(self)->block);
  PyObject_Free(self);
}

int ResultGetBuffer(PyObject* self, Py_buffer* view, int flags) {
  const Block& block = reinterpret_cast<ResultMemory*>(self)->block;
  return PyBuffer_FillInfo(view, self, block.data, block.bytes, 0, flags);
}

PyBufferProcs result_buffer_procs = {ResultGetBuffer, nullptr};

PyTypeObject result_memory_type = [] {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "chx._core.ResultMemory";
  type.tp_doc = "Memory of this process for a large result, used again when nobody has it.";
  type.tp_basicsize = sizeof(ResultMemory);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_dealloc = ResultDealloc;
  type.tp_as_buffer = &result_buffer_procs;
  return type;
}();

// _result_memory(bytes) -> a writable buffer of at least as many bytes, of unspecified values.
PyObject* NewResultMemory(PyObject*, PyObject* object) {
  const Py_ssize_t bytes = PyNumber_AsSsize_t(object, PyExc_OverflowError);
  if (bytes == -1 && PyErr_Occurred() != nullptr) return nullptr;
  if (bytes <= 0 || bytes > PY_SSIZE_T_MAX - kUnit) {
    PyErr_Format(PyExc_ValueError, "expected a number of bytes, got %zd", bytes);
    return nullptr;
  }
  const Block block = TakeBlock((bytes + kUnit - 1) / kUnit * kUnit);
  if (block.data == nullptr) return PyErr_NoMemory();
  auto* const memory = PyObject_New(ResultMemory, &result_memory_type);
  if (memory == nullptr) {
    KeepBlock(block);
    return nullptr;
  }
  memory->block = block;
  return reinterpret_cast<PyObject*>(memory);
}

PyMethodDef result_functions[] = {{"_result_memory", NewResultMemory, METH_O, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool InitResultMemory(PyObject* module) {
  return PyType_Ready(&result_memory_type) == 0 &&
         PyModule_AddFunctions(module, result_functions) == 0;
}

}  // namespace chx::python
