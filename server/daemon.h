// The running daemon: devices, sessions, listeners; from start to drained.
#ifndef CHX_SERVER_DAEMON_H_
#define CHX_SERVER_DAEMON_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/admin/admin_supervisor.h"
#include "server/engine/compute_slots.h"
#include "server/engine/devices.h"
#include "server/engine/heap_trimmer.h"
#include "server/engine/memory_budget.h"
#include "server/front/supervisor.h"
#include "server/options.h"
#include "server/rpc/acceptor.h"
#include "server/rpc/admission.h"
#include "server/rpc/frame_service.h"
#include "server/rpc/segment_server.h"
#include "server/session/session_manager.h"
#include "server/state/state_store.h"

namespace chx::server {

// Used by one thread.
class Daemon {
 public:
  // Opens devices and listens. `backends` must outlive the daemon.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Options& options,
                                                       const std::vector<Backend*>& backends);
  ~Daemon();

  // Where clients can connect, with real port numbers.
  const std::vector<std::string>& addresses() const { return addresses_; }
  // For new connections; sessions go on, also if theirs is cut. INVALID_ARGUMENT: nothing has
  // changed. A former token leads to the sessions that there are, until the last of them has ended.
  absl::Status SetCredentials(const Credentials& credentials);
  // Forgets former tokens that no session needs any more. To be called now and then.
  void ForgetFormerTokens();
  // Reports NOT_SERVING, opens no more sessions, and gives the streams time to end. With a place
  // for sessions, their clients are going to be the next daemon's: streams are cut behind the batch
  // that runs, and the sessions are written.
  void Drain(std::chrono::milliseconds timeout);

 private:
  Daemon() = default;
  absl::Status Listen(const Options& options);
  absl::Status ListenForFrames(const Options& options);
  void StopListening();
  // As StopListening, but what runs is stopped only if it takes longer than that.
  void StopListeningWithin(std::chrono::milliseconds patience);
  void AnnounceTokens();

  struct FormerToken {
    std::string token;
    std::chrono::steady_clock::time_point replaced;
  };

  HeapTrimmer trimmer_;
  std::unique_ptr<MemoryBudget> budget_;
  Devices devices_;
  std::unique_ptr<ComputeSlots> compute_slots_;  // null: sessions wait for GPUs, not for cores
  std::unique_ptr<StateStore> state_;  // null: sessions end with the daemon. Outlives the manager
  std::unique_ptr<Admission> admission_;
  std::unique_ptr<SessionManager> manager_;
  std::unique_ptr<FrameService> frames_;
  std::unique_ptr<SegmentServer> segments_;  // null: no Unix socket, or no place beside it
  std::unique_ptr<AdminSupervisor> admin_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<Supervisor> front_;  // null: no TCP
  std::vector<std::string> addresses_;
  Credentials credentials_;
  std::vector<FormerToken> former_tokens_;  // oldest first
};

}  // namespace chx::server

#endif  // CHX_SERVER_DAEMON_H_
