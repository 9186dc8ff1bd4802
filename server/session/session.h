// One client's world: its handles, the order of its commands, its graphs and its quota.
#ifndef CHX_SERVER_SESSION_SESSION_H_
#define CHX_SERVER_SESSION_SESSION_H_

#include <atomic>
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
#include "server/engine/compute_slots.h"
#include "server/engine/devices.h"
#include "server/engine/executor.h"
#include "server/engine/memory_budget.h"
#include "server/engine/stop_token.h"
#include "server/session/charged_table.h"

namespace chx {

// Why a handle has no array: where the chain of failures began. Shared by all who inherit it.
struct RootError {
  absl::Status status;           // with its ErrorKind
  std::string op;                // the operator that failed
  std::string inputs;            // "float32(2, 3), 1.0"
  std::string location;          // the client's file:line, if it sent one
  bool read = false;             // a client has seen it
  bool absent_gradient = false;  // not a failure: there is no such gradient
  MemoryCharge charge;           // of the texts; lives as long as they do, on any thread
};
using RootErrorPtr = std::shared_ptr<RootError>;

struct SessionLimits {
  int64_t memory_bytes = int64_t{4} << 30;  // over all devices
  int64_t max_handles = 1 << 22;
  int64_t max_inline_bytes = 64 << 10;
  // How long a walk waits for a function of the client; 0: without end.
  std::chrono::milliseconds function_deadline = std::chrono::hours(1);
  std::chrono::milliseconds max_command_time{0};  // 0: commands take as long as they need
  ComputeSlots* compute_slots = nullptr;          // all sessions'; null: each computes as it likes
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
    MemoryCharge charge;  // of the data, if it is large
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
  int64_t memory_bytes = 0;  // all that the session holds, on all devices
  int64_t array_bytes = 0;   // of that, its pools
  int64_t commands = 0;
  int64_t errors = 0;
};

// Thread-safe: each public function takes the session's lock, so commands of one session never
// overlap. Sessions share nothing but the devices.
class Session {
 public:
  // `share`: the client is on this host and may map arrays. `account`: by default one of its own,
  // with limits.memory_bytes.
  Session(const Devices* devices, const SessionLimits& limits, bool share = false,
          MemoryAccountPtr account = nullptr);
  ~Session();

  // Carries out decoded commands in order. Never fails as a whole: a command's failure is an error
  // value under its outputs, and in *output. Commands of a batch that stop() has cancelled are not
  // run, but for those that only keep the books; once it has ended the session none are.
  void Execute(absl::Span<const Command> window, SessionOutput* output, uint64_t batch = 0);

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
    MemoryCharge charge;
  };
  absl::StatusOr<HostCopy> ReadArray(Handle handle);

  // Whether an array or an error is bound to the handle.
  bool Holds(Handle handle);

  // Thread-safe without the session's lock.
  Segments& segments() { return executor_.segments(); }
  StopToken& stop() { return stop_; }
  const MemoryAccountPtr& account() const { return executor_.account(); }

  // Frees what walks hold whose functions are past their deadline, now or, if a command runs, at a
  // later call.
  void EndLateWalks();

  // Errors that no read has shown, oldest first, at most `max`.
  std::vector<SessionOutput::Error> UnreadErrors(size_t max = 100);
  // As above; none if the session is busy for longer than `patience`.
  std::vector<SessionOutput::Error> UnreadErrorsWithin(std::chrono::milliseconds patience,
                                                       size_t max = 100);
  // Without the session's lock: as of the last command.
  SessionStats stats() const;
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
  // What becomes of a command of a batch that is cancelled.
  void CancelOne(const Command& command, size_t position, SessionOutput* output);
  // The operator that the command names; null if there is none.
  static const OpDef* OpOf(const Command& command);
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
    MemoryCharge charge;  // of the command's outputs
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
  void Release(const Command& command, SessionOutput* output);
  // The commands that make no arrays.
  absl::Status Administer(const Command& command);
  absl::Status RequireGrad(const Command& command);
  void SetGrad(const Command& command, SessionOutput* output);
  void GetGrad(const Command& command, SessionOutput* output);
  absl::Status DefineMode(const Command& command);
  absl::Status DefineLocation(const Command& command);
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
  void Drop(Variable* variable);
  std::vector<SessionOutput::Error> ListUnread(size_t max) const;
  void Poison(Handle handle, const RootErrorPtr& error);
  // What an operator had begun to write when it was stopped has no value any more.
  void PoisonWritten(const Command& command, const OpDef& op, const RootErrorPtr& error);
  // An error status for the first handle that cannot be bound (zero or in use).
  absl::Status CheckNewHandles(absl::Span<const Handle> handles);
  // Binds the outputs to a new root error and reports it.
  RootErrorPtr Fail(const Command& command, absl::Status status, std::string op, std::string inputs,
                    SessionOutput* output);
  // Binds the outputs to an error that an input had.
  void Inherit(const Command& command, const RootErrorPtr& error);
  RootErrorPtr NewRootError(const Command& command, absl::Status status, std::string op,
                            std::string inputs);
  // Of what found no room to be recorded: one for all of it.
  const RootErrorPtr& LostError();
  // Charges the session for a value's data, if that is large.
  absl::Status ChargeValue(int64_t bytes, SessionOutput::Value* value);
  // Null if it was never defined.
  const RecordMode* ModeOf(uint16_t mode) const;

  // Work that is not a command of the stream; lives under the lock. It can be stopped as one.
  class Outside {
   public:
    explicit Outside(Session* session);
    ~Outside();
    // An error if it may not begin.
    absl::Status Check(absl::string_view what) const;

   private:
    Session* const session_;
    const ComputeSlots::Turn turn_;
    const StopScope scope_;
    const StopReason reason_;
  };

  // For those who may not wait for the lock. Written under it.
  struct Counters {
    std::atomic<int64_t> handles{0};
    std::atomic<int64_t> commands{0};
    std::atomic<int64_t> errors{0};
  };
  void CountHandles() {
    counters_.handles.store(static_cast<int64_t>(entries_.size()), std::memory_order_relaxed);
  }

  const SessionLimits limits_;
  StopToken stop_;
  Counters counters_;
  Mutex mutex_;
  ComputeSlots::Account computed_;
  MemoryMeter meter_;  // of all records below
  Executor executor_;
  GraphAccount graph_{&meter_};
  ChargedTable<Handle, Entry> entries_{&meter_};
  ChargedTable<uint64_t, PendingWalk> walks_{&meter_};
  absl::flat_hash_map<Handle, size_t> last_uses_;  // of the window that runs
  ChargedTable<uint16_t, RecordMode> modes_{&meter_};
  ChargedTable<uint32_t, std::string> locations_{&meter_};
  // Open graphs besides the default one, with the handles in them, and some that are released.
  ChargedTable<BackpropId, std::vector<Handle>> backprop_ids_{&meter_};
  // Stands for handles that could not be bound, as there was no memory: without an error, there are
  // none.
  Entry lost_;
  std::vector<SessionOutput::Error> unread_errors_;
};

}  // namespace chx

#endif  // CHX_SERVER_SESSION_SESSION_H_
