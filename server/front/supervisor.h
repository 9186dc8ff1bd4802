// The daemon's side of the front process: starts it, hands it its listeners, and starts another
// when it dies.
#ifndef CHX_SERVER_FRONT_SUPERVISOR_H_
#define CHX_SERVER_FRONT_SUPERVISOR_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/process/child.h"
#include "server/rpc/peer_info.h"

namespace chx::server {

// Whom the front lets in.
struct FrontGuests {
  bool open = false;  // everybody
  struct Token {
    std::string sha256;
    absl::Time expires = absl::InfiniteFuture();
  };
  std::vector<Token> tokens;
  std::string client_ca;     // PEM; only with TLS
  std::string service_keys;  // as ServiceKeys::Parse takes it

  // Those who show one of these, or all if there is none.
  static FrontGuests ByTokens(const std::vector<std::string>& tokens);
};

struct FrontOptions {
  struct Listener {
    std::string address;  // HOST:PORT
    bool tls = false;
  };
  std::vector<Listener> listeners;
  std::string tls_cert, tls_key;  // PEM
  FrontGuests guests;
  // From when a connection is accepted until it has shown the token.
  std::chrono::milliseconds patience{10000};
  // Started with kFrontArgument; has to call RunFront then.
  std::string program;
};

// The daemon binds the listeners and keeps them: while one front is gone and the next not there,
// connections wait in the kernel. Made, reloaded and destroyed by one thread; its own thread calls
// `arrive`.
class Supervisor {
 public:
  // Takes a connected, blocking socket whose peer has shown the token; to be read from its Hello
  // on.
  using Arrive = std::function<void(int socket, const PeerInfo& peer)>;

  static absl::StatusOr<std::unique_ptr<Supervisor>> Start(const FrontOptions& options,
                                                           Arrive arrive);
  // Ends the front and closes the listeners.
  ~Supervisor();

  // Of the listeners in their order.
  const std::vector<int>& ports() const { return ports_; }
  // For new connections; those there are go on. INVALID_ARGUMENT: nothing has changed.
  absl::Status Reload(const std::string& tls_cert, const std::string& tls_key);
  absl::Status SetGuests(FrontGuests guests);
  // 0 while there is none.
  pid_t pid() const;

 private:
  Supervisor(const FrontOptions& options, Arrive arrive);
  absl::Status Bind();
  void Run();
  // False: there is no front.
  bool Spawn();
  bool Configure(bool with_listeners) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int Control() const;  // of the front there is
  // Until the front or the supervisor ends. True: start another.
  bool Serve();
  // False: the supervisor ends.
  bool Pause(std::chrono::milliseconds duration) const;

  FrontOptions options_;
  const Arrive arrive_;
  std::vector<int> ports_;
  std::vector<int> sockets_;
  std::vector<bool> sockets_tls_;
  int stop_[2] = {-1, -1};
  mutable Mutex mutex_;
  std::string tls_cert_ ABSL_GUARDED_BY(mutex_);
  std::string tls_key_ ABSL_GUARDED_BY(mutex_);
  FrontGuests guests_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Child> child_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_FRONT_SUPERVISOR_H_
