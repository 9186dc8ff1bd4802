// Administrators' calls: which they are, what answers them, and the audit log of those that change
// something.
#ifndef CHX_SERVER_RPC_ADMIN_CALLS_H_
#define CHX_SERVER_RPC_ADMIN_CALLS_H_

#include <chrono>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "proto/chxd.pb.h"
#include "server/rpc/peer_info.h"
#include "server/session/session_manager.h"

namespace chx::server {

// Thread-safe. Who may call is decided before.
class AdminCalls {
 public:
  explicit AdminCalls(SessionManager* manager) : manager_(manager) {}
  // Not while calls are answered.
  void SetOnDrain(std::function<void()> on_drain) { on_drain_ = std::move(on_drain); }

  static bool Is(const v1::Call& call);
  // A call that changes something is logged with who has made it, and what came of it.
  absl::Status Answer(const v1::Call& call, const PeerInfo& peer, v1::Reply* reply);

 private:
  absl::Status Look(const v1::Call& call, v1::Reply* reply);
  absl::Status Drain();

  SessionManager* const manager_;
  std::function<void()> on_drain_;  // may be null
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_ADMIN_CALLS_H_
