// Hands the descriptors of a session's shared memory to the user who has opened it and knows its
// id.
#ifndef CHX_SERVER_RPC_SEGMENT_SERVER_H_
#define CHX_SERVER_RPC_SEGMENT_SERVER_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/rpc/local_socket.h"
#include "server/session/session_manager.h"

namespace chx::server {

// One thread for all of a daemon's Unix sockets. It never waits for a session or a client: a client
// that connects and says nothing loses its connection to the next ones.
class SegmentServer {
 public:
  // Listens beside each socket of `sockets`, for the same users.
  static absl::StatusOr<std::unique_ptr<SegmentServer>> Start(
      const std::vector<std::string>& sockets, SessionManager* manager,
      const SocketUsers& users = {});
  ~SegmentServer();

 private:
  struct Connection {
    int socket;
    uid_t uid;
  };

  SegmentServer(SessionManager* manager, const SocketUsers& users)
      : manager_(manager), users_(users) {}
  void Loop();
  void Accept(int listener);
  void DropOldest();
  void Answer(const Connection& connection);

  SessionManager* const manager_;
  const SocketUsers users_;
  std::vector<std::string> paths_;
  std::vector<int> listeners_;
  std::vector<Connection> connections_;  // oldest first; the thread's own
  SpareDescriptor spare_;
  int stop_[2] = {-1, -1};  // a pipe: closing its write end ends the thread
  std::thread thread_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_SEGMENT_SERVER_H_
