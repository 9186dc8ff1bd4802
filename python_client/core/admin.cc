// Administrators' calls (chx/admin.py), and traces of this process. Results are texts in JSON.
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "client/admin/admin.h"
#include "client/admin/json.h"
#include "client/admin/trace_events.h"
#include "client/trace.h"
#include "python_client/core/common.h"

namespace chx::python {
namespace {

constexpr char kCapsule[] = "chx._core.admin";

struct Connected {
  Mutex mutex;  // an Admin is for one thread at a time
  std::unique_ptr<Admin> admin ABSL_GUARDED_BY(mutex);
};

Connected* ConnectedOf(PyObject* capsule) {
  return static_cast<Connected*>(PyCapsule_GetPointer(capsule, kCapsule));
}

void Free(PyObject* capsule) { delete ConnectedOf(capsule); }

PyObject* RaiseAdmin(const absl::Status& status) {
  if (!absl::IsNotFound(status)) return Raise(status);
  PyErr_SetString(PyExc_LookupError, std::string(status.message()).c_str());
  return nullptr;
}

// _admin_connect(address, token, tls_roots): what the other functions get.
PyObject* Connect(PyObject*, PyObject* args) {
  const char *address = nullptr, *token = nullptr, *roots = nullptr;
  if (!PyArg_ParseTuple(args, "sss", &address, &token, &roots)) return nullptr;
  ConnectOptions options;
  options.token = token;
  options.tls_roots = roots;
  absl::StatusOr<std::unique_ptr<Admin>> admin = absl::UnknownError("");
  {
    const WithoutGil nogil;
    admin = Admin::Connect(address, options);
  }
  if (!admin.ok()) return Raise(admin.status());
  auto connected = std::make_unique<Connected>();
  {
    MutexLock lock(&connected->mutex);
    connected->admin = *std::move(admin);
  }
  PyObject* const capsule = PyCapsule_New(connected.get(), kCapsule, Free);
  if (capsule != nullptr) connected.release();  // NOLINT(bugprone-unused-return-value)
  return capsule;
}

struct Arguments {
  uint64_t session = 0;
  uint64_t bytes = 0;
  double seconds = 0;
  std::string run;
};

template <typename T>
absl::StatusOr<std::string> AsJson(const absl::StatusOr<T>& result) {
  CHX_RETURN_IF_ERROR(result.status());
  return Dump(ToJson(*result));
}

absl::StatusOr<std::string> Nothing(const absl::Status& status) {
  CHX_RETURN_IF_ERROR(status);
  return std::string("null");
}

absl::StatusOr<std::string> Order(Admin& admin, const Arguments& a, RunAction order) {
  return Nothing(admin.OrderRun(a.session, a.run, order));
}

absl::StatusOr<std::string> ReadTrace(Admin& admin) {
  CHX_ASSIGN_OR_RETURN(const std::vector<v1::ReadTraceReply> parts, admin.ReadTrace());
  return Dump(TraceEvents(parts));
}

using Method = absl::StatusOr<std::string> (*)(Admin&, const Arguments&);
const absl::flat_hash_map<std::string, Method>& Methods() {
  static const auto& methods = *new absl::flat_hash_map<std::string, Method>{
      {"describe", [](Admin& admin, const Arguments&) { return AsJson(admin.Describe()); }},
      {"devices", [](Admin& admin, const Arguments&) { return AsJson(admin.Devices()); }},
      {"sessions", [](Admin& admin, const Arguments&) { return AsJson(admin.Sessions()); }},
      {"tenants", [](Admin& admin, const Arguments&) { return AsJson(admin.Tenants()); }},
      {"runs", [](Admin& admin, const Arguments&) { return AsJson(admin.Runs()); }},
      {"stop_run",
       [](Admin& admin, const Arguments& a) { return Order(admin, a, RunAction::kStop); }},
      {"pause_run",
       [](Admin& admin, const Arguments& a) { return Order(admin, a, RunAction::kPause); }},
      {"resume_run",
       [](Admin& admin, const Arguments& a) { return Order(admin, a, RunAction::kResume); }},
      {"kill",
       [](Admin& admin, const Arguments& a) { return Nothing(admin.KillSession(a.session)); }},
      {"limit", [](Admin& admin,
                   const Arguments& a) { return Nothing(admin.LimitSession(a.session, a.bytes)); }},
      {"drain", [](Admin& admin, const Arguments&) { return Nothing(admin.Drain()); }},
      {"snapshot", [](Admin& admin, const Arguments&) { return Nothing(admin.Snapshot()); }},
      {"start_trace",
       [](Admin& admin, const Arguments& a) {
         return Nothing(admin.StartTrace(a.session, a.seconds));
       }},
      {"read_trace", [](Admin& admin, const Arguments&) { return ReadTrace(admin); }},
  };
  return methods;
}

// _admin_call(admin, method, session, bytes, seconds, run): a text in JSON.
PyObject* CallAdmin(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  const char *name = nullptr, *run = nullptr;
  unsigned long long session = 0, bytes = 0;  // NOLINT(google-runtime-int)
  Arguments arguments;
  if (!PyArg_ParseTuple(args, "OsKKds", &capsule, &name, &session, &bytes, &arguments.seconds,
                        &run)) {
    return nullptr;
  }
  arguments.run = run;
  arguments.session = session;
  arguments.bytes = bytes;
  Connected* const connected = ConnectedOf(capsule);
  if (connected == nullptr) return nullptr;
  const auto method = Methods().find(name);
  if (method == Methods().end()) return PyErr_Format(PyExc_ValueError, "no method %s", name);
  absl::StatusOr<std::string> result = absl::UnknownError("");
  {
    const WithoutGil nogil;
    MutexLock lock(&connected->mutex);
    result = method->second(*connected->admin, arguments);
  }
  if (!result.ok()) return RaiseAdmin(result.status());
  return PyUnicode_FromStringAndSize(result->data(), static_cast<Py_ssize_t>(result->size()));
}

// _merge_traces(trace, client): texts in JSON.
PyObject* MergeTraces(PyObject*, PyObject* args) {
  const char *trace_text = nullptr, *client_text = nullptr;
  if (!PyArg_ParseTuple(args, "ss", &trace_text, &client_text)) return nullptr;
  Json trace = Json::parse(trace_text, nullptr, /*allow_exceptions=*/false);
  const Json client = Json::parse(client_text, nullptr, /*allow_exceptions=*/false);
  const absl::Status status = MergeClientTrace(client, &trace);
  if (!status.ok()) {
    PyErr_SetString(PyExc_ValueError, std::string(status.message()).c_str());
    return nullptr;
  }
  return PyUnicode_FromString(Dump(trace).c_str());
}

PyObject* BeginTrace(PyObject*, PyObject*) {
  const absl::Status status = StartTrace();
  if (!status.ok()) return Raise(status);
  Py_RETURN_NONE;
}

PyObject* EndTrace(PyObject*, PyObject*) {
  const absl::StatusOr<std::string> trace = StopTrace();
  if (!trace.ok()) return Raise(trace.status());
  return PyUnicode_FromStringAndSize(trace->data(), static_cast<Py_ssize_t>(trace->size()));
}

}  // namespace

PyMethodDef admin_functions[] = {{"_admin_connect", Connect, METH_VARARGS, nullptr},
                                 {"_admin_call", CallAdmin, METH_VARARGS, nullptr},
                                 {"_merge_traces", MergeTraces, METH_VARARGS, nullptr},
                                 {"_start_trace", BeginTrace, METH_NOARGS, nullptr},
                                 {"_stop_trace", EndTrace, METH_NOARGS, nullptr},
                                 {nullptr, nullptr, 0, nullptr}};

}  // namespace chx::python
