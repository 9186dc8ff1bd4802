// What the files of the extension module share. Everything here needs the GIL.
#ifndef CHX_PYTHON_CLIENT_CORE_COMMON_H_
#define CHX_PYTHON_CLIENT_CORE_COMMON_H_

// Before all others: it includes Python.h.
#include "python_client/core/python_versions.h"
// After Python.h.
#include <structmember.h>

#include <memory>
#include <string>
#include <vector>

#include "client/connection.h"
#include "client/gradients.h"
#include "client/graph_mirror.h"
#include "client/session.h"
#include "ops/op_call.h"
#include "ops/registry.h"

namespace chx {
class RecordedProgram;
}  // namespace chx

namespace chx::python {

// gil.cc. As Py_DECREF, for destructors: these also run when a daemon thread is unwound because the
// interpreter ends, and then without its lock.
void Drop(PyObject* object);
// The same for threads that may not have the lock.
void DropUnlocked(PyObject* object);
// As PyEval_RestoreThread, but it never unwinds: a daemon thread that comes too late stays here.
void TakeGil(PyThreadState* state);

// Owns one reference.
class Owned {
 public:
  Owned() = default;
  explicit Owned(PyObject* object) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    PyObject* const old = object_;
    object_ = other.release();
    if (old != nullptr) Drop(old);
    return *this;
  }
  ~Owned() {
    if (object_ != nullptr) Drop(object_);
  }
  PyObject* get() const { return object_; }
  PyObject* release() {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// errors.cc: the only place where a Status becomes an exception. Returns null / -1.
bool InitErrors(PyObject* module);
// Where a wait on a session was given up for Ctrl-C, the session's work is cancelled, if it wants
// that.
PyObject* Raise(const absl::Status& status, Session* session = nullptr);
// Whether a signal's handler has raised something, which the next Raise of a wait that was given up
// for it raises again. For threads that wait without the interpreter's lock.
bool SignalRaised();

// ndarray.cc
struct PyArray {
  PyObject_HEAD ArrayBody* body;  // one reference
  PyObject* session;              // PySession: the body's
  PyObject* weakrefs;
};
extern PyTypeObject array_type;
inline bool IsArray(PyObject* object) { return Py_TYPE(object) == &array_type; }
inline ArrayBody* BodyOf(PyObject* array) { return reinterpret_cast<PyArray*>(array)->body; }
// The body's object: the one there is, or a new one.
PyObject* Wrap(ArrayPtr body);
bool InitArrayType(PyObject* module);
extern PyGetSetDef array_getset[];
extern PyMethodDef array_methods[];
// What writes to an array are made to: in a mode that records none of its graphs, a leaf's memory
// outside of them.
Owned WriteTarget(PyObject* array);
// numeric.cc
extern PyNumberMethods array_as_number;
PyObject* RichCompare(PyObject* a, PyObject* b, int comparison);
// Runs an operator and wraps what it makes: one array, a list or tuple, or None for an in-place
// operator. Waits for the outcome of a checked one, or if `confirm`.
PyObject* Call(Session* session, const OpDef& op, absl::Span<const Operand> inputs,
               absl::Span<const AttrValue> attrs, DeviceId device, bool confirm = false);
const OpDef& Op(absl::string_view name);
// What is no array or number as an array beside those of a sequence: a new reference, null with an
// exception set, or Py_NotImplemented where it cannot be one (chx/_numpy/operands.py).
PyObject* AsOperand(PyObject* object, PyObject* arrays, const OpDef& op);
// What stands for a traced number beside an array in an operator: an array, or a float.
Owned OfTraced(PyObject* number, PyObject* array, const OpDef& op);

// indexing.cc
extern PyMappingMethods array_as_mapping;
extern PySequenceMethods array_as_sequence;

// op_function.cc: operators as Python callables, made from the table.
bool InitOpFunctions(PyObject* module);

// convert.cc. False or null with an exception set.
bool InitConvert();
bool ToScalar(PyObject* object, Scalar* scalar);  // Python and NumPy numbers
bool IsScalar(PyObject* object);
// Whether it is a number of a function that is recorded (chx/_runtime/traced_numbers.py). Who takes
// its value makes the recording one for this value.
bool IsTraced(PyObject* object);
bool ToInts(PyObject* object, Ints* ints);  // an int or a sequence of ints
bool ToDtype(PyObject* object, Dtype* dtype);
bool ToBackpropId(PyObject* object, BackpropId* id);  // None: the default graph
PyObject* FromDims(const Dims& dims);
PyObject* FromDtype(Dtype dtype);  // a numpy.dtype, always the same object
PyObject* FromScalarBytes(const char* data, Dtype dtype);

// autocast.cc
extern PyMethodDef autocast_functions[];

// callbacks.cc: functions of the package that the core calls (chx/_callbacks.py).
enum class Callback {
  kBackend,
  kAsArrayLike,
  kAsGradStopped,
  kAsIndices,
  kAsOperand,
  kBackward,
  kCallWithKeywords,
  kConnectDefault,
  kGetItemByArrays,
  kNewNdarray,
  kNumber,
  kReduceDevice,
  kReprArray,
  kSetItemByArrays,
  kSignature,
  kToNumpy,
};
constexpr size_t kNumCallbacks = static_cast<size_t>(Callback::kToNumpy) + 1;
// A new reference; null with an exception set if Python has not registered its functions.
PyObject* GetCallback(Callback callback);
extern PyMethodDef callback_functions[];

// session.cc. Freed when nothing refers to it: arrays do, and as long as it is open, its devices.
struct PySession {
  PyObject_HEAD Session* session;  // one reference
  PyObject* devices;               // tuple of Device
  PyObject* address;
  char cancel_on_interrupt;
};
extern PyTypeObject session_type;
bool InitSessionType(PyObject* module);
inline PySession* AsSession(PyObject* object) { return reinterpret_cast<PySession*>(object); }
inline Session* SessionOf(PyObject* self) { return AsSession(self)->session; }

// device.cc
struct PyDevice {
  PyObject_HEAD PyObject* name;
  PyObject* backend;  // Backend, shared by the backend's devices
  PyObject* session;  // PySession; null after it was closed
  DeviceId id;
};
extern PyTypeObject device_type;
bool InitDeviceType(PyObject* module);
inline PyDevice* AsDevice(PyObject* object) { return reinterpret_cast<PyDevice*>(object); }
// Fills session->devices, in the order of their ids.
bool MakeDevices(PySession* session);
// The devices of a closed session keep it no longer.
void DetachDevices(PySession* session);
PyObject* DeviceOf(PyObject* array);
// Where a call works that has no arrays. Keeps the session, whatever other threads do meanwhile.
struct Target {
  Owned keeper;  // PySession
  Session* session = nullptr;
  DeviceId device = 0;
};
// The default one; connects if there never was a session.
bool DefaultTarget(Target* target);
bool ToTarget(PyObject* object, Target* target);                            // name, Device or None
bool FindDevice(const Session& session, PyObject* text, DeviceId* device);  // by name
extern PyMethodDef device_functions[];

// defaults.cc: the session of the process, and what a thread has instead. Borrowed; null: none.
PyObject* DefaultSession();
PyObject* ThreadDevice();
extern PyMethodDef default_functions[];

// saved.cc: methods of a session.
PyObject* SessionSave(PyObject* self, PyObject* args);
PyObject* SessionLoad(PyObject* self, PyObject* name);
PyObject* SessionSaved(PyObject* self, PyObject*);
PyObject* SessionForget(PyObject* self, PyObject* name);
PyObject* SessionNoteGenerator(PyObject* self, PyObject* state);
PyObject* SessionFormerGenerator(PyObject* self, PyObject*);

// grad.cc
extern PyMethodDef grad_functions[];
void InitWaits();
// Before anybody looks at the array's places. False with an exception set.
bool ResolveArray(PyObject* array);

// function.cc
extern PyMethodDef function_functions[];
// The arrays of a sequence or an iterator, which may hold the only references to them.
struct Arrays {
  Owned tuple;
  std::vector<ArrayBody*> bodies;  // null for None
};
bool ToArrays(PyObject* object, bool none_allowed, Arrays* arrays);
// As Raise; but if a Python function ended the backward pass, what that raised.
PyObject* RaiseFromBackward(const absl::Status& status, Session* session);

// sharing.cc
extern PyMethodDef sharing_functions[];

// distributed.cc
extern PyMethodDef distributed_functions[];

// logging.cc
extern PyMethodDef log_functions[];
// Hands out what has been logged. With the interpreter's lock, but with none of the client's. False
// with an exception set if a handler was interrupted.
bool DeliverLog();

// optimizers.cc
extern PyMethodDef optimizer_functions[];

// programs.cc
extern PyMethodDef program_functions[];
// What a capsule of _program_end has; null with an exception set: it is another one.
RecordedProgram* AsProgram(PyObject* capsule);
// The capsule; null with an exception set.
PyObject* FromProgram(const Ref<RecordedProgram>& program);

// runs.cc
extern PyMethodDef run_functions[];

// data.cc
extern PyMethodDef data_functions[];

// admin.cc
extern PyMethodDef admin_functions[];

// dlpack_export.cc
extern PyMethodDef dlpack_export_functions[];

// dlpack_import.cc
bool InitDlpack(PyObject* module);

// export.cc
bool InitExports(PyObject* module);

// result_memory.cc
bool InitResultMemory(PyObject* module);

// location.cc: attributes the next calls to the line of Python that runs.
void SetCallerLocation();

// Releases the GIL while it exists.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { TakeGil(state_); }
  WithoutGil(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

}  // namespace chx::python

#endif  // CHX_PYTHON_CLIENT_CORE_COMMON_H_
