#include "absl/strings/str_cat.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

// Direct-mapped, by code object and instruction: a line costs its text once. Code objects are kept
// alive, so that their addresses stay theirs.
struct Entry {
  PyCodeObject* code;
  int instruction;
  uint32_t location;
};
constexpr size_t kEntries = 4096;
Entry entries[kEntries];

uint32_t Intern(PyCodeObject* code, int instruction) {
  Py_ssize_t size = 0;
  const char* file = PyUnicode_AsUTF8AndSize(code->co_filename, &size);
  if (file == nullptr) {
    PyErr_Clear();
    return 0;
  }
  const int line = PyCode_Addr2Line(code, instruction);
  return Session::InternLocation(
      absl::StrCat(absl::string_view(file, static_cast<size_t>(size)), ":", line));
}

}  // namespace

void SetCallerLocation() {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  if (frame == nullptr) return Session::SetLocation(0);
  PyCodeObject* code = PyFrame_GetCode(frame);
  const int instruction = PyFrame_GetLasti(frame);
  Entry& entry =
      entries[(reinterpret_cast<uintptr_t>(code) / 64 * 31 + static_cast<size_t>(instruction)) %
              kEntries];
  if (entry.code != code || entry.instruction != instruction) {
    entry.location = Intern(code, instruction);
    Py_XDECREF(entry.code);
    Py_INCREF(code);
    entry.code = code;
    entry.instruction = instruction;
  }
  Session::SetLocation(entry.location);
  Py_DECREF(code);
  Py_DECREF(frame);
}

}  // namespace chx::python
