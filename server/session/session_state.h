// What the commands of one session work on.
#ifndef CHX_SERVER_SESSION_SESSION_STATE_H_
#define CHX_SERVER_SESSION_SESSION_STATE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/autograd/apply.h"
#include "server/autograd/gradient_reducer.h"
#include "server/collectives/group_member.h"
#include "server/engine/devices.h"
#include "server/engine/executor.h"
#include "server/engine/memory_budget.h"
#include "server/engine/stop_token.h"
#include "server/observability/counters.h"
#include "server/session/command_traits.h"
#include "server/session/definitions.h"
#include "server/session/graph_scopes.h"
#include "server/session/handle_table.h"
#include "server/session/last_uses.h"
#include "server/session/pending_passes.h"
#include "server/session/programs.h"
#include "server/session/repeated_windows.h"
#include "server/session/root_error_log.h"
#include "server/session/saved_arrays.h"
#include "server/session/session_types.h"
#include "server/sharing/shared_store.h"

namespace chx::server {

// What a session is given beside its limits.
struct SessionResources {
  bool share = false;                      // the client is on this host and may map arrays
  MemoryAccountPtr account;                // null: one of its own, with limits.memory_bytes
  SessionCountersPtr counters;             // null: its own
  std::unique_ptr<SharingMember> sharing;  // null: other sessions' arrays are out of reach
  std::unique_ptr<GroupMember> groups;     // null: it can be in no process group
};

// Used under the session's lock, but for `stop`, `executor.segments()` and the account, which are
// thread-safe.
struct SessionState {
  // `counters` outlive the state.
  SessionState(const Devices* devices, const SessionLimits& limits_in, SessionResources resources,
               SessionCounters* counters_in);

  // Null: the session shares nothing with others. Ends after its arrays.
  const std::unique_ptr<SharingMember> sharing;
  const std::unique_ptr<GroupMember> groups;  // may be null
  const SessionLimits limits;
  SessionCounters& counters;
  StopToken stop;
  MemoryMeter meter;  // of all records below
  Executor executor;
  GraphAccount graph{&meter};
  PendingPasses passes;
  // Why the last pass whose gradients were to be reduced gave none; null: it did.
  RootErrorPtr failed_pass;
  // Of the last backward pass in a group, by its number, if the next one is to wait for its end.
  absl::flat_hash_map<int64_t, std::unique_ptr<GradientReducer>> delayed_reductions;
  Definitions definitions{&meter};
  GraphScopes scopes{&meter};
  HandleTable handles;
  SavedArrays saved{&meter};
  Programs programs{&meter};
  RepeatedWindows windows{limits.recognize_windows, meter.account()};
  RootErrorLog errors;
  int live_runs = 0;                           // server/runs: they have not ended
  uint64_t next_run_handle = kFirstRunHandle;  // handles, and numbers of their programs
  LastUses last_uses;                          // in the window of commands that runs

  // Incremented for each client: what one began must not end in another's session.
  uint64_t incarnation = 0;
  // The session's operators by the ids that its client uses, where another daemon, whose ids were
  // others, has agreed on them; empty: as in this one. 0: there is no such operator here.
  std::vector<uint16_t> op_ids;

  // For another client: keeps what is saved under names and what runs have, and frees all else.
  void BeginAnew();
  // After a wait for the device: what a kernel has found wrong there; null: nothing.
  RootErrorPtr TakeLateError(DeviceId device);
  // The same when an array there has been read, which may come from what was wrong: it has the
  // error from now on.
  RootErrorPtr BindLateError(Handle handle, DeviceId device);
  const MemoryAccountPtr& account() const { return executor.account(); }
  Runtime runtime() { return Runtime{executor, graph}; }
};

// One command that runs: the state of its session, and what the client will hear.
struct CommandContext {
  SessionState& state;
  SessionOutput& output;
  size_t position;  // of the command in its window

  // Binds the results to a new root error and reports it. Only what can be bound is: a handle in
  // use keeps its value.
  template <typename C>
  RootErrorPtr Fail(const C& command, absl::Status status, std::string op,
                    std::string inputs = "") {
    return Fail(LocationOf(command), ResultsOf(command), std::move(status), std::move(op),
                std::move(inputs));
  }
  RootErrorPtr Fail(uint32_t location, absl::Span<const Handle> results, absl::Status status,
                    std::string op, std::string inputs);
  // Binds results to an error that an input had.
  void Inherit(absl::Span<const Handle> results, const RootErrorPtr& error) {
    for (Handle handle : results) state.handles.BindError(handle, error);
  }
  // Fails the command if the status is an error.
  template <typename C>
  void FailUnlessOk(const C& command, absl::Status status, std::string op) {
    if (!status.ok()) Fail(command, std::move(status), std::move(op));
  }
  // Sends the answer to a command: the value that `fill`, of type
  // absl::Status(SessionOutput::Value*), has filled, or the error that it returned or put there.
  template <typename C, typename Fill>
  void Answer(const C& command, std::string op, Fill fill) {
    SessionOutput::Value value;
    value.request_id = command.request_id;
    absl::Status status = fill(&value);
    SendAnswer(LocationOf(command), std::move(status), std::move(op), std::move(value));
  }
  void SendAnswer(uint32_t location, absl::Status status, std::string op,
                  SessionOutput::Value value);
  // Charges the session for a value's data, if that is large.
  absl::Status ChargeValue(int64_t bytes, SessionOutput::Value* value);
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_SESSION_STATE_H_
