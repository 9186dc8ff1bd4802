// The running daemon: devices, sessions, listeners; from start to drained.
#ifndef CHX_SERVER_DAEMON_H_
#define CHX_SERVER_DAEMON_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/admin/admin_supervisor.h"
#include "server/collectives/daemon_groups.h"
#include "server/collectives/process_groups.h"
#include "server/data/data_root.h"
#include "server/engine/compute_slots.h"
#include "server/engine/devices.h"
#include "server/engine/heap_trimmer.h"
#include "server/engine/memory_budget.h"
#include "server/engine/spill_folder.h"
#include "server/front/supervisor.h"
#include "server/options.h"
#include "server/rpc/acceptor.h"
#include "server/rpc/admission.h"
#include "server/rpc/frame_service.h"
#include "server/rpc/segment_server.h"
#include "server/runs/runs.h"
#include "server/session/session_manager.h"
#include "server/sharing/shared_store.h"
#include "server/state/state_store.h"
#include "server/tenancy/tenants.h"
#include "server/trace/tracer.h"
#include "server/web/web_supervisor.h"

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
  // Where it shows metrics and the status page, in this order, if it does.
  const std::vector<std::string>& web_addresses() const { return web_addresses_; }
  // Where other daemons reach it; empty: they do not.
  std::string peer_address() const { return peers_ == nullptr ? "" : peers_->address(); }
  // For new connections; sessions go on, also if theirs is cut. INVALID_ARGUMENT: nothing has
  // changed. What showed who somebody is leads to the sessions that there are, until the last of
  // them has ended.
  absl::Status SetCredentials(const Credentials& credentials);
  // Forgets former tokens and the like that no session needs any more. To be called now and then.
  void ForgetFormerTokens();
  // Reports NOT_SERVING, opens no more sessions, and gives the streams time to end. With a place
  // for sessions, their clients are going to be the next daemon's: streams are cut behind the batch
  // that runs, and the sessions are written.
  void Drain(std::chrono::milliseconds timeout);

 private:
  Daemon() = default;
  RemoteGroups* remote_groups() { return peers_ == nullptr ? nullptr : peers_->remote(); }
  absl::Status OpenSpillFolder(const Options& options);
  // From now on until ForgetDevices.
  void WatchDevices(const std::function<void()>& on_useless);
  void NoteLost(const Device& lost, const absl::Status& why);
  void ForgetDevices();
  absl::Status Listen(const Options& options);
  absl::Status ListenForFrames(const Options& options);
  absl::Status ListenForHttp(const Options& options);
  void StopListening();
  absl::Status SetTenants(const Credentials& credentials);
  void ForgetFormerIdentities();
  // As StopListening, but what runs is stopped only if it takes longer than that.
  void StopListeningWithin(std::chrono::milliseconds patience);
  void AnnounceTokens();
  FrontGuests Guests() const;
  AdminAccess AccessOfAdmins() const;
  WebGuests GuestsOfWeb() const;
  // The web process lets in who may look now. Without a new certificate it goes on if nobody else
  // may.
  void RenewWeb(bool certificate);

  struct FormerToken {
    std::string token;
    std::chrono::steady_clock::time_point replaced;
  };

  HeapTrimmer trimmer_;
  std::unique_ptr<MemoryBudget> budget_;
  std::unique_ptr<Tenants> tenants_;    // null: none are named
  std::unique_ptr<SpillFolder> spill_;  // null: what a session has no memory for is refused
  Devices devices_;
  std::unique_ptr<ComputeSlots> compute_slots_;  // null: sessions wait for GPUs, not for cores
  SharedStore sharing_;
  std::unique_ptr<DaemonGroups> peers_;  // null: no part in groups of several daemons
  std::unique_ptr<ProcessGroups> groups_;
  std::unique_ptr<StateStore> state_;  // null: sessions end with the daemon. Outlives the manager
  std::unique_ptr<Admission> admission_;
  std::unique_ptr<Tracer> tracer_;
  std::unique_ptr<SessionManager> manager_;
  std::unique_ptr<DataRoot> data_;  // null: no files are for sessions
  std::unique_ptr<Runs> runs_;      // they hold their sessions
  std::unique_ptr<FrameService> frames_;
  std::unique_ptr<SegmentServer> segments_;  // null: no Unix socket, or no place beside it
  std::unique_ptr<AdminSupervisor> admin_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<Supervisor> front_;  // null: no TCP
  WebGuests web_guests_;
  std::unique_ptr<WebSupervisor> web_;  // null: no HTTP
  std::vector<std::string> addresses_;
  std::vector<std::string> web_addresses_;
  Credentials credentials_;
  std::vector<FormerToken> former_tokens_;  // oldest first
};

}  // namespace chx::server

#endif  // CHX_SERVER_DAEMON_H_
