// A client's session with a daemon.
#ifndef CHX_CLIENT_SESSION_H_
#define CHX_CLIENT_SESSION_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/ref.h"
#include "client/array.h"
#include "client/command_stats.h"
#include "client/connect_options.h"
#include "ops/settings.h"

namespace chx {

class ClientFunctions;
class CommandQueue;
class Connection;
class Exports;
class Gradients;
class GraphMirror;
class Programs;
class SavedArrays;
class SharedMemory;
struct OpDef;
template <typename In>
struct OpCall;

// Operator calls are inferred here, at the caller's line, mirrored, encoded and sent in batches:
// none of them waits. Only reads do.
//
// Owns the parts that do the work, and connects them; each part's header says what it does and
// which threads may call it. Arrays hold references to their session. Thread-safe; arrays are not
// (see Array).
class Session : public RefCounted<Session> {
 public:
  // Opens a session with the daemon at "unix:/PATH" or "HOST:PORT". kConnection: nobody listens
  // there, or refuses; absl::IsPermissionDenied: the daemon expects another token.
  static absl::StatusOr<Ref<Session>> Connect(const std::string& address,
                                              const ConnectOptions& options = {});
  ~Session();
  static void Destroy(const Session* session);

  // The checked, non-waiting path of every operator. In-place operators give no outputs. A batch
  // that has become due is sent, or, with `flush_due`, left to the caller to FlushDue.
  absl::Status Apply(const OpCall<Operand>& call, ArrayPtrs* outputs, bool* flush_due = nullptr);
  // Waits until the operator that made the array has run, and says whether it failed.
  absl::Status Confirm(const ArrayBody& array);

  // For a thread that uploads ahead of what is called: from now on its uploads over a Unix socket
  // pass through shared memory with room for twice so many bytes, an eighth of the session's at
  // most, and do not wait for what was called before.
  absl::Status UploadAhead(size_t bytes);
  // Copies at the call; `data` may be reused when it returns.
  absl::StatusOr<ArrayPtr> Upload(absl::string_view data, Dtype dtype,
                                  absl::Span<const int64_t> shape, DeviceId device);
  // Waits for the elements, in C order.
  absl::Status Fetch(const ArrayBody& array, void* out, size_t bytes);
  // Waits until all that was called is done.
  absl::Status Synchronize();
  // Sends what is pending; waits only while the daemon has enough to do. If it may be interrupted
  // and is, the rest is sent later.
  absl::Status Flush(bool interruptible = false);
  // Sends, interruptibly, what is worth a message.
  absl::Status FlushDue();
  CommandStats stats();

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
  // Ends the session in the daemon. Arrays of it are unusable afterwards. A session with a name, in
  // which arrays were saved, waits for another client instead, unless `discard`.
  absl::Status Close(bool discard = false);

  // "native:0", ...: a DeviceId is an index into it.
  const std::vector<std::string>& devices() const;
  // Whether the daemon has said that it is about to end.
  bool draining() const;
  // Whether the session belongs to a process that this one was forked from: unusable.
  bool Forked() const;
  // A new array for a handle that a command binds.
  ArrayPtr NewArray(Handle handle, const ArraySpec& spec);
  // An error of operator `op` unless the array belongs to this session.
  absl::Status CheckOwn(absl::string_view op, const ArrayBody* array) const;

  // The parts, for what is built on the client. Their headers are no part of the public API.
  Connection& connection();
  CommandQueue& queue();
  GraphMirror& graphs();
  const GraphMirror& graphs() const;
  ClientFunctions& functions();
  Gradients& gradients();
  Programs& programs();
  SavedArrays& saved();
  SharedMemory& shared_memory();
  Exports& exports();

  // The binding's object for this session, which is not owned.
  void* binding = nullptr;

 private:
  struct Parts;
  friend struct Parts;

  explicit Session(std::unique_ptr<Connection> connection);
  // As Apply, with the inputs as they are.
  absl::Status ApplyUncast(const OpCall<Operand>& call, ArrayPtrs* outputs, bool* flush_due);
  void VaryRandom(const OpDef& op, int64_t elements);

  const std::unique_ptr<Parts> parts_;
};

}  // namespace chx

#endif  // CHX_CLIENT_SESSION_H_
