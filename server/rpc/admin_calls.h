// Administrators' calls: which they are, what answers them, and the audit log of those that change
// something.
#ifndef CHX_SERVER_RPC_ADMIN_CALLS_H_
#define CHX_SERVER_RPC_ADMIN_CALLS_H_

#include <chrono>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "proto/chxd.pb.h"
#include "server/rpc/callers.h"
#include "server/rpc/peer_info.h"
#include "server/session/session_manager.h"

namespace chx::server {

// Thread-safe. Callers are known; a tenant sees and changes what is its own, and PERMISSION_DENIED
// is what it gets where all of the daemon is concerned (tenancy/tenant.h).
class AdminCalls {
 public:
  // Writes the state of a session, by its number, or of all (0).
  using Snapshot = std::function<absl::Status(uint64_t number, v1::SnapshotReply* reply)>;

  // `snapshot`: null where nothing is kept.
  AdminCalls(SessionManager* manager, const Callers* callers, Snapshot snapshot)
      : manager_(manager), callers_(callers), snapshot_(std::move(snapshot)) {}
  // Not while calls are answered.
  void SetOnDrain(std::function<void()> on_drain) { on_drain_ = std::move(on_drain); }

  static bool Is(const v1::Call& call);
  // A call that changes something is logged with who has made it, and what came of it.
  absl::Status Answer(const v1::Call& call, const PeerInfo& peer, const Tenant& who,
                      v1::Reply* reply);

 private:
  absl::Status Look(const v1::Call& call, const Tenant& who, v1::Reply* reply);
  absl::Status Drain();
  absl::Status TakeSnapshot(const v1::SnapshotRequest& request, const Tenant& who,
                            v1::SnapshotReply* reply) const;

  SessionManager* const manager_;
  const Callers* const callers_;
  const Snapshot snapshot_;
  std::function<void()> on_drain_;  // may be null
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_ADMIN_CALLS_H_
