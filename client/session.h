// A client's session with a daemon.
#ifndef CHX_CLIENT_SESSION_H_
#define CHX_CLIENT_SESSION_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "client/array.h"
#include "client/array_transfer.h"
#include "client/client_functions.h"
#include "client/command_queue.h"
#include "client/connection.h"
#include "client/exports.h"
#include "client/gradients.h"
#include "client/graph_mirror.h"
#include "client/random_counter.h"
#include "client/shared_memory.h"
#include "ops/infer.h"
#include "ops/settings.h"

namespace chx {

// Operator calls are inferred here, at the caller's line, mirrored, encoded and sent in batches:
// none of them waits. Only reads do.
//
// Owns the parts that do the work, and connects them; each part's header says what it does and
// which threads may call it. Arrays hold references to their session. Thread-safe; arrays are not
// (see Array).
class Session : public RefCounted<Session> {
 public:
  static absl::StatusOr<Ref<Session>> Connect(const std::string& address,
                                              const ConnectOptions& options = {});
  ~Session();
  static void Destroy(const Session* session);

  // The checked, non-waiting path of every operator. In-place operators give no outputs. A batch
  // that has become due is sent, or, with `flush_due`, left to the caller to Flush.
  absl::Status Apply(const OpCall<Operand>& call, ArrayPtrs* outputs, bool* flush_due = nullptr);
  // Waits until the operator that made the array has run, and says whether it failed.
  absl::Status Confirm(const ArrayBody& array);

  // Copies at the call; `data` may be reused when it returns.
  absl::StatusOr<ArrayPtr> Upload(absl::string_view data, Dtype dtype,
                                  absl::Span<const int64_t> shape, DeviceId device) {
    return transfer_.Upload(data, dtype, shape, device);
  }
  // Waits for the elements, in C order.
  absl::Status Fetch(const ArrayBody& array, void* out, size_t bytes) {
    return transfer_.Fetch(array, out, bytes);
  }
  // Waits until all that was called is done.
  absl::Status Synchronize() { return queue_.Synchronize(); }
  // Sends what is pending; waits only while the daemon has enough to do. If it may be interrupted
  // and is, the rest is sent later.
  absl::Status Flush(bool interruptible = false) { return queue_.Flush(interruptible); }
  CommandQueue::Stats stats() { return queue_.stats(); }

  // Changes a setting for what is called from now on (ops/settings.h); does not wait.
  absl::Status Configure(absl::string_view name, Scalar value);
  Settings settings();

  // Seeds the session's random numbers.
  void Seed(uint64_t seed);
  absl::StatusOr<ArrayPtr> Random(absl::string_view op, absl::Span<const int64_t> shape, double a,
                                  double b, Dtype dtype, DeviceId device);
  // With parameters for each element.
  absl::StatusOr<ArrayPtr> RandomOf(absl::string_view op, absl::Span<const Operand> parameters);

  // What was called and has not run becomes error values; the session goes on. Does not wait for
  // it.
  absl::Status Cancel();
  // Ends the session in the daemon. Arrays of it are unusable afterwards.
  absl::Status Close();

  const std::vector<std::string>& devices() const { return connection_->devices(); }
  // Whether the session belongs to a process that this one was forked from: unusable.
  bool Forked() const { return queue_.Forked(); }
  // A new array for a handle that a command binds.
  ArrayPtr NewArray(Handle handle, const ArraySpec& spec) {
    return MakeRef<ArrayBody>(Ref<Session>(this), handle, spec);
  }
  // An error of operator `op` unless the array belongs to this session.
  absl::Status CheckOwn(absl::string_view op, const ArrayBody* array) const;

  Connection& connection() { return *connection_; }
  CommandQueue& queue() { return queue_; }
  GraphMirror& graphs() { return graphs_; }
  const GraphMirror& graphs() const { return graphs_; }
  ClientFunctions& functions() { return functions_; }
  Gradients& gradients() { return gradients_; }
  SharedMemory& shared_memory() { return shared_memory_; }
  Exports& exports() { return exports_; }

  // The binding's object for this session, which is not owned.
  void* binding = nullptr;

 private:
  explicit Session(std::unique_ptr<Connection> connection);
  // Checks the inputs of an operator, and says what they are for inference and in the command.
  absl::Status PrepareInputs(const OpDef& op, absl::Span<const Operand> inputs,
                             absl::Span<SpecOperand> specs, absl::Span<HandleOperand> handles);

  const std::unique_ptr<Connection> connection_;
  CommandQueue queue_;
  GraphMirror graphs_;
  ClientFunctions functions_;
  Gradients gradients_;
  SharedMemory shared_memory_;
  Exports exports_;
  ArrayTransfer transfer_;
  RandomCounter random_;
  Settings settings_ ABSL_GUARDED_BY(queue_.mutex());
};

}  // namespace chx

#endif  // CHX_CLIENT_SESSION_H_
