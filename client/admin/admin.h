// What administrators ask a daemon for: listings, limits, draining, traces.
#ifndef CHX_CLIENT_ADMIN_ADMIN_H_
#define CHX_CLIENT_ADMIN_ADMIN_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/connect_options.h"
#include "client/dialer.h"
#include "proto/chxd.pb.h"

namespace chx {

class CallChannel;

struct DaemonStatus {
  std::string version;
  double uptime_seconds = 0;
  bool draining = false;
  bool tracing = false;
  uint64_t sessions = 0;
  uint64_t attached = 0;  // of the sessions: those with a connected client
  uint64_t max_sessions = 0;
  uint64_t memory_bytes = 0;
  uint64_t memory_limit_bytes = 0;
  double lease_seconds = 0;
};

struct DeviceStatus {
  std::string name;  // "native:0"
  std::string kind;  // "native"
  uint64_t memory_bytes = 0;
  uint64_t used_bytes = 0;  // what sessions have taken of it, with what they keep for later
  std::string lost;         // why it does not work any more; empty: it does
};

struct SessionStatus {
  uint64_t number = 0;
  std::string client_name;
  std::string tenant;
  std::string peer;
  std::string state;  // busy, attached, detached
  double age_seconds = 0;
  double idle_seconds = 0;
  uint64_t memory_bytes = 0;
  uint64_t memory_limit_bytes = 0;
  uint64_t host_array_bytes = 0;
  uint64_t device_array_bytes = 0;
  uint64_t record_bytes = 0;
  uint64_t transfer_bytes = 0;
  uint64_t handles = 0;
  uint64_t commands = 0;
  uint64_t errors = 0;
  double compute_seconds = 0;
  double device_seconds = 0;  // that GPUs have worked for it
  std::string last_operator;
};

// Limits of 0: the daemon's.
struct TenantStatus {
  std::string name;
  double weight = 1;
  std::string priority;
  uint64_t sessions = 0;
  uint64_t max_sessions = 0;
  uint64_t memory_bytes = 0;
  uint64_t memory_limit_bytes = 0;
  uint64_t session_memory_limit_bytes = 0;
  uint64_t commands = 0;
  double compute_seconds = 0;
};

// A run of somebody's session (chx/run.h).
struct RunStatus {
  // Its name, and the mean of what it was last.
  using Metrics = std::vector<std::pair<std::string, double>>;

  uint64_t session = 0;      // its number
  std::string session_name;  // empty: it has none
  std::string tenant;
  std::string name;
  std::string state;  // running, paused, suspended, ended
  int64_t step = 0;   // that are done
  int64_t steps = 0;
  double epoch = 0;
  double age_seconds = 0;   // from its start to its end, or until now
  double left_seconds = 0;  // of its time limit; 0: it has none, or has ended
  Metrics metrics;          // the means of the last log event
  Metrics evaluation_metrics;
  std::string reason;  // of its end
  std::string message;
};

enum class RunAction : uint32_t { kResume = 0, kPause = 1, kStop = 2 };

// Calls a daemon without a session. Used by one thread at a time. Errors: kConnection where nobody
// answers; PERMISSION_DENIED or UNAUTHENTICATED where the daemon does not let in; NOT_FOUND for a
// number that no session has.
class Admin {
 public:
  // Does not wait for an answer: the first call does.
  static absl::StatusOr<std::unique_ptr<Admin>> Connect(const std::string& address,
                                                        const ConnectOptions& options = {});
  ~Admin();

  absl::StatusOr<DaemonStatus> Describe();
  absl::StatusOr<std::vector<DeviceStatus>> Devices();
  absl::StatusOr<std::vector<SessionStatus>> Sessions();  // by number
  absl::StatusOr<std::vector<TenantStatus>> Tenants();
  // Those that go on, then those that have ended; each by session.
  absl::StatusOr<std::vector<RunStatus>> Runs();
  // As the session's client would, after the step that is being made. Does not wait for that.
  // kValue for a run that there is not, or has ended.
  absl::Status OrderRun(uint64_t session, const std::string& name, RunAction order);
  // Ends the session and frees what it holds.
  absl::Status KillSession(uint64_t number);
  // How much memory it may hold from now on. What it holds it keeps.
  absl::Status LimitSession(uint64_t number, uint64_t memory_bytes);
  // No sessions are opened any more, and the clients of those there are are told.
  absl::Status Drain();
  // Has the state of all sessions written now. absl::IsAborted: some were not.
  absl::Status Snapshot();
  // Records what sessions do, for at most so long. `session`: 0: all.
  absl::Status StartTrace(uint64_t session, double seconds);
  // Ends the recording and gives it, in parts whose sessions may be the same.
  absl::StatusOr<std::vector<v1::ReadTraceReply>> ReadTrace();

 private:
  Admin(std::string address, ConnectOptions options);
  // `repeatable`: it is tried again where the connection is cut.
  absl::Status Ask(const v1::Call& call, bool repeatable, v1::Reply* reply);
  absl::Status Ask(const v1::Call& call, bool repeatable, v1::Reply* reply,
                   std::chrono::seconds timeout);
  absl::Status Explained(const absl::Status& status) const;

  const std::string address_;
  const ConnectOptions options_;
  std::unique_ptr<Dialer> dialer_;
  std::unique_ptr<CallChannel> channel_;  // null: none is open
};

}  // namespace chx

#endif  // CHX_CLIENT_ADMIN_ADMIN_H_
