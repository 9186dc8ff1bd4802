// What clients ask the daemon for, over frame connections: docs/protocol.md.
#ifndef CHX_SERVER_RPC_FRAME_SERVICE_H_
#define CHX_SERVER_RPC_FRAME_SERVICE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "proto/chxd.pb.h"
#include "proto/frame.h"
#include "server/rpc/admin_calls.h"
#include "server/rpc/callers.h"
#include "server/rpc/data_calls.h"
#include "server/rpc/frame_connection.h"
#include "server/rpc/peer_info.h"
#include "server/rpc/run_calls.h"
#include "server/session/session_manager.h"

namespace chx::server {

struct FrameServiceOptions {
  std::string token;              // what a Hello must show; empty: nothing
  FrameBudget* budget = nullptr;  // of all connections; outlives the service
  // Asked before a session is made; what it returns is kept as long as the session. Null: all may.
  std::function<absl::StatusOr<std::shared_ptr<void>>(const PeerInfo&)> admit_session;
  // Writes the session of that number to disk, or all (0). Null: there is no place for it.
  std::function<absl::Status(uint64_t number, v1::SnapshotReply* reply)> snapshot;
  const DataRoot* data = nullptr;  // files for sessions; outlives the service. Null: there are none
};

// The daemon's one; thread-safe. A connection's thread runs its session's commands once it is an op
// stream: it reads, executes and answers, so that a value waits for no hand-over.
class FrameService {
 public:
  // `runs` outlive the service.
  FrameService(SessionManager* manager, Runs* runs, FrameServiceOptions options);
  ~FrameService() { Stop(); }

  // Serves one connection to its end on the calling thread, and closes the socket.
  void Serve(int socket, const PeerInfo& peer);

  // Who may come from now on.
  Callers& callers() { return callers_; }
  // Sessions that come over a Unix socket may map their arrays: there is a SegmentServer.
  void AllowSharedMemory() { shared_memory_ = true; }
  // Called where an administrator drains the daemon. Before anybody is served.
  void SetOnDrain(std::function<void()> on_drain) { admin_calls_.SetOnDrain(std::move(on_drain)); }
  // Cuts all connections and waits for what they carry out; later ones are cut at once.
  void Stop();

 private:
  bool Enter(FrameConnection* connection);
  void Leave(FrameConnection* connection);
  // What a first frame says about the peer.
  absl::Status Greet(FrameConnection* connection, const PeerInfo& peer, Caller* caller);
  void ServeCalls(FrameConnection* connection, const PeerInfo& peer, const Caller& caller);
  // False: the connection is to end.
  bool Answer(FrameConnection* connection, const PeerInfo& peer, const Caller& connected,
              absl::string_view payload);
  // Makes the id of another tenant's session one of none.
  void HideFromOthers(const Caller& caller, std::string* session_id);
  absl::Status Reply(const v1::Call& call, const PeerInfo& peer, const Caller& caller,
                     v1::Reply* reply);
  absl::Status Open(const v1::OpenRequest& request, const PeerInfo& peer, const Caller& caller,
                    v1::OpenReply* reply);
  // `local`: the client is on this host.
  absl::StatusOr<SessionRecordPtr> OpenNew(const v1::OpenRequest& request, const PeerInfo& peer,
                                           const Caller& caller, bool local);
  absl::Status Close(const v1::CloseRequest& request, v1::CloseReply* reply);

  SessionManager* const manager_;
  const FrameServiceOptions options_;
  Callers callers_;
  AdminCalls admin_calls_;
  RunCallService run_calls_;
  DataCallService data_calls_;
  std::atomic<bool> shared_memory_{false};
  Mutex mutex_;
  CondVar ended_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<FrameConnection*> connections_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_FRAME_SERVICE_H_
