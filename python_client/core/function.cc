// Operators that Python code computes, with gradients that Python code computes.
#include <utility>

#include "client/client_functions.h"
#include "client/function.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

// What a function raised, on its way through backward() or grad() of this thread.
struct FunctionRaised {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
};
thread_local FunctionRaised function_raised;

absl::Status KeepRaised() {
  PyErr_Fetch(&function_raised.type, &function_raised.value, &function_raised.traceback);
  return ChainerxError("[backward] a function of the client raised an exception");
}

PyObject* ListOf(const std::vector<ArrayPtr>& arrays) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(arrays.size()));
  for (size_t i = 0; list != nullptr && i < arrays.size(); ++i) {
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i),
                    arrays[i] ? Wrap(arrays[i]) : Py_NewRef(Py_None));
  }
  return list;
}

class PythonFunction final : public Function {
 public:
  explicit PythonFunction(PyObject* backward) : backward_(Py_NewRef(backward)) {}
  ~PythonFunction() override { DropUnlocked(backward_); }

  // With the GIL, which waits give up, and so do backward passes around this.
  absl::Status Backward(const FunctionCallArgs& args, std::vector<ArrayPtr>* grads) override {
    const Owned targets(PyList_New(static_cast<Py_ssize_t>(args.targets.size())));
    for (size_t i = 0; targets && i < args.targets.size(); ++i) {
      PyList_SET_ITEM(targets.get(), static_cast<Py_ssize_t>(i), PyLong_FromLong(args.targets[i]));
    }
    const Owned output_grads(ListOf(args.output_grads));
    const Owned inputs(ListOf(args.retained_inputs));
    const Owned outputs(ListOf(args.retained_outputs));
    if (!targets || !output_grads || !inputs || !outputs) return KeepRaised();
    const Owned result(PyObject_CallFunctionObjArgs(backward_, targets.get(), output_grads.get(),
                                                    inputs.get(), outputs.get(), nullptr));
    if (!result) return KeepRaised();
    const Owned tuple(PySequence_Tuple(result.get()));
    if (!tuple) return KeepRaised();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(tuple.get(), i);
      if (item != Py_None && !IsArray(item)) {
        PyErr_Format(PyExc_TypeError, "a function's gradients must be arrays or None, not %s",
                     Py_TYPE(item)->tp_name);
        return KeepRaised();
      }
      grads->push_back(item == Py_None ? ArrayPtr() : ArrayPtr(BodyOf(item)));
    }
    return absl::OkStatus();
  }

 private:
  PyObject* const backward_;
};

// _record_function(backward, inputs, outputs, retained_inputs, retained_outputs)
PyObject* RecordFunction(PyObject*, PyObject* args) {
  PyObject *backward = nullptr, *inputs = nullptr, *outputs = nullptr;
  PyObject *retained_inputs = nullptr, *retained_outputs = nullptr;
  Arrays input_arrays, output_arrays;
  Ints input_indexes, output_indexes;
  if (!PyArg_ParseTuple(args, "OOOOO", &backward, &inputs, &outputs, &retained_inputs,
                        &retained_outputs) ||
      !ToArrays(inputs, true, &input_arrays) || !ToArrays(outputs, true, &output_arrays) ||
      !ToInts(retained_inputs, &input_indexes) || !ToInts(retained_outputs, &output_indexes)) {
    return nullptr;
  }
  Session* session = nullptr;
  for (ArrayBody* input : input_arrays.bodies) {
    if (input != nullptr) session = input->session.get();
  }
  if (session == nullptr) Py_RETURN_NONE;  // in no graph
  SetCallerLocation();
  const absl::Status status =
      session->functions().Record(std::make_shared<PythonFunction>(backward), input_arrays.bodies,
                                  output_arrays.bodies, input_indexes, output_indexes);
  if (!status.ok()) return Raise(status, session);
  Py_RETURN_NONE;
}

}  // namespace

bool ToArrays(PyObject* object, bool none_allowed, Arrays* arrays) {
  arrays->tuple = Owned(PySequence_Tuple(object));
  if (!arrays->tuple) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arrays->tuple.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(arrays->tuple.get(), i);
    if (item == Py_None && none_allowed) {
      arrays->bodies.push_back(nullptr);
    } else if (IsArray(item)) {
      arrays->bodies.push_back(BodyOf(item));
    } else {
      PyErr_Format(PyExc_TypeError, "expected an ndarray, got %s", Py_TYPE(item)->tp_name);
      return false;
    }
  }
  return true;
}

PyObject* RaiseFromBackward(const absl::Status& status, Session* session) {
  if (function_raised.type == nullptr) return Raise(status, session);
  const FunctionRaised now = std::exchange(function_raised, FunctionRaised());
  PyErr_Restore(now.type, now.value, now.traceback);
  return nullptr;
}

PyMethodDef function_functions[] = {{"_record_function", RecordFunction, METH_VARARGS, nullptr},
                                    {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
