// Automatic mixed precision of the calling thread.
#include "client/autocast.h"

#include "python_client/core/common.h"

namespace chx::python {
namespace {

// _push_autocast(dtype): None: operators compute in the dtypes that come.
PyObject* PushAutocastFunction(PyObject*, PyObject* object) {
  Dtype dtype = Dtype::kFloat32;
  if (object == Py_None) {
    PushAutocast(absl::nullopt);
    Py_RETURN_NONE;
  }
  if (!ToDtype(object, &dtype)) return nullptr;
  if (!IsNarrowFloat(dtype)) {
    return Raise(DtypeError("[autocast] expects float16 or bfloat16, got ", DtypeName(dtype)));
  }
  PushAutocast(dtype);
  Py_RETURN_NONE;
}

PyObject* PopAutocastFunction(PyObject*, PyObject*) {
  PopAutocast();
  Py_RETURN_NONE;
}

// _autocast(): the name of the dtype; None: there is none.
PyObject* AutocastFunction(PyObject*, PyObject*) {
  const absl::optional<Dtype> dtype = CurrentAutocast();
  if (!dtype.has_value()) Py_RETURN_NONE;
  const absl::string_view name = DtypeName(*dtype);
  return PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
}

}  // namespace

PyMethodDef autocast_functions[] = {{"_push_autocast", PushAutocastFunction, METH_O, nullptr},
                                    {"_pop_autocast", PopAutocastFunction, METH_NOARGS, nullptr},
                                    {"_autocast", AutocastFunction, METH_NOARGS, nullptr},
                                    {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
