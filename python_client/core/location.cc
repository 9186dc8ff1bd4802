#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/locations.h"
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
constexpr uint32_t kOurs = ~uint32_t{0};  // the location of this package's own lines

absl::string_view Text(PyObject* text) {
  Py_ssize_t size = 0;
  const char* const data = text == nullptr ? nullptr : PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) PyErr_Clear();
  return {data, static_cast<size_t>(size)};
}

// "/.../chx/", where this package's Python files are.
std::string PackageDirectory() {
  const Owned package(PyImport_ImportModule("chx"));
  const Owned path(package ? PyObject_GetAttrString(package.get(), "__path__") : nullptr);
  const Owned directory(path ? PySequence_GetItem(path.get(), 0) : nullptr);
  const absl::string_view text = Text(directory.get());
  return text.empty() ? "" : absl::StrCat(text, "/");
}

uint32_t Intern(PyCodeObject* code, int instruction) {
  // No static local: imports may let other threads run, which would wait for it with the lock.
  static std::string* package = nullptr;
  if (package == nullptr) package = new std::string(PackageDirectory());
  const absl::string_view file = Text(code->co_filename);
  if (file.empty()) return 0;
  if (!package->empty() && absl::StartsWith(file, *package)) return kOurs;
  return InternLocation(absl::StrCat(file, ":", PyCode_Addr2Line(code, instruction)));
}

uint32_t LocationOf(PyFrameObject* frame) {
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
  Py_DECREF(code);
  return entry.location;
}

}  // namespace

// The innermost line that is not of this package.
void SetCallerLocation() {
  uint32_t location = kOurs;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr && location == kOurs) {
    location = LocationOf(frame);
    PyFrameObject* const caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  Py_XDECREF(frame);
  SetLocation(location == kOurs ? 0 : location);
}

}  // namespace chx::python
