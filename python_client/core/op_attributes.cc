#include "python_client/core/op_attributes.h"

#include "absl/strings/str_join.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

// ChainerX has a character where all choices are letters, and checks its value later.
bool IsLetter(const AttrDef& attr) { return attr.choices[0].size() == 1; }

bool ToChoice(const OpDef& op, const AttrDef& attr, PyObject* object, AttrValue* value) {
  if (!PyUnicode_Check(object)) {
    PyErr_Format(PyExc_TypeError, "%s() expects a string for '%s', got %s", op.name.c_str(),
                 attr.name.c_str(), Py_TYPE(object)->tp_name);
    return false;
  }
  const char* word = PyUnicode_AsUTF8(object);
  if (word == nullptr) return false;
  for (size_t i = 0; i < attr.choices.size(); ++i) {
    if (attr.choices[i] == word) {
      *value = AttrValue(static_cast<int64_t>(i));
      return true;
    }
  }
  if (IsLetter(attr) && PyUnicode_GET_LENGTH(object) == 1) {
    Raise(ChainerxError("[", op.name, "] expects one of ", absl::StrJoin(attr.choices, ", "),
                        " for '", attr.name, "', got '", word, "'"));
    return false;
  }
  PyErr_Format(PyExc_ValueError, "%s() expects one of %s for '%s', got %R", op.name.c_str(),
               absl::StrJoin(attr.choices, ", ").c_str(), attr.name.c_str(), object);
  return false;
}

}  // namespace

bool ToAttr(const OpDef& op, const AttrDef& attr, PyObject* object, AttrValue* value) {
  const bool letter = !attr.choices.empty() && IsLetter(attr);
  if (object == nullptr || (object == Py_None && !letter)) {
    if (attr.required) {
      PyErr_Format(PyExc_TypeError, "%s() missing argument '%s'", op.name.c_str(),
                   attr.name.c_str());
      return false;
    }
    // An explicit None means the default, unless it is a value of its own.
    const bool none = object == Py_None && attr.nullable;
    *value = none ? AttrValue() : attr.default_value;
    return true;
  }
  if (!attr.choices.empty()) return ToChoice(op, attr, object, value);
  switch (attr.type) {
    case AttrType::kBool: {
      const int truth = PyObject_IsTrue(object);
      *value = AttrValue(truth == 1);
      return truth >= 0;
    }
    case AttrType::kInt: {
      const Py_ssize_t number = PyNumber_AsSsize_t(object, PyExc_OverflowError);
      *value = AttrValue(int64_t{number});
      return number != -1 || PyErr_Occurred() == nullptr;
    }
    case AttrType::kFloat: {
      const double number = PyFloat_AsDouble(object);
      *value = AttrValue(number);
      return number != -1 || PyErr_Occurred() == nullptr;
    }
    case AttrType::kDtype: {
      Dtype dtype;
      if (!ToDtype(object, &dtype)) return false;
      *value = AttrValue(dtype);
      return true;
    }
    case AttrType::kScalar: {
      Scalar scalar;
      if (!ToScalar(object, &scalar)) return false;
      *value = AttrValue(scalar);
      return true;
    }
    default: {
      Ints ints;
      if (!ToInts(object, &ints)) return false;
      *value = AttrValue(std::move(ints));
      return true;
    }
  }
}

}  // namespace chx::python
