// Files of the daemon's operator, as chx/_data_files.py reads them.
#include <cstring>
#include <utility>

#include "client/data_files.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

// (session, path) -> [(name, dtype, shape)]
PyObject* Describe(PyObject*, PyObject* args) {
  PyObject* session = nullptr;
  const char* path = nullptr;
  if (!PyArg_ParseTuple(args, "O!s", &session_type, &session, &path)) return nullptr;
  absl::StatusOr<std::vector<DataFileArray>> arrays = absl::UnknownError("");
  {
    const std::string file = path;
    const WithoutGil nogil;
    arrays = DescribeDataFile(AsSession(session)->session, file);
  }
  if (!arrays.ok()) return Raise(arrays.status(), AsSession(session)->session);
  Owned list(PyList_New(0));
  for (const DataFileArray& array : *arrays) {
    const Owned item(Py_BuildValue(
        "NNN",
        PyUnicode_DecodeUTF8(array.name.data(), static_cast<Py_ssize_t>(array.name.size()),
                             "surrogateescape"),
        FromDtype(array.dtype), FromDims(array.shape)));
    if (!list || !item || PyList_Append(list.get(), item.get()) < 0) return nullptr;
  }
  return list.release();
}

// (device, path, name, dtype, shape, rows as bytes) -> array
PyObject* Read(PyObject*, PyObject* args) {
  PyObject* device = nullptr;
  const char* path = nullptr;
  PyObject* name = nullptr;
  PyObject* dtype = nullptr;
  PyObject* shape = nullptr;
  const char* rows = nullptr;
  Py_ssize_t bytes = 0;
  DataFileArray array;
  Ints dims;
  Target target;
  if (!PyArg_ParseTuple(args, "OsUOOy#", &device, &path, &name, &dtype, &shape, &rows, &bytes) ||
      !ToTarget(device, &target) || !ToDtype(dtype, &array.dtype) || !ToInts(shape, &dims)) {
    return nullptr;
  }
  const Owned encoded(PyUnicode_AsEncodedString(name, "utf-8", "surrogateescape"));
  if (!encoded) return nullptr;
  array.name = PyBytes_AS_STRING(encoded.get());
  array.shape = Shape(dims);
  std::vector<int64_t> numbers(static_cast<size_t>(bytes) / sizeof(int64_t));
  std::memcpy(numbers.data(), rows, numbers.size() * sizeof(int64_t));
  absl::StatusOr<ArrayPtr> made = absl::UnknownError("");
  {
    const std::string file = path;
    const WithoutGil nogil;
    made = ReadDataFile(target.session, file, array, target.device, numbers);
  }
  if (!made.ok()) return Raise(made.status(), target.session);
  return Wrap(*std::move(made));
}

}  // namespace

PyMethodDef data_functions[] = {{"_data_describe", Describe, METH_VARARGS, nullptr},
                                {"_data_read", Read, METH_VARARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
