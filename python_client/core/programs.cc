// Recorded programs, as chx/_programs.py calls them; and what a thread calls, for chx/onnx.
#include "client/programs.h"

#include <memory>
#include <vector>

#include "client/call_log.h"
#include "client/explanation.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

constexpr char kProgram[] = "chx._core.Program";

void DropProgram(PyObject* capsule) {
  auto* const program = static_cast<RecordedProgram*>(PyCapsule_GetPointer(capsule, kProgram));
  const WithoutGil nogil;
  program->Unref();
}

bool ToNumbers(PyObject* object, std::vector<int64_t>* numbers) {
  const Owned list(PySequence_Fast(object, "expects a sequence of integers"));
  if (!list) return false;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(list.get());
  for (Py_ssize_t i = 0; i < size; ++i) {
    numbers->push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(list.get(), i)));
    if (numbers->back() == -1 && PyErr_Occurred() != nullptr) return false;
  }
  return true;
}

// (session, arguments)
PyObject* Begin(PyObject*, PyObject* args) {
  PyObject* session = nullptr;
  PyObject* list = nullptr;
  Arrays arrays;
  if (!PyArg_ParseTuple(args, "O!O", &session_type, &session, &list) ||
      !ToArrays(list, false, &arrays)) {
    return nullptr;
  }
  const absl::Status status = SessionOf(session)->programs().Begin(arrays.bodies);
  if (!status.ok()) return Raise(status, SessionOf(session));
  Py_RETURN_NONE;
}

// session -> how many operators have been called since Begin
PyObject* NumOperations(PyObject*, PyObject* session) {
  return PyLong_FromLongLong(SessionOf(session)->programs().num_operations());
}

// array
PyObject* Hold(PyObject*, PyObject* array) {
  if (!IsArray(array)) return Raise(TypeError("[jit] expects an array"));
  Session* const session = BodyOf(array)->session.get();
  const absl::Status status = session->programs().Hold(*BodyOf(array));
  if (!status.ok()) return Raise(status, session);
  Py_RETURN_NONE;
}

// (session, results, slots: pairs of numbers in one list) -> (program, why there is no plan)
PyObject* End(PyObject*, PyObject* args) {
  PyObject* session = nullptr;
  PyObject* list = nullptr;
  PyObject* pairs = nullptr;
  Arrays results;
  std::vector<int64_t> numbers;
  if (!PyArg_ParseTuple(args, "O!OO", &session_type, &session, &list, &pairs) ||
      !ToArrays(list, false, &results) || !ToNumbers(pairs, &numbers)) {
    return nullptr;
  }
  std::vector<RecordedProgram::Slot> slots;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2) slots.push_back({numbers[i], numbers[i + 1]});
  absl::StatusOr<Ref<RecordedProgram>> program = absl::UnknownError("");
  {
    const WithoutGil nogil;
    program = SessionOf(session)->programs().End(results.bodies, slots);
  }
  if (!program.ok()) return Raise(program.status(), SessionOf(session));
  return Py_BuildValue("Ns", FromProgram(*program), (*program)->declined().c_str());
}

// session
PyObject* Abandon(PyObject*, PyObject* session) {
  SessionOf(session)->programs().Abandon();
  Py_RETURN_NONE;
}

// program -> whether runs of it may have results in a graph
PyObject* KeepsGraph(PyObject*, PyObject* capsule) {
  const RecordedProgram* const program = AsProgram(capsule);
  return program == nullptr ? nullptr : PyBool_FromLong(program->keeps_graph() ? 1 : 0);
}

// (program, arguments, times, values) -> results; times 0: once, with results in the graph
PyObject* Run(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  PyObject* list = nullptr;
  PyObject* numbers = nullptr;
  long long times = 0;  // NOLINT(google-runtime-int): as "L" says
  Arrays arrays;
  std::vector<int64_t> values;
  if (!PyArg_ParseTuple(args, "OOLO", &capsule, &list, &times, &numbers) ||
      !ToArrays(list, false, &arrays) || !ToNumbers(numbers, &values)) {
    return nullptr;
  }
  auto* const program = static_cast<RecordedProgram*>(PyCapsule_GetPointer(capsule, kProgram));
  if (program == nullptr) return nullptr;
  SetCallerLocation();
  absl::StatusOr<std::vector<ArrayPtr>> results = times == 0
                                                      ? program->RunInGraph(arrays.bodies, values)
                                                      : program->Run(arrays.bodies, times, values);
  if (!results.ok()) return Raise(results.status(), program->session().get());
  Owned made(PyList_New(static_cast<Py_ssize_t>(results->size())));
  for (size_t i = 0; made && i < results->size(); ++i) {
    PyObject* const array = Wrap(std::move((*results)[i]));
    if (array == nullptr) return nullptr;
    PyList_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), array);
  }
  return made.release();
}

// (program, measure) -> text
PyObject* Explain(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  int measure = 0;
  if (!PyArg_ParseTuple(args, "Op", &capsule, &measure)) return nullptr;
  auto* const program = static_cast<RecordedProgram*>(PyCapsule_GetPointer(capsule, kProgram));
  if (program == nullptr) return nullptr;
  absl::StatusOr<std::string> text = absl::UnknownError("");
  {
    const WithoutGil nogil;
    text = program->Explain(measure != 0);
  }
  if (!text.ok()) return Raise(text.status(), program->session().get());
  return PyUnicode_FromStringAndSize(text->data(), static_cast<Py_ssize_t>(text->size()));
}

// ([(title, what Explain gives)], as SVG) -> text
PyObject* ShowExplanations(PyObject*, PyObject* args) {
  PyObject* list = nullptr;
  int as_svg = 0;
  if (!PyArg_ParseTuple(args, "O!p", &PyList_Type, &list, &as_svg)) return nullptr;
  std::vector<Explained> recordings;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    const char* title = nullptr;
    const char* lines = nullptr;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "ss", &title, &lines)) return nullptr;
    recordings.push_back({title, lines});
  }
  const std::string text =
      as_svg != 0 ? ExplanationAsSvg(recordings) : ExplanationAsText(recordings);
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

// (operator, attribute) -> its position among the operator's attributes
PyObject* AttributeIndex(PyObject*, PyObject* args) {
  const char* name = nullptr;
  const char* attribute = nullptr;
  if (!PyArg_ParseTuple(args, "ss", &name, &attribute)) return nullptr;
  const OpDef* const op = OpRegistry::Global().Find(name);
  return PyLong_FromLong(op == nullptr ? -1 : op->AttrIndex(attribute));
}

PyObject* FromAnyScalar(const Scalar& scalar) {
  if (scalar.kind() == ScalarKind::kBool) return PyBool_FromLong(scalar.AsBool() ? 1 : 0);
  return scalar.is_float() ? PyFloat_FromDouble(scalar.AsDouble())
                           : PyLong_FromLongLong(scalar.AsInt());
}

PyObject* FromAttr(const AttrValue& value) {
  switch (value.type()) {
    case AttrType::kBool:
      return PyBool_FromLong(value.AsBool() ? 1 : 0);
    case AttrType::kInt:
      return PyLong_FromLongLong(value.AsInt());
    case AttrType::kFloat:
      return PyFloat_FromDouble(value.AsFloat());
    case AttrType::kDtype:
      return FromDtype(value.AsDtype());
    case AttrType::kScalar:
      return FromAnyScalar(value.AsScalar());
    case AttrType::kInts:
    case AttrType::kIndex: {
      Owned list(PyList_New(static_cast<Py_ssize_t>(value.ints().size())));
      for (size_t i = 0; list && i < value.ints().size(); ++i) {
        PyObject* const item = PyLong_FromLongLong(value.ints()[i]);
        if (item == nullptr) return nullptr;
        PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
      }
      return list.release();
    }
    case AttrType::kNone:
      break;
  }
  Py_RETURN_NONE;
}

bool Append(PyObject* list, Owned item) { return item && PyList_Append(list, item.get()) == 0; }

PyObject* FromInput(const CallLog::Input& input) {
  if (input.array) return Wrap(input.array);
  if (input.is_scalar) return FromAnyScalar(input.scalar);
  Py_RETURN_NONE;
}

// (operator, whether it writes to inputs, inputs, attributes by name, outputs)
PyObject* FromEntry(const CallLog::Entry& entry) {
  const Owned inputs(PyList_New(0));
  const Owned attributes(PyDict_New());
  const Owned outputs(PyList_New(0));
  if (!inputs || !attributes || !outputs) return nullptr;
  for (const CallLog::Input& input : entry.inputs) {
    if (!Append(inputs.get(), Owned(FromInput(input)))) return nullptr;
  }
  for (size_t i = 0; i < entry.attrs.size(); ++i) {
    const Owned value(FromAttr(entry.attrs[i]));
    if (!value ||
        PyDict_SetItemString(attributes.get(), entry.op->attrs[i].name.c_str(), value.get()) != 0) {
      return nullptr;
    }
  }
  for (const ArrayPtr& output : entry.outputs) {
    if (!Append(outputs.get(), Owned(Wrap(output)))) return nullptr;
  }
  return Py_BuildValue("sOOOO", entry.op->name.c_str(), entry.op->in_place ? Py_True : Py_False,
                       inputs.get(), attributes.get(), outputs.get());
}

// Of the calling thread: the log of what it calls from now on.
PyObject* BeginCallLog(PyObject*, PyObject*) {
  if (!CallLog::Begin()) return Raise(ValueError("[export] expects one export at a time"));
  Py_RETURN_NONE;
}

// -> (what was called, whether gradients were computed or changed)
PyObject* EndCallLog(PyObject*, PyObject*) {
  const std::unique_ptr<CallLog> log = CallLog::End();
  const Owned calls(PyList_New(0));
  if (!calls) return nullptr;
  if (log == nullptr) return Py_BuildValue("OO", calls.get(), Py_False);
  for (const CallLog::Entry& entry : log->entries()) {
    if (!Append(calls.get(), Owned(FromEntry(entry)))) return nullptr;
  }
  return Py_BuildValue("OO", calls.get(), log->gradients() ? Py_True : Py_False);
}

}  // namespace

RecordedProgram* AsProgram(PyObject* capsule) {
  return static_cast<RecordedProgram*>(PyCapsule_GetPointer(capsule, kProgram));
}

PyObject* FromProgram(const Ref<RecordedProgram>& program) {
  program->AddRef();
  return PyCapsule_New(program.get(), kProgram, DropProgram);
}

PyMethodDef program_functions[] = {{"_program_begin", Begin, METH_VARARGS, nullptr},
                                   {"_program_operations", NumOperations, METH_O, nullptr},
                                   {"_program_hold", Hold, METH_O, nullptr},
                                   {"_program_end", End, METH_VARARGS, nullptr},
                                   {"_program_abandon", Abandon, METH_O, nullptr},
                                   {"_program_keeps_graph", KeepsGraph, METH_O, nullptr},
                                   {"_program_run", Run, METH_VARARGS, nullptr},
                                   {"_program_explain", Explain, METH_VARARGS, nullptr},
                                   {"_explanations", ShowExplanations, METH_VARARGS, nullptr},
                                   {"_call_log_begin", BeginCallLog, METH_NOARGS, nullptr},
                                   {"_call_log_end", EndCallLog, METH_NOARGS, nullptr},
                                   {"_attribute_index", AttributeIndex, METH_VARARGS, nullptr},
                                   {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
