// What sessions keep under names.
#include "client/saved_arrays.h"

#include <string>
#include <utility>

#include "python_client/core/common.h"

namespace chx::python {
namespace {

// What `wait` gives, which works without the interpreter's lock.
template <typename T, typename Wait>
absl::StatusOr<T> Unlocked(Wait wait) {
  const WithoutGil nogil;
  return wait();
}

}  // namespace

// (name, tree: bytes, arrays) -> how many of them were computed
PyObject* SessionSave(PyObject* self, PyObject* args) {
  const char* name = nullptr;
  const char* tree = nullptr;
  Py_ssize_t bytes = 0;
  PyObject* list = nullptr;
  Arrays arrays;
  if (!PyArg_ParseTuple(args, "sy#O", &name, &tree, &bytes, &list) ||
      !ToArrays(list, false, &arrays)) {
    return nullptr;
  }
  const auto detached = Unlocked<uint64_t>([&] {
    return SessionOf(self)->saved().Save(name, absl::string_view(tree, static_cast<size_t>(bytes)),
                                         arrays.bodies);
  });
  if (!detached.ok()) return Raise(detached.status(), SessionOf(self));
  return PyLong_FromUnsignedLongLong(*detached);
}

// name -> (tree, [arrays])
PyObject* SessionLoad(PyObject* self, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  absl::StatusOr<SavedArrays::Tree> tree =
      Unlocked<SavedArrays::Tree>([&] { return SessionOf(self)->saved().Load(text); });
  if (!tree.ok()) return Raise(tree.status(), SessionOf(self));
  Owned list(PyList_New(0));
  for (ArrayPtr& array : tree->arrays) {
    const Owned wrapped(Wrap(std::move(array)));
    if (!list || !wrapped || PyList_Append(list.get(), wrapped.get()) < 0) return nullptr;
  }
  return Py_BuildValue("y#N", tree->tree.data(), static_cast<Py_ssize_t>(tree->tree.size()),
                       list.release());
}

PyObject* SessionSaved(PyObject* self, PyObject*) {
  const auto names =
      Unlocked<std::vector<std::string>>([&] { return SessionOf(self)->saved().Names(); });
  if (!names.ok()) return Raise(names.status(), SessionOf(self));
  Owned list(PyList_New(0));
  for (const std::string& name : *names) {
    const Owned text(
        PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "replace"));
    if (!list || !text || PyList_Append(list.get(), text.get()) < 0) return nullptr;
  }
  return list.release();
}

PyObject* SessionForget(PyObject* self, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  absl::Status status;
  {
    const WithoutGil nogil;
    status = SessionOf(self)->saved().Forget(text);
  }
  if (!status.ok()) return Raise(status, SessionOf(self));
  Py_RETURN_NONE;
}

PyObject* SessionNoteGenerator(PyObject* self, PyObject* state) {
  const char* text = PyUnicode_AsUTF8(state);
  if (text == nullptr) return nullptr;
  const absl::Status status = SessionOf(self)->saved().NoteGenerator(text);
  if (!status.ok()) return Raise(status, SessionOf(self));
  Py_RETURN_NONE;
}

// What the session's former client has noted; None: there was none.
PyObject* SessionFormerGenerator(PyObject* self, PyObject*) {
  const v1::KeptState& kept = SessionOf(self)->connection().kept();
  if (!kept.taken_up()) Py_RETURN_NONE;
  const std::string& state = kept.generator();
  return PyUnicode_DecodeUTF8(state.data(), static_cast<Py_ssize_t>(state.size()), "replace");
}

}  // namespace chx::python
