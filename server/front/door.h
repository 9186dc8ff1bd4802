// The front's door: accepts connections and lets in those that show the token.
#ifndef CHX_SERVER_FRONT_DOOR_H_
#define CHX_SERVER_FRONT_DOOR_H_

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/front/control.pb.h"
#include "server/front/relay_loop.h"
#include "server/front/stranger.h"
#include "server/front/strangers.h"
#include "server/front/tls.h"

namespace chx::server {

// One thread and one epoll, for all listeners and all who have not shown the token. Who has goes to
// the daemon: without TLS as the socket itself, with TLS as one end of a pair, whose other end a
// RelayLoop serves.
class Door {
 public:
  // `control` leads to the daemon. At most `max_relays` TLS connections are let in.
  Door(int control, const Strangers::Limits& strangers, size_t max_relays);
  ~Door();

  // Until the daemon is gone.
  void Run();

 private:
  struct Listener {
    int socket;
    bool tls;
  };

  void Control();
  void Configure(const front::Config& config, const std::vector<int>& sockets);
  void Accept(const Listener& listener);
  void Advance(int socket);
  void LetIn(std::unique_ptr<Stranger> stranger);
  bool Announce(const Stranger& stranger, int socket);
  void Drop(uint64_t id);
  // For another one: it goes in, if it can, or out.
  void MakeRoom(uint64_t id);
  void DropLate();
  void TrimMemory();
  std::unique_ptr<Stranger> Take(int socket);

  const int control_;
  const size_t max_relays_;
  const int epoll_;
  bool daemon_gone_ = false;
  std::vector<Listener> listeners_;
  std::shared_ptr<FrontTls> tls_;
  Guests guests_;
  std::chrono::milliseconds patience_{0};
  uint64_t next_id_ = 1;
  Strangers strangers_;
  absl::flat_hash_map<int, std::unique_ptr<Stranger>> by_socket_;
  std::map<uint64_t, int> by_age_;  // id to socket: the oldest first
  std::vector<std::unique_ptr<RelayLoop>> relays_;
  size_t ended_ = 0;  // connections since memory was given back
  std::chrono::steady_clock::time_point trimmed_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_FRONT_DOOR_H_
