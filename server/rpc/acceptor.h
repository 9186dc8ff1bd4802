// The daemon's own socket: takes connections, and sends each to whom its first bytes are for.
#ifndef CHX_SERVER_RPC_ACCEPTOR_H_
#define CHX_SERVER_RPC_ACCEPTOR_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/rpc/admission.h"
#include "server/rpc/local_socket.h"
#include "server/rpc/peer_info.h"

namespace chx::server {

struct AcceptorOptions {
  std::vector<std::string> paths;  // of Unix sockets
  SocketUsers users;
  Admission* admission = nullptr;  // outlives the acceptor
  // Serves a connection of frames to its end, and closes it; called on a thread of the
  // connection's.
  std::function<void(int socket, const PeerInfo& peer)> serve;
  // Takes a connection that speaks HTTP/2; returns at once.
  std::function<void(int socket)> serve_http2;
  // Makes all calls of `serve` return.
  std::function<void()> stop;
  // Of connections that have said nothing yet.
  size_t max_silent = 256;
  // For the first bytes.
  std::chrono::milliseconds patience{10000};
};

// One thread accepts, and looks at first bytes without taking them; each connection of frames has
// one. Who is silent loses the connection to newer ones, and with no descriptors left who connects
// is refused, so that the listeners go on whatever peers do. Made and destroyed by one thread;
// Adopt may be called by any.
class Acceptor {
 public:
  static absl::StatusOr<std::unique_ptr<Acceptor>> Start(AcceptorOptions options);
  // Listens no more, ends all connections of frames and waits for their threads.
  ~Acceptor();

  // Serves frames on a socket that the front process has let in.
  void Adopt(int socket, const PeerInfo& peer);

 private:
  struct Silent {
    uint64_t id;
    uid_t uid;
    std::chrono::steady_clock::time_point since;
  };

  explicit Acceptor(AcceptorOptions options);
  absl::Status Listen();
  void Watch(int socket, uint32_t events) const;
  void Loop();
  void Accept(int listener);
  // Decides for whom a connection is, if its first bytes are there.
  void Look(int socket);
  bool DropOldestSilent();
  void DropLate();

  // Runs `serve` on a new thread.
  void Begin(int socket, const PeerInfo& peer);
  void Leave();

  const AcceptorOptions options_;
  const int epoll_;
  std::vector<int> listeners_;
  int stop_[2] = {-1, -1};  // a pipe: closing its write end ends the thread
  // The thread's own.
  uint64_t next_id_ = 1;
  absl::flat_hash_map<int, Silent> silent_;  // by socket
  std::map<uint64_t, int> by_age_;           // their sockets, oldest first
  SpareDescriptor spare_;
  std::thread thread_;

  Mutex mutex_;
  CondVar ended_;
  size_t threads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_ACCEPTOR_H_
