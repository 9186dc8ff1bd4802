// Runs, as chx/runs.py calls them.
#include "client/run.h"
#include "client/run_calls.h"

#include <utility>

#include "client/session.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

// (program, data, with None for files, batch size, [(name, output)], program of the rest or None,
// [(path, array)], device)
bool ToCalls(PyObject* tuple, RunCalls* calls, Arrays* arrays) {
  PyObject* program = nullptr;
  PyObject* data = nullptr;
  PyObject* metrics = nullptr;
  PyObject* rest = nullptr;
  PyObject* files = nullptr;
  PyObject* device = nullptr;
  long long batch_size = 0;  // NOLINT(google-runtime-int): as "L" says
  Target target;
  if (!PyArg_ParseTuple(tuple, "OOLO!OO!O", &program, &data, &batch_size, &PyList_Type, &metrics,
                        &rest, &PyList_Type, &files, &device) ||
      !ToArrays(data, true, arrays) || !ToTarget(device, &target)) {
    return false;
  }
  calls->device = target.device;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(files); ++i) {
    const char* path = nullptr;
    const char* name = nullptr;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(files, i), "ss", &path, &name)) return false;
    calls->files.emplace_back(path, name);
  }
  calls->program = AsProgram(program);
  calls->data = arrays->bodies;
  calls->batch_size = batch_size;
  if (rest != Py_None && (calls->rest = AsProgram(rest)) == nullptr) return false;
  for (Py_ssize_t i = 0; calls->program != nullptr && i < PyList_GET_SIZE(metrics); ++i) {
    const char* name = nullptr;
    unsigned int output = 0;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(metrics, i), "sI", &name, &output)) return false;
    calls->metrics.emplace_back(name, output);
  }
  return calls->program != nullptr;
}

// [(kind, of_evaluation, metric, bound, patience)]
bool ToRules(PyObject* list, std::vector<RunRule>* rules) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    RunRule rule;
    int of_evaluation = 0;
    long long patience = 0;  // NOLINT(google-runtime-int): as "L" says
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "IpIdL", &rule.kind, &of_evaluation,
                          &rule.metric, &rule.bound, &patience)) {
      return false;
    }
    rule.of_evaluation = of_evaluation != 0;
    rule.patience = patience;
    rules->push_back(rule);
  }
  return true;
}

ArrayBody* FirstOf(const Arrays& arrays) {
  return arrays.bodies.empty() ? nullptr : arrays.bodies[0];
}

// (session, name, step, steps, shuffle or None, [rows], done, first, [values], log_every,
// evaluation or None, evaluate_every, equal weights, [marks], rules, time_limit, snapshot_every,
// snapshot_seconds)
PyObject* Start(PyObject*, PyObject* args) {
  PyObject* session = nullptr;
  const char* name = nullptr;
  PyObject* step = nullptr;
  PyObject* shuffle = nullptr;
  PyObject* rows = nullptr;
  PyObject* first = nullptr;
  PyObject* values = nullptr;
  PyObject* marks = nullptr;
  PyObject* evaluation = nullptr;
  PyObject* rules = nullptr;
  long long steps = 0;           // NOLINT(google-runtime-int): as "L" says
  long long log_every = 0;       // NOLINT(google-runtime-int): as "L" says
  long long evaluate_every = 0;  // NOLINT(google-runtime-int): as "L" says
  long long snapshot_every = 0;  // NOLINT(google-runtime-int): as "L" says
  long long done = 0;            // NOLINT(google-runtime-int): as "L" says
  int equal_weights = 0;
  RunRequest request;
  Arrays data;
  Arrays evaluation_data;
  Arrays first_arrays;
  Arrays rows_arrays;
  Arrays values_arrays;
  Arrays marks_arrays;
  if (!PyArg_ParseTuple(args, "O!sO!LOOLOOLOLpOO!dLd", &session_type, &session, &name,
                        &PyTuple_Type, &step, &steps, &shuffle, &rows, &done, &first, &values,
                        &log_every, &evaluation, &evaluate_every, &equal_weights, &marks,
                        &PyList_Type, &rules, &request.time_limit, &snapshot_every,
                        &request.snapshot_seconds) ||
      !ToCalls(step, &request.step, &data) || !ToArrays(rows, false, &rows_arrays) ||
      !ToArrays(first, false, &first_arrays) || !ToArrays(values, false, &values_arrays) ||
      !ToArrays(marks, false, &marks_arrays) || !ToRules(rules, &request.rules)) {
    return nullptr;
  }
  request.name = name;
  request.steps = steps;
  request.log_every = log_every;
  request.evaluate_every = evaluate_every;
  request.snapshot_every = snapshot_every;
  request.first = first_arrays.bodies;
  request.done = done;
  request.rows = FirstOf(rows_arrays);
  request.values = FirstOf(values_arrays);
  request.marks = FirstOf(marks_arrays);
  request.equal_weights = equal_weights != 0;
  if (shuffle != Py_None) {
    const auto seed = static_cast<uint64_t>(PyLong_AsUnsignedLongLongMask(shuffle));
    if (PyErr_Occurred() != nullptr) return nullptr;
    request.shuffle = seed;
  }
  if (evaluation != Py_None) {
    request.evaluation.emplace();
    if (!ToCalls(evaluation, &*request.evaluation, &evaluation_data)) return nullptr;
  }
  absl::Status status;
  {
    const WithoutGil nogil;
    status = StartRun(SessionOf(session), request);
  }
  if (!status.ok()) return Raise(status, SessionOf(session));
  Py_RETURN_NONE;
}

PyObject* FromNames(const std::vector<std::string>& names) {
  PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(names.size()));
  for (size_t i = 0; tuple != nullptr && i < names.size(); ++i) {
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), PyUnicode_FromString(names[i].c_str()));
  }
  return tuple;
}

// (name, state, step, steps, steps per epoch, metrics, evaluation's metrics)
PyObject* FromInfo(const RunInfo& info) {
  return Py_BuildValue("sILLLNN", info.name.c_str(), info.state,
                       static_cast<long long>(info.step),             // NOLINT
                       static_cast<long long>(info.steps),            // NOLINT
                       static_cast<long long>(info.steps_per_epoch),  // NOLINT
                       FromNames(info.metrics), FromNames(info.evaluation_metrics));
}

// (number, kind, step, time, values, reason, text)
PyObject* FromEvent(const RunEvent& event) {
  PyObject* const values = PyTuple_New(static_cast<Py_ssize_t>(event.values.size()));
  for (size_t i = 0; values != nullptr && i < event.values.size(); ++i) {
    PyTuple_SET_ITEM(values, static_cast<Py_ssize_t>(i), PyFloat_FromDouble(event.values[i]));
  }
  return Py_BuildValue("KILdNss", static_cast<unsigned long long>(event.number),  // NOLINT
                       event.kind, static_cast<long long>(event.step),            // NOLINT
                       event.unix_time, values, event.reason.c_str(), event.text.c_str());
}

// (session, name, from, seconds) -> (info, next, dropped, [event])
PyObject* Watch(PyObject*, PyObject* args) {
  PyObject* session = nullptr;
  const char* name = nullptr;
  unsigned long long from = 0;  // NOLINT(google-runtime-int): as "K" says
  double seconds = 0;
  if (!PyArg_ParseTuple(args, "O!sKd", &session_type, &session, &name, &from, &seconds)) {
    return nullptr;
  }
  absl::StatusOr<RunNews> news = absl::UnknownError("");
  {
    const std::string run = name;
    const WithoutGil nogil;
    news = WatchRun(SessionOf(session), run, from, seconds);
  }
  if (!news.ok()) return Raise(news.status(), SessionOf(session));
  Owned events(PyList_New(0));
  for (const RunEvent& event : news->events) {
    const Owned item(FromEvent(event));
    if (!events || !item || PyList_Append(events.get(), item.get()) < 0) return nullptr;
  }
  return Py_BuildValue("NKKN", FromInfo(news->run),
                       static_cast<unsigned long long>(news->next),     // NOLINT
                       static_cast<unsigned long long>(news->dropped),  // NOLINT
                       events.release());
}

// (session, name, order)
PyObject* Control(PyObject*, PyObject* args) {
  PyObject* session = nullptr;
  const char* name = nullptr;
  unsigned int order = 0;
  if (!PyArg_ParseTuple(args, "O!sI", &session_type, &session, &name, &order)) return nullptr;
  absl::Status status;
  {
    const std::string run = name;
    const WithoutGil nogil;
    status = ControlRun(SessionOf(session), run, static_cast<RunOrder>(order));
  }
  if (!status.ok()) return Raise(status, SessionOf(session));
  Py_RETURN_NONE;
}

// session -> [info]
PyObject* List(PyObject*, PyObject* args) {
  PyObject* session = nullptr;
  if (!PyArg_ParseTuple(args, "O!", &session_type, &session)) return nullptr;
  absl::StatusOr<std::vector<RunInfo>> runs = absl::UnknownError("");
  {
    const WithoutGil nogil;
    runs = ListRuns(SessionOf(session));
  }
  if (!runs.ok()) return Raise(runs.status(), SessionOf(session));
  Owned list(PyList_New(0));
  for (const RunInfo& run : *runs) {
    const Owned item(FromInfo(run));
    if (!list || !item || PyList_Append(list.get(), item.get()) < 0) return nullptr;
  }
  return list.release();
}

// (seed, epoch, rows) -> bytes of int64
PyObject* Order(PyObject*, PyObject* args) {
  unsigned long long seed = 0;  // NOLINT(google-runtime-int): as "K" says
  unsigned int epoch = 0;
  long long rows = 0;  // NOLINT(google-runtime-int): as "L" says
  if (!PyArg_ParseTuple(args, "KIL", &seed, &epoch, &rows)) return nullptr;
  std::vector<int64_t> order;
  {
    const WithoutGil nogil;
    order = EpochOrder(seed, epoch, rows);
  }
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(order.data()),
                                   static_cast<Py_ssize_t>(order.size() * sizeof(int64_t)));
}

}  // namespace

PyMethodDef run_functions[] = {
    {"_run_start", Start, METH_VARARGS, nullptr},     {"_run_watch", Watch, METH_VARARGS, nullptr},
    {"_run_control", Control, METH_VARARGS, nullptr}, {"_run_list", List, METH_VARARGS, nullptr},
    {"_run_order", Order, METH_VARARGS, nullptr},     {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
