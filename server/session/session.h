// One client's world: its handles, the order of its commands, its graphs and its quota.
#ifndef CHX_SERVER_SESSION_SESSION_H_
#define CHX_SERVER_SESSION_SESSION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "proto/command.h"
#include "server/autograd/apply.h"
#include "server/autograd/backward.h"
#include "server/autograd/variable.h"
#include "server/engine/devices.h"
#include "server/engine/executor.h"

namespace chx {

// Why a handle has no array: where the chain of failures began. Shared by all who inherit it.
struct RootError {
  absl::Status status;           // with its ErrorKind
  std::string op;                // the operator that failed
  std::string inputs;            // "float32(2, 3), 1.0"
  std::string location;          // the client's file:line, if it sent one
  bool read = false;             // a client has seen it
  bool absent_gradient = false;  // not a failure: there is no such gradient
};
using RootErrorPtr = std::shared_ptr<RootError>;

struct SessionLimits {
  int64_t memory_bytes = int64_t{4} << 30;  // over all devices
  int64_t max_handles = 1 << 22;
  int64_t max_inline_bytes = 64 << 10;
  // How long a walk waits for a function of the client; 0: without end.
  std::chrono::milliseconds function_deadline = std::chrono::hours(1);
};

// What a run of commands has for the client.
struct SessionOutput {
  struct Error {
    Handle handle;
    RootErrorPtr error;
  };
  struct Value {
    uint64_t request_id;
    RootErrorPtr error;  // null: the value below is there
    Dtype dtype = Dtype::kFloat32;
    Shape shape;
    std::string data;
  };
  std::vector<Error> errors;
  std::vector<Value> values;
  std::vector<uint64_t> freed_functions;  // see Event
  void Clear() {
    errors.clear();
    values.clear();
    freed_functions.clear();
  }
  bool empty() const { return errors.empty() && values.empty() && freed_functions.empty(); }
};

struct SessionStats {
  int64_t handles = 0;
  int64_t memory_bytes = 0;
  int64_t commands = 0;
  int64_t errors = 0;
};

// Thread-safe: each public function takes the session's lock, so commands of one session never
// overlap. Sessions share nothing but the devices.
class Session {
 public:
  // `share`: the client is on this host and may map arrays.
  Session(const Devices* devices, const SessionLimits& limits, bool share = false);
  ~Session();

  // Carries out decoded commands in order. Never fails as a whole: a command's failure is an error
  // value under its outputs, and in *output.
  void Execute(absl::Span<const Command> window, SessionOutput* output);

  // Allocates the array for an upload; Write fills it from the front, Finish binds the handle.
  // Nothing is visible to commands before Finish.
  class UploadSink {
   public:
    absl::Status Write(absl::string_view bytes);
    absl::Status Finish();

   private:
    friend class Session;
    Session* session_ = nullptr;
    Handle handle_ = 0;
    Array array_;
    int64_t written_ = 0;
  };
  absl::StatusOr<UploadSink> BeginUpload(Handle handle, Dtype dtype,
                                         absl::Span<const int64_t> shape, DeviceId device);

  // The array's elements in C order in host memory. A root error comes as its Status.
  struct HostCopy {
    Dtype dtype;
    Shape shape;
    std::string data;
  };
  absl::StatusOr<HostCopy> ReadArray(Handle handle);

  // Thread-safe without the session's lock.
  Segments& segments() { return executor_.segments(); }

  // Frees what walks hold whose functions are past their deadline, now or, if a command runs, at a
  // later call.
  void EndLateWalks();

  // Errors that no read has shown, oldest first, at most `max`.
  std::vector<SessionOutput::Error> UnreadErrors(size_t max = 100);
  SessionStats stats();
  const SessionLimits& limits() const { return limits_; }

 private:
  struct Entry {
    Variable variable;
    RootErrorPtr error;  // set: variable is empty
  };
  static constexpr size_t kNever = ~size_t{0};

  void FindLastUses(absl::Span<const Command> window);
  // `position` is the command's in the window.
  void ExecuteOne(const Command& command, size_t position, SessionOutput* output);
  void ApplyOp(const Command& command, size_t position, SessionOutput* output);
  absl::Status RunApply(const Command& command, const OpDef& op,
                        absl::Span<const ApplyInput> inputs, const RecordMode& mode);
  void Upload(const Command& command, SessionOutput* output);
  void Fetch(const Command& command, SessionOutput* output);
  void FetchInto(const Command& command, SessionOutput* output);
  // The place in shared memory that the first operands name, with room for `bytes`.
  absl::StatusOr<char*> StageOf(const Command& command, int64_t bytes);
  void Barrier(const Command& command, SessionOutput* output);
  // Arrays in memory that the client maps. kMemory errors where that cannot be; then there are
  // uploads and fetches.
  void Share(const Command& command, SessionOutput* output);
  // Moves an array's memory there; views move along.
  absl::StatusOr<SharedBlock> Export(const Array& array);
  // The elements in C order: a copy under a new handle, unless the array itself will do.
  absl::StatusOr<SharedBlock> ShareCopy(const Array& array, Handle copy);
  // A new array of unspecified values, for the client to fill.
  absl::StatusOr<SharedBlock> NewShared(const Command& command);
  // Binds a new handle to memory of another array, with strides and offset of its own.
  absl::Status Alias(const Command& command, const Array& base);
  // A backward or a grad that waits for the client.
  struct PendingWalk {
    Command command;                     // kind, location and outputs of what began it
    std::unique_ptr<Backprop> backprop;  // null: it has ended late, and the client is to be told
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  };
  void StartWalk(const Command& command, SessionOutput* output);
  absl::StatusOr<std::unique_ptr<Backprop>> StartBackward(const Command& command,
                                                          RootErrorPtr* inherited);
  absl::StatusOr<std::unique_ptr<Backprop>> StartGrad(const Command& command,
                                                      RootErrorPtr* inherited);
  absl::Status CheckGradHandles(const Command& command);
  absl::Status FinishWalk(const Command& command, Backprop* backprop);
  // `status` and `inherited`: how it has begun.
  void AnswerWalk(PendingWalk walk, uint64_t number, uint64_t request_id, absl::Status status,
                  RootErrorPtr inherited, SessionOutput* output);
  absl::StatusOr<PendingWalk*> FindWalk(uint64_t number);
  absl::StatusOr<PendingWalk> TakeWalk(uint64_t number);
  absl::Status CheckInTime(const PendingWalk& walk) const;
  absl::Status RecordFunction(const Command& command);
  absl::Status EnterFunction(const Command& command);
  void ResumeWalk(const Command& command, SessionOutput* output);
  absl::Status AbandonWalk(const Command& command);
  // The commands that make no arrays.
  absl::Status Administer(const Command& command);
  absl::Status RequireGrad(const Command& command);
  void SetGrad(const Command& command, SessionOutput* output);
  void GetGrad(const Command& command, SessionOutput* output);
  absl::Status DefineMode(const Command& command);
  absl::Status Configure(const Command& command);
  absl::Status NewBackpropId(BackpropId id);
  absl::Status ReleaseBackpropId(BackpropId id);
  void NoteMember(BackpropId id, Handle handle);
  absl::Status Unchain(const Command& command);
  void AskGraphState(const Command& command, SessionOutput* output);
  void DumpGraph(const Command& command, SessionOutput* output);
  GraphState StateOf(Handle array, Handle grad, BackpropId id);

  Entry* Find(Handle handle);
  // The entry, which must exist; the first error among all that are used is kept in *inherited.
  absl::StatusOr<Entry*> Use(Handle handle, RootErrorPtr* inherited);
  absl::StatusOr<std::vector<Variable*>> UseAll(absl::Span<const Handle> handles,
                                                RootErrorPtr* inherited);
  absl::Status CheckBackpropId(BackpropId id) const;
  static BackwardOptions OptionsOf(const Command& command);
  // The array under a handle; its root error, which counts as read, comes as its Status.
  absl::StatusOr<Variable*> Read(Handle handle);
  SharedBlock BlockOf(const Array& array);
  static absl::Status Annotate(const OpDef& op, const absl::Status& status);
  // The only ways in and out of entries_ for arrays.
  void Bind(Handle handle, Variable variable);
  static void Drop(Variable* variable);
  void Poison(Handle handle, const RootErrorPtr& error);
  // An error status for the first handle that cannot be bound (zero or in use).
  absl::Status CheckNewHandles(absl::Span<const Handle> handles);
  // Binds the outputs to a new root error and reports it.
  void Fail(const Command& command, absl::Status status, std::string op, std::string inputs,
            SessionOutput* output);
  // Binds the outputs to an error that an input had.
  void Inherit(const Command& command, const RootErrorPtr& error);
  RootErrorPtr NewRootError(const Command& command, absl::Status status, std::string op,
                            std::string inputs);
  // Null if it was never defined.
  const RecordMode* ModeOf(uint16_t mode) const;

  const SessionLimits limits_;
  Mutex mutex_;
  Executor executor_;
  GraphAccount graph_;
  absl::flat_hash_map<Handle, Entry> entries_;
  absl::flat_hash_map<uint64_t, PendingWalk> walks_;
  absl::flat_hash_map<Handle, size_t> last_uses_;  // of the window that runs
  absl::flat_hash_map<uint16_t, RecordMode> modes_;
  absl::flat_hash_map<uint32_t, std::string> locations_;
  // Open graphs besides the default one, with the handles in them, and some that are released.
  absl::flat_hash_map<BackpropId, std::vector<Handle>> backprop_ids_;
  std::vector<SessionOutput::Error> unread_errors_;
  SessionStats stats_;
};

}  // namespace chx

#endif  // CHX_SERVER_SESSION_SESSION_H_
