// A client's session with a daemon.
#ifndef CHX_CLIENT_SESSION_H_
#define CHX_CLIENT_SESSION_H_

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "client/array.h"
#include "client/backprop_ids.h"
#include "client/connection.h"
#include "client/exports.h"
#include "client/function.h"
#include "client/modes.h"
#include "client/staging.h"
#include "ops/infer.h"
#include "ops/settings.h"
#include "proto/command.h"

namespace chx {

using ArrayPtrs = absl::InlinedVector<ArrayPtr, 1>;

// Operator calls are inferred here, at the caller's line, mirrored, encoded and sent in batches:
// none of them waits. Only reads do. Thread-safe; arrays are not (see Array).
class Session : public RefCounted<Session> {
 public:
  static absl::StatusOr<Ref<Session>> Connect(const std::string& address,
                                              const ConnectOptions& options = {});
  ~Session();
  static void Destroy(const Session* session);

  // The checked, non-waiting path of every operator. In-place operators give no outputs. `device`
  // counts for operators without array inputs. A batch that has become due is sent, or, with
  // `flush_due`, left to the caller to Flush.
  absl::Status Apply(const OpDef& op, absl::Span<const Operand> inputs,
                     absl::Span<const AttrValue> attrs, DeviceId device, ArrayPtrs* outputs,
                     bool* flush_due = nullptr);

  // Waits until the operator that made the array has run, and says whether it failed.
  absl::Status Confirm(const ArrayBody& array);

  // Copies at the call; `data` may be reused when it returns.
  absl::StatusOr<ArrayPtr> Upload(absl::string_view data, Dtype dtype,
                                  absl::Span<const int64_t> shape, DeviceId device);
  // Waits for the elements, in C order.
  absl::Status Fetch(const ArrayBody& array, void* out, size_t bytes);
  // Waits until all that was called is done, and then shows the array's memory. As long as the
  // result lives, operators on that memory, backward passes among them, have run when their calls
  // return. Null if the memory is not shared: it is another host's or a GPU's, or none is left.
  absl::StatusOr<std::unique_ptr<Export>> ExportArray(const ArrayPtr& array);
  // The array over memory inside of what is exported; spec.offset is ignored. Null if `first` is
  // not there, or the array cannot be as it lies: then it is to be copied.
  absl::StatusOr<ArrayPtr> ImportArray(const char* first, ArraySpec spec);
  // Waits until all that was called is done.
  absl::Status Synchronize();
  // Changes a setting for what is called from now on (ops/settings.h); does not wait.
  absl::Status Configure(absl::string_view name, Scalar value);
  Settings settings();
  // Sends what is pending; waits only while the daemon has enough to do. Where it may be
  // interrupted, and is, what is left is sent later.
  absl::Status Flush(bool interruptible = false);

  // See Array for what these mean.
  absl::Status RequireGrad(ArrayBody* array, BackpropId id);
  absl::Status Backward(absl::Span<ArrayBody* const> outputs, const BackwardArgs& args,
                        bool* flush_due = nullptr);
  // Null entries: not reachable. A null or missing output grad stands for ones.
  absl::StatusOr<std::vector<ArrayPtr>> Grad(absl::Span<ArrayBody* const> outputs,
                                             absl::Span<ArrayBody* const> inputs,
                                             absl::Span<ArrayBody* const> output_grads,
                                             const BackwardArgs& args);
  // Null if there is none; the same object as long as the gradient is the same. The array must be
  // flagged by require_grad.
  absl::StatusOr<ArrayPtr> GetGrad(ArrayBody* array, BackpropId id);
  absl::StatusOr<bool> HasGrad(ArrayBody* array, BackpropId id);
  absl::Status SetGrad(ArrayBody* array, const ArrayPtr& grad, BackpropId id);  // null: clear
  // Connects `outputs`, which are in no graph, to the inputs that they were made of (null: none):
  // in a walk back, `function` makes the gradients. It lives until no graph has it. The indexes say
  // which arrays it gets then.
  absl::Status RecordFunction(std::shared_ptr<Function> function,
                              absl::Span<ArrayBody* const> inputs,
                              absl::Span<ArrayBody* const> outputs,
                              absl::Span<const int64_t> retained_inputs,
                              absl::Span<const int64_t> retained_outputs);
  // Forgets how the array was made, in one graph: there it is a leaf from now on.
  absl::Status Unchain(ArrayBody* array, BackpropId id);
  // Whether operators on the array are recorded by this thread; without an id: in any graph.
  absl::StatusOr<bool> IsBackpropRequired(ArrayBody* array, absl::optional<BackpropId> id);
  absl::StatusOr<bool> IsGradRequired(ArrayBody* array, BackpropId id);
  // Whether the graph knows how the array was made.
  absl::StatusOr<bool> IsChained(ArrayBody* array, BackpropId id);
  // What has been sent, or is about to be, since the session began.
  struct Stats {
    int64_t commands = 0;
    int64_t round_trips = 0;  // how often something waited for the daemon
  };
  Stats stats() {
    if (Forked()) return Stats();
    MutexLock lock(&mutex_);
    return {stats_.commands, static_cast<int64_t>(next_request_) - 1 + connection_->calls()};
  }
  // What the daemon's graph below the array looks like; waits.
  absl::StatusOr<std::string> DumpGraph(ArrayBody* array, BackpropId id);
  // What the daemon knows, whatever the mirror says: tests compare both. Waits.
  absl::StatusOr<GraphState> StateInDaemon(const ArrayBody& array, BackpropId id);
  // Makes array->places valid. Waits if the array is a gradient that may be in a graph itself and
  // that nobody has looked at.
  absl::Status Resolve(ArrayBody* array) {
    return array->graphs_unknown ? AskGraphsOf(array) : absl::OkStatus();
  }
  // Graphs besides the default one. `name` is for error messages.
  absl::StatusOr<BackpropId> NewBackpropId(std::string name = "");
  absl::Status ReleaseBackpropId(BackpropId id);
  const BackpropIds& backprop_ids() const { return backprop_ids_; }
  // Whether the calling thread's mode records in a graph of this session.
  bool Records(BackpropId id) const {
    return CurrentMode().Records(this, id) && backprop_ids_.IsOpen(id);
  }
  // What the binding does around waits (client/waiting.h).
  static void SetWaitHooks(void* (*begin)(), void (*end)(void* state), bool (*interrupted)());

  // Random operators are functions of a seed and a counter, which the session keeps.
  void Seed(uint64_t seed);
  absl::StatusOr<ArrayPtr> Random(absl::string_view op, absl::Span<const int64_t> shape, double a,
                                  double b, Dtype dtype, DeviceId device);
  // With parameters for each element.
  absl::StatusOr<ArrayPtr> RandomOf(absl::string_view op, absl::Span<const Operand> parameters);

  // A place in the user's program ("train.py:12"), for error messages. Numbers are process-wide.
  static uint32_t InternLocation(absl::string_view text);
  // What the calling thread's next calls are attributed to; 0: nothing.
  static void SetLocation(uint32_t location);

  const std::vector<std::string>& devices() const { return connection_->devices(); }
  Connection& connection() { return *connection_; }
  // Whether the session is that of a process which this one was forked from: unusable.
  bool Forked() const;
  // What was called and has not run becomes error values; the session goes on. Does not wait for
  // it.
  absl::Status Cancel();
  // Ends the session in the daemon. Arrays of it are unusable afterwards.
  absl::Status Close();

  // The binding's object for this session, which is not owned.
  void* binding = nullptr;

 private:
  friend class ArrayBody;
  friend class Export;
  explicit Session(std::unique_ptr<Connection> connection);

  struct RecordedFunction {
    std::shared_ptr<Function> function;
    std::vector<ArraySpec> inputs;
    std::vector<ArraySpec> outputs;
    std::vector<int64_t> retained_inputs;
    std::vector<int64_t> retained_outputs;
  };

  struct Batch {
    std::string records;
    uint32_t commands;
  };

  // An OK status if the session is of this process, open, and not lost.
  absl::Status CheckUsable() const;
  absl::Status UnlessClosed(absl::Status transferred) const;
  absl::Status CheckOwn(absl::string_view op, const ArrayBody* array) const;
  absl::Status CheckWritten(const OpDef& op, absl::Span<const Operand> inputs) const;
  absl::Status CheckWritable(const ArrayBody& array) const;
  // What one call makes in the mirror: a node in each graph that records.
  using MirrorOps = absl::InlinedVector<std::pair<BackpropId, Ref<MirrorOp>>, 1>;
  void AddMirrorInput(const ArrayBody& input, MirrorOps* ops) const;
  void ConnectMirror(const MirrorOps& ops, absl::Span<ArrayBody* const> outputs);
  void Mirror(const OpDef& op, absl::Span<const Operand> inputs, ArrayPtrs* outputs);
  absl::StatusOr<ArrayBody::Place*> PlaceOf(absl::string_view op, ArrayBody* array, BackpropId id);
  absl::StatusOr<std::string> Ask(Command* question) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::vector<GraphState>> AskStates(absl::Span<const Handle> pairs, BackpropId id);
  absl::Status AskGraphsOf(ArrayBody* array);
  static void LearnGraphs(const GraphState& state, ArrayBody* array);
  absl::Status AskGrad(ArrayBody* array, ArrayBody::Place* place);
  absl::Status DropAbsent(std::vector<ArrayPtr>* grads, const std::vector<bool>& sure);
  void ForgetClosedGraphs(ArrayBody* array);
  std::shared_ptr<const uint64_t> KeepFunction(RecordedFunction function);
  void FunctionUnreachable(uint64_t number);
  void ForgetFreedFunctions();
  void ForgetFunctions();
  bool HasFunctions();
  // Sends a backward or grad that may call functions, and carries these out.
  absl::Status Drive(Command* command, const BackwardArgs& args);
  absl::Status CallFunction(uint64_t walk, const WalkState& state, const BackwardArgs& args,
                            std::vector<ArrayPtr>* grads);
  ArrayPtr NewLearned(Handle handle, const ArraySpec& spec, const GraphState& state);
  // What a backward means for the mirror.
  void MirrorBackward(const std::vector<GraphNode*>& outputs, const GraphBelow& below,
                      BackpropId id, bool in_graph);
  // The outputs' nodes, of those that are in the graph.
  absl::StatusOr<std::vector<GraphNode*>> StartWalk(absl::string_view op,
                                                    absl::Span<ArrayBody* const> outputs,
                                                    BackpropId id);
  static bool MayBeInGraph(const ArrayBody& array);
  static bool MayStartInGraph(const ArrayBody::Place& place);
  static absl::Status CheckGrad(absl::string_view op, const ArrayBody& grad,
                                const ArrayBody& array);
  uint16_t Mode() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t Location() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Released(Handle handle, int64_t bytes);
  void AppendReleases() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write(const Command& command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // To be called when a record was appended to pending_.
  void Appended() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts pending commands aside before they grow beyond what a message may hold: for commands that
  // don't flush, so that nothing else bounds them.
  void SealIfLarge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the pending commands are worth a message.
  bool Due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool NothingToSend() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Flush(true) before a wait for the answer to a request, which is not waited for if it is
  // interrupted.
  absl::Status FlushFor(uint64_t request);
  // Sends what is pending and waits for the answer to a request that is among it.
  absl::StatusOr<std::string> AnswerTo(uint64_t request, bool interruptible);
  // Flushes now and then what nobody else does.
  void FlushLoop();
  ArrayPtr NewArray(Handle handle, const ArraySpec& spec);
  Handle NewHandle() ABSL_LOCKS_EXCLUDED(mutex_);
  bool TouchesExports(absl::Span<const Operand> inputs);
  absl::Status SynchronizeForExports();
  // A block of memory that both sides map.
  struct Shared {
    SharedBlock place;
    MappingPtr mapping;
    char* data = nullptr;
  };
  // Asks for one, by the flags, the handle and the rest of a kShare. `populate`: all of it will be
  // used, soon.
  absl::StatusOr<Shared> Share(Command* command, bool populate);
  absl::StatusOr<Shared> AllocateShared(const ArraySpec& spec, bool populate, Handle* handle);
  // Through memory that both sides map. If they fail, the ordinary ways remain.
  absl::StatusOr<ArrayPtr> UploadShared(absl::string_view data, const ArraySpec& spec);
  absl::Status FetchShared(const ArrayBody& array, void* out, size_t bytes);
  // Through the stages. Null or false: not this way.
  absl::StatusOr<ArrayPtr> UploadStaged(absl::string_view data,
                                        const ArraySpec& spec) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::StatusOr<bool> FetchStaged(const ArrayBody& array, char* out, size_t bytes);
  absl::StatusOr<ArrayPtr> UploadBy(absl::string_view data, const ArraySpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(upload_stage_.mutex);
  absl::StatusOr<bool> FetchBy(Stage* stage, const ArrayBody& array, char* out, size_t bytes);
  // False if there is no memory for it. An error if the wait was interrupted.
  absl::StatusOr<bool> OpenStage(Stage* stage, size_t most_bytes);
  void DropStages();
  void DropUploadStage() ABSL_LOCKS_EXCLUDED(upload_stage_.mutex);
  // The request's id.
  uint64_t AppendFetchInto(Handle handle, const Stage& stage, size_t place, size_t begin,
                           size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CopyFromPlace(const SharedPlace& place, char* out, size_t bytes);

  const std::unique_ptr<Connection> connection_;
  const int fork_generation_;
  const int process_;
  BackpropIds backprop_ids_;
  Exports exports_;
  UploadStage upload_stage_;
  FetchStage fetch_stage_;
  Mutex mutex_;
  std::string pending_ ABSL_GUARDED_BY(mutex_);
  uint32_t pending_commands_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Batch> sealed_ ABSL_GUARDED_BY(mutex_);  // before what is pending
  std::vector<Handle> released_ ABSL_GUARDED_BY(mutex_);
  int64_t released_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  Handle next_handle_ ABSL_GUARDED_BY(mutex_) = 1;
  std::vector<uint32_t> defined_modes_ ABSL_GUARDED_BY(mutex_);  // versions; 0: never
  std::vector<bool> defined_locations_ ABSL_GUARDED_BY(mutex_);
  uint64_t seed_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t random_counter_ ABSL_GUARDED_BY(mutex_) = 0;
  Settings settings_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Mutex functions_mutex_;  // never held with another
  absl::flat_hash_map<uint64_t, std::shared_ptr<RecordedFunction>> functions_
      ABSL_GUARDED_BY(functions_mutex_);
  uint64_t next_function_ ABSL_GUARDED_BY(functions_mutex_) = 1;
  // Whether the daemon has graphs that the mirror does not show: walks that were recorded.
  std::atomic<bool> hidden_graphs_{false};
  uint64_t next_request_ ABSL_GUARDED_BY(mutex_) = 1;
  Stats stats_ ABSL_GUARDED_BY(mutex_);
  CondVar wake_flusher_;
  bool flusher_idle_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<std::thread> flusher_;
};

}  // namespace chx

#endif  // CHX_CLIENT_SESSION_H_
