#include <cmath>
#include <cstring>

#include "python_client/core/common.h"

namespace chx::python {
namespace {

PyObject* dtypes[kNumDtypes];  // null: bfloat16, without the package that has it
PyObject* numpy_generic;       // base class of NumPy's scalars
PyObject* numpy_dtype;

bool NumpyScalar(PyObject* object, Scalar* scalar) {
  const Owned dtype(PyObject_GetAttrString(object, "dtype"));
  const Owned kind(dtype ? PyObject_GetAttrString(dtype.get(), "kind") : nullptr);
  const char* text = kind ? PyUnicode_AsUTF8(kind.get()) : nullptr;
  if (text == nullptr) return false;
  const Owned number(PyObject_CallMethod(object, "item", nullptr));
  if (!number) return false;
  if (PyBool_Check(number.get()) || PyLong_Check(number.get()) || PyFloat_Check(number.get())) {
    return ToScalar(number.get(), scalar);
  }
  PyErr_Format(PyExc_TypeError, "expected a number, got %s", Py_TYPE(object)->tp_name);
  return false;
}

}  // namespace

bool InitConvert() {
  const Owned numpy(PyImport_ImportModule("numpy"));
  if (!numpy) return false;
  numpy_generic = PyObject_GetAttrString(numpy.get(), "generic");
  numpy_dtype = PyObject_GetAttrString(numpy.get(), "dtype");
  for (int i = 0; i < kNumDtypes; ++i) {
    if (static_cast<Dtype>(i) == Dtype::kBfloat16) continue;
    const std::string name(DtypeName(static_cast<Dtype>(i)));
    dtypes[i] = PyObject_CallFunction(numpy_dtype, "s", name.c_str());
    if (dtypes[i] == nullptr) return false;
  }
  // NumPy knows the name "bfloat16" from here on.
  const Owned ml_dtypes(PyImport_ImportModule("ml_dtypes"));
  if (ml_dtypes) {
    const Owned type(PyObject_GetAttrString(ml_dtypes.get(), "bfloat16"));
    PyObject*& dtype = dtypes[static_cast<int>(Dtype::kBfloat16)];
    dtype = type ? PyObject_CallOneArg(numpy_dtype, type.get()) : nullptr;
    if (dtype == nullptr) return false;
  } else if (PyErr_ExceptionMatches(PyExc_ImportError) == 0) {
    return false;
  } else {
    PyErr_Clear();
  }
  return numpy_generic != nullptr && numpy_dtype != nullptr;
}

bool IsScalar(PyObject* object) {
  return PyFloat_Check(object) || PyLong_Check(object) || IsTraced(object) ||
         PyObject_IsInstance(object, numpy_generic) == 1;
}

bool ToScalar(PyObject* object, Scalar* scalar) {
  if (PyBool_Check(object)) {
    *scalar = Scalar(object == Py_True);
    return true;
  }
  if (PyLong_Check(object)) {
    const long long value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred() != nullptr) return false;
    *scalar = Scalar(static_cast<int64_t>(value));
    return true;
  }
  if (PyFloat_Check(object)) {
    *scalar = Scalar(PyFloat_AS_DOUBLE(object));
    return true;
  }
  if (IsTraced(object)) {
    const Owned number(PyNumber_Float(object));
    return number && ToScalar(number.get(), scalar);
  }
  if (PyObject_IsInstance(object, numpy_generic) == 1) return NumpyScalar(object, scalar);
  PyErr_Format(PyExc_TypeError, "expected a number, got %s", Py_TYPE(object)->tp_name);
  return false;
}

bool ToInts(PyObject* object, Ints* ints) {
  if (PyIndex_Check(object) && !PySequence_Check(object)) {  // a NumPy array is both
    const Py_ssize_t value = PyNumber_AsSsize_t(object, PyExc_OverflowError);
    if (value == -1 && PyErr_Occurred() != nullptr) return false;
    ints->push_back(value);
    return true;
  }
  const Owned sequence(PySequence_Fast(object, "expected an int or a sequence of ints"));
  if (!sequence) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(sequence.get(), i);
    const Py_ssize_t value = PyNumber_AsSsize_t(item, PyExc_OverflowError);
    if (value == -1 && PyErr_Occurred() != nullptr) return false;
    ints->push_back(value);
  }
  return true;
}

namespace {

// Whether it is one of the objects that NumPy has for these dtypes.
bool KnownDtype(PyObject* object, Dtype* dtype) {
  for (int i = 0; i < kNumDtypes; ++i) {
    if (dtypes[i] == object) {
      *dtype = static_cast<Dtype>(i);
      return true;
    }
  }
  return false;
}

}  // namespace

bool ToDtype(PyObject* object, Dtype* dtype) {
  if (KnownDtype(object, dtype)) return true;
  const Owned normal(PyObject_CallOneArg(numpy_dtype, object));
  if (!normal) return false;
  // Asking for the name takes longer than all the rest of a call.
  if (KnownDtype(normal.get(), dtype)) return true;
  const Owned name(PyObject_GetAttrString(normal.get(), "name"));
  const char* text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (text == nullptr) return false;
  const absl::optional<Dtype> found = DtypeFromName(text);
  if (!found.has_value()) {
    Raise(DtypeError("unsupported dtype: ", text));
    return false;
  }
  *dtype = *found;
  return true;
}

bool ToBackpropId(PyObject* object, BackpropId* id) {
  *id = 0;
  if (object == nullptr || object == Py_None) return true;
  const Owned number(PyObject_GetAttrString(object, "_id"));
  if (!number) {
    PyErr_Format(PyExc_TypeError, "expected a BackpropId, got %s", Py_TYPE(object)->tp_name);
    return false;
  }
  *id = static_cast<BackpropId>(PyLong_AsUnsignedLong(number.get()));
  return PyErr_Occurred() == nullptr;
}

PyObject* FromDims(const Dims& dims) {
  PyObject* tuple = PyTuple_New(dims.size());
  for (int i = 0; tuple != nullptr && i < dims.size(); ++i) {
    PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(dims[i]));
  }
  return tuple;
}

PyObject* FromDtype(Dtype dtype) {
  PyObject* const known = dtypes[static_cast<int>(dtype)];
  if (known != nullptr) return Py_NewRef(known);
  PyErr_Format(PyExc_ImportError, "[%s] needs the package ml_dtypes: pip install ml_dtypes",
               DtypeName(dtype).data());
  return nullptr;
}

PyObject* FromScalarBytes(const char* data, Dtype dtype) {
  const auto read = [data](auto value) {
    std::memcpy(&value, data, sizeof(value));
    return value;
  };
  switch (dtype) {
    case Dtype::kBool:
      return PyBool_FromLong(read(uint8_t{}));
    case Dtype::kInt8:
      return PyLong_FromLong(read(int8_t{}));
    case Dtype::kInt16:
      return PyLong_FromLong(read(int16_t{}));
    case Dtype::kInt32:
      return PyLong_FromLong(read(int32_t{}));
    case Dtype::kInt64:
      return PyLong_FromLongLong(read(int64_t{}));
    case Dtype::kUint8:
      return PyLong_FromLong(read(uint8_t{}));
    case Dtype::kFloat16:
      return PyFloat_FromDouble(PyFloat_Unpack2(data, 1));
    case Dtype::kBfloat16:
      return PyFloat_FromDouble(NarrowFloatToDouble(dtype, read(uint16_t{})));
    case Dtype::kFloat32:
      return PyFloat_FromDouble(read(float{}));
    case Dtype::kFloat64:
      break;
  }
  return PyFloat_FromDouble(read(double{}));
}

}  // namespace chx::python
