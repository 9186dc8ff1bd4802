// a[index] and a[index] = value.
#include <algorithm>
#include <utility>

#include "client/modes.h"
#include "ops/basic_index.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

bool ToOptional(PyObject* object, absl::optional<int64_t>* value) {
  if (object == Py_None) return true;
  if (!PyIndex_Check(object)) {
    PyErr_SetString(PyExc_TypeError, "slice indices must be integers or None");
    return false;
  }
  // As Python does, beyond the range the nearest counts.
  *value = PyNumber_AsSsize_t(object, nullptr);
  return *value != -1 || PyErr_Occurred() == nullptr;
}

void RaiseBadIndex(PyObject* item) {
  PyErr_Format(PyExc_IndexError,
               "only integers, slices, None and Ellipsis are valid indices, got %s",
               Py_TYPE(item)->tp_name);
}

bool AddItem(PyObject* item, IndexBuilder* builder) {
  if (item == Py_None) {
    builder->NewAxis();
  } else if (item == Py_Ellipsis) {
    builder->Ellipsis();
  } else if (PySlice_Check(item)) {
    auto* slice = reinterpret_cast<PySliceObject*>(item);
    absl::optional<int64_t> start, stop, step;
    if (!ToOptional(slice->start, &start) || !ToOptional(slice->stop, &stop) ||
        !ToOptional(slice->step, &step)) {
      return false;
    }
    builder->Slice(start, stop, step);
  } else if (PyIndex_Check(item) && !PyBool_Check(item)) {
    const Py_ssize_t i = PyNumber_AsSsize_t(item, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred() != nullptr) {
      // NumPy arrays of more than one element only look like integers.
      if (PyErr_ExceptionMatches(PyExc_TypeError) != 0) RaiseBadIndex(item);
      return false;
    }
    builder->Int(i);
  } else {
    RaiseBadIndex(item);
    return false;
  }
  return true;
}

PyObject* GetByAttr(PyObject* self, const AttrValue& index) {
  static const OpDef& op = Op("getitem");
  const Operand input(BodyOf(self));
  return Call(BodyOf(self)->session.get(), op, absl::MakeConstSpan(&input, 1),
              absl::MakeConstSpan(&index, 1), 0);
}

// NumPy's before 2.0 have an __index__, like numbers.
bool IsNumpyBool(PyObject* item) {
  const absl::string_view type = Py_TYPE(item)->tp_name;
  return type == "numpy.bool_" || type == "numpy.bool";
}

bool IsBasic(PyObject* item) {
  return item == Py_None || item == Py_Ellipsis || PySlice_Check(item) ||
         (PyIndex_Check(item) && !PyBool_Check(item) && !PySequence_Check(item) &&
          !IsNumpyBool(item));
}

// Whether some item of a key, or the key itself, is such.
template <typename Predicate>
bool AnyItem(PyObject* key, Predicate predicate) {
  if (!PyTuple_Check(key)) return predicate(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    if (predicate(PyTuple_GET_ITEM(key, i))) return true;
  }
  return false;
}

PyObject* GetItem(PyObject* self, PyObject* key) {
  IndexBuilder builder;
  if (AnyItem(key, [](PyObject* item) { return !IsBasic(item); })) {
    const Owned get(GetCallback(Callback::kGetItemByArrays));
    return get ? PyObject_CallFunctionObjArgs(get.get(), self, key, nullptr) : nullptr;
  }
  if (!PyTuple_Check(key)) {
    if (!AddItem(key, &builder)) return nullptr;
  } else {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
      if (!AddItem(PyTuple_GET_ITEM(key, i), &builder)) return nullptr;
    }
  }
  return GetByAttr(self, builder.Build());
}

// As NumPy writes what has more dimensions than there is room for, if they are ones.
Owned WithoutLeadingOnes(Owned array, const ArraySpec& room) {
  const Shape& shape = BodyOf(array.get())->spec.shape;
  const int extra = static_cast<int>(shape.size()) - room.ndim();
  if (extra <= 0 ||
      std::any_of(shape.begin(), shape.begin() + extra, [](int64_t dim) { return dim != 1; })) {
    return array;
  }
  const Owned zeros(PyTuple_New(extra));
  for (int i = 0; zeros && i < extra; ++i) {
    PyTuple_SET_ITEM(zeros.get(), i, PyLong_FromLong(0));
  }
  return Owned(zeros ? GetItem(array.get(), zeros.get()) : nullptr);
}

// Graphs that are gone don't count.
bool CheckUnconnected(PyObject* self) {
  if (!ResolveArray(self)) return false;
  const ArrayBody& body = *BodyOf(self);
  for (const GraphMembership& membership : body.memberships) {
    if (!body.session->graphs().backprop_ids().IsOpen(membership.node->id)) continue;
    PyErr_SetString(PyExc_RuntimeError,
                    "[setitem] expects an array outside of graphs: use as_grad_stopped()");
    return false;
  }
  return true;
}

// A view of what the index selects, and a copy of the value into it. Keys that are not basic are
// taken apart in Python (chx/_numpy/advanced_indexing.py).
int SetItem(PyObject* array, PyObject* key, PyObject* value) {
  if (value == nullptr) {
    PyErr_SetString(PyExc_TypeError, "elements of an array cannot be deleted");
    return -1;
  }
  const Owned target = WriteTarget(array);
  if (!target) return -1;
  PyObject* const self = target.get();
  if (!CheckUnconnected(self)) return -1;
  if (AnyItem(key, [](PyObject* item) { return !IsBasic(item); })) {
    const Owned set(GetCallback(Callback::kSetItemByArrays));
    return set && Owned(PyObject_CallFunctionObjArgs(set.get(), self, key, value, nullptr)) ? 0
                                                                                            : -1;
  }
  const Owned view(GetItem(self, key));
  if (!view) return -1;
  Operand source;
  Owned converted;
  if (!IsArray(value) && IsScalar(value)) {
    Scalar scalar;
    if (!ToScalar(value, &scalar)) return -1;
    source = Operand(scalar);
  } else {
    if (IsArray(value)) {
      converted = Owned(Py_NewRef(value));
    } else {
      const Owned convert(GetCallback(Callback::kAsArrayLike));
      if (convert)
        converted = Owned(PyObject_CallFunctionObjArgs(convert.get(), value, self, nullptr));
    }
    if (converted) converted = WithoutLeadingOnes(std::move(converted), BodyOf(view.get())->spec);
    if (!converted) return -1;
    source = Operand(BodyOf(converted.get()));
  }
  // The value is taken as a constant. The view says whether it may be written.
  const NoBackpropMode stopped;
  static const OpDef& op = Op("copyto");
  const Operand inputs[] = {Operand(BodyOf(view.get())), source};
  const Owned done(Call(BodyOf(self)->session.get(), op, inputs, {}, 0));
  return done ? 0 : -1;
}

Py_ssize_t Length(PyObject* self) {
  const ArraySpec& spec = BodyOf(self)->spec;
  if (spec.ndim() > 0) return static_cast<Py_ssize_t>(spec.shape[0]);
  PyErr_SetString(PyExc_TypeError, "len() of unsized object");
  return -1;
}

PyObject* SequenceItem(PyObject* self, Py_ssize_t i) {
  return GetByAttr(self, IndexBuilder().Int(i).Build());
}

// Whether some element equals the value; waits.
int Contains(PyObject* self, PyObject* value) {
  const Owned same(PyObject_RichCompare(self, value, Py_EQ));
  if (!same || !IsArray(same.get())) return same ? PyObject_IsTrue(same.get()) : -1;
  const Owned any(PyObject_CallMethod(same.get(), "any", nullptr));
  return any ? PyObject_IsTrue(any.get()) : -1;
}

}  // namespace

PyMappingMethods array_as_mapping = {Length, GetItem, SetItem};

PySequenceMethods array_as_sequence = [] {
  PySequenceMethods slots = {};
  slots.sq_length = Length;
  slots.sq_item = SequenceItem;
  slots.sq_contains = Contains;
  return slots;
}();

}  // namespace chx::python
