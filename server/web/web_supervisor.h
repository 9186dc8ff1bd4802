// The daemon's side of the web process: starts it, hands it its listeners, and starts another when
// it dies.
#ifndef CHX_SERVER_WEB_WEB_SUPERVISOR_H_
#define CHX_SERVER_WEB_WEB_SUPERVISOR_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/process/child.h"
#include "server/web/access.h"

namespace chx::server {

struct WebOptions {
  struct Listener {
    std::string address;   // HOST:PORT
    bool metrics = false;  // else the status page
    bool open = false;     // no token, and no TLS
  };
  std::vector<Listener> listeners;
  std::string tls_cert, tls_key;  // PEM; empty: no TLS
  WebGuests guests;
  // Started with kWebArgument; has to call RunWeb then.
  std::string program;
  // Serves a connection of frames on the calling thread, to its end, and closes it.
  std::function<void(int socket)> serve;
};

// The daemon binds the listeners and keeps them: while one process is gone and the next not there,
// connections wait in the kernel. Thread-safe.
class WebSupervisor {
 public:
  static absl::StatusOr<std::unique_ptr<WebSupervisor>> Start(WebOptions options);
  // Ends the process and closes the listeners.
  ~WebSupervisor();

  // Of the listeners in their order.
  const std::vector<int>& ports() const { return ports_; }
  // The process that there is ends, and its connections and logins with it; the next has these.
  void SetCredentials(const std::string& tls_cert, const std::string& tls_key,
                      const WebGuests& guests);
  // 0 while there is none.
  pid_t pid() const;

 private:
  explicit WebSupervisor(WebOptions options);
  absl::Status Bind();
  void Run();
  // Starts a process and serves it to its end. False: the supervisor ends.
  bool RunOne();
  absl::StatusOr<std::unique_ptr<Child>> Spawn(int daemon);
  // False: the supervisor ends.
  bool Pause(std::chrono::milliseconds duration) const;

  WebOptions options_;  // credentials: guarded by mutex_ once there is a thread
  std::vector<int> ports_;
  std::vector<int> sockets_;
  std::vector<size_t> listener_of_;  // of each socket
  int stop_[2] = {-1, -1};
  int renew_ = -1;  // an eventfd: start another process
  mutable Mutex mutex_;
  pid_t pid_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_WEB_WEB_SUPERVISOR_H_
