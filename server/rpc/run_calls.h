// Calls about runs: docs/protocol.md.
#ifndef CHX_SERVER_RPC_RUN_CALLS_H_
#define CHX_SERVER_RPC_RUN_CALLS_H_

#include "absl/status/status.h"
#include "proto/chxd.pb.h"
#include "server/runs/runs.h"
#include "server/session/session_manager.h"

namespace chx::server {

// Thread-safe.
class RunCallService {
 public:
  // Both outlive it.
  RunCallService(SessionManager* manager, Runs* runs) : manager_(manager), runs_(runs) {}

  static bool Is(const v1::Call& call);
  // Of a call whose session is the caller's. Waits, if the call says so.
  absl::Status Answer(const v1::Call& call, v1::Reply* reply);

 private:
  absl::StatusOr<SessionRecordPtr> FindSession(const std::string& id);
  absl::Status Start(const v1::StartRunRequest& request);
  absl::Status Watch(const v1::WatchRunRequest& request, v1::WatchRunReply* reply);
  absl::Status Control(const v1::ControlRunRequest& request);

  SessionManager* const manager_;
  Runs* const runs_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_RUN_CALLS_H_
