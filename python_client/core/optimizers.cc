// The table of optimizers, which Python's classes share with those of C++.
#include "ops/optimizer_rules.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

PyObject* FromNumber(Scalar number) {
  if (number.kind() == ScalarKind::kBool) return PyBool_FromLong(number.AsBool() ? 1 : 0);
  return PyFloat_FromDouble(number.AsDouble());
}

PyObject* FromHyperparameters(const std::vector<Hyperparameter>& hyperparameters) {
  Owned dict(PyDict_New());
  for (const Hyperparameter& hyperparameter : hyperparameters) {
    const Owned value(FromNumber(hyperparameter.value));
    if (!dict || !value ||
        PyDict_SetItemString(dict.get(), hyperparameter.name.c_str(), value.get()) < 0) {
      return nullptr;
    }
  }
  return dict.release();
}

PyObject* FromStates(const OptimizerRule& rule) {
  Owned dict(PyDict_New());
  for (const auto& [name, first] : rule.states) {
    const Owned value(PyFloat_FromDouble(first));
    if (!dict || !value || PyDict_SetItemString(dict.get(), name.c_str(), value.get()) < 0) {
      return nullptr;
    }
  }
  return dict.release();
}

// _optimizer_rules() -> {rule: (operator, {state: first}, {hyperparameter: default})}
PyObject* Rules(PyObject*, PyObject*) {
  Owned dict(PyDict_New());
  for (const OptimizerRule& rule : OptimizerRules()) {
    const Owned entry(Py_BuildValue("(sNN)", rule.op.c_str(), FromStates(rule),
                                    FromHyperparameters(rule.hyperparameters)));
    if (!dict || !entry || PyDict_SetItemString(dict.get(), rule.name.c_str(), entry.get()) < 0) {
      return nullptr;
    }
  }
  return dict.release();
}

// _optimizers() -> {class: (documentation, rule, {hyperparameter that is fixed: value})}
PyObject* Classes(PyObject*, PyObject*) {
  Owned dict(PyDict_New());
  for (const OptimizerDef& def : OptimizerDefs()) {
    const Owned entry(
        Py_BuildValue("(ssN)", def.doc.c_str(), def.rule.c_str(), FromHyperparameters(def.fixed)));
    if (!dict || !entry || PyDict_SetItemString(dict.get(), def.name.c_str(), entry.get()) < 0) {
      return nullptr;
    }
  }
  return dict.release();
}

PyObject* FromNumber(const AttrValue& value) {
  if (!value.has_value()) return Py_NewRef(Py_None);
  if (value.type() == AttrType::kBool) return PyBool_FromLong(value.AsBool() ? 1 : 0);
  return PyFloat_FromDouble(value.AsFloat());
}

// _optimizer_attributes(rule, hyperparameters, t, initial_alpha): the operator's attributes in step
// t. The values of hyperparameters come in the rule's order.
PyObject* Attributes(PyObject*, PyObject* args) {
  const char* name = nullptr;
  PyObject* given = nullptr;
  PyObject* alpha = nullptr;
  long long t = 0;  // NOLINT(google-runtime-int): as "L" says
  if (!PyArg_ParseTuple(args, "sO!LO", &name, &PyTuple_Type, &given, &t, &alpha)) return nullptr;
  const OptimizerRule* const rule = FindOptimizerRule(name);
  const size_t count = static_cast<size_t>(PyTuple_GET_SIZE(given));
  if (rule == nullptr || count != rule->hyperparameters.size()) {
    PyErr_Format(PyExc_ValueError, "no rule '%s' of %zu hyperparameters", name, count);
    return nullptr;
  }
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(PyFloat_AsDouble(PyTuple_GET_ITEM(given, static_cast<Py_ssize_t>(i))));
  }
  const double initial_alpha = alpha == Py_None ? 0 : PyFloat_AsDouble(alpha);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const Attrs attrs = AttrsOf({*rule, values, t, initial_alpha});
  Owned tuple(PyTuple_New(static_cast<Py_ssize_t>(attrs.size())));
  for (size_t i = 0; tuple && i < attrs.size(); ++i) {
    PyObject* const value = FromNumber(attrs[i]);
    if (value == nullptr) return nullptr;
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), value);
  }
  return tuple.release();
}

}  // namespace

PyMethodDef optimizer_functions[] = {{"_optimizer_rules", Rules, METH_NOARGS, nullptr},
                                     {"_optimizers", Classes, METH_NOARGS, nullptr},
                                     {"_optimizer_attributes", Attributes, METH_VARARGS, nullptr},
                                     {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
