// The running daemon: devices, sessions, listeners; from start to drained.
#ifndef CHX_SERVER_DAEMON_H_
#define CHX_SERVER_DAEMON_H_

#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/devices.h"
#include "server/options.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/local_stream.h"
#include "server/rpc/segment_server.h"
#include "server/rpc/session_service.h"
#include "server/rpc/transfer_service.h"
#include "server/session/session_manager.h"

namespace chx {

// Used by one thread.
class Daemon {
 public:
  // Opens devices and listens. `backends` must outlive the daemon.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Options& options,
                                                       const std::vector<Backend*>& backends);
  ~Daemon();

  // Where clients can connect, with real port numbers.
  const std::vector<std::string>& addresses() const { return addresses_; }
  // Reports NOT_SERVING, opens no more sessions, and gives the streams time to end.
  void Drain(std::chrono::milliseconds timeout);

 private:
  Daemon() = default;
  absl::Status Listen(const Options& options);
  absl::Status StartBesides(const Options& options);

  Devices devices_;
  std::unique_ptr<SessionManager> manager_;
  std::unique_ptr<SessionServiceImpl> sessions_;
  std::unique_ptr<TransferServiceImpl> transfers_;
  std::unique_ptr<AdminServiceImpl> admin_;
  // Null: no Unix socket, or no place beside it.
  std::unique_ptr<SegmentServer> segments_;
  std::unique_ptr<LocalStreamServer> local_streams_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> addresses_;
};

}  // namespace chx

#endif  // CHX_SERVER_DAEMON_H_
