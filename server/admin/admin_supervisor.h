// The daemon's side of the admin process: starts it when somebody comes, hands connections over,
// and ends it when they are gone.
#ifndef CHX_SERVER_ADMIN_ADMIN_SUPERVISOR_H_
#define CHX_SERVER_ADMIN_ADMIN_SUPERVISOR_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "base/mutex.h"
#include "server/process/child.h"
#include "server/process/restart_pause.h"

namespace chx::server {

// Who may call.
struct AdminAccess {
  std::string token;  // for what the process asks the daemon; empty: none
  // SHA-256 of the tokens that let in.
  std::vector<std::string> token_hashes;
  bool by_tenant = false;  // the daemon decides each call by the token that it has come with

  bool asks_token() const { return by_tenant || !token.empty(); }
  bool operator==(const AdminAccess& other) const {
    return token == other.token && token_hashes == other.token_hashes &&
           by_tenant == other.by_tenant;
  }
};

struct AdminOptions {
  // Started with kAdminArgument; has to call RunAdmin then. Empty: connections are closed.
  std::string program;
  AdminAccess access;  // at first
  // Serves a connection of frames on the calling thread, to its end, and closes it.
  std::function<void(int socket)> serve;
  // The oldest makes room: probes and people must get in whatever others keep open.
  size_t max_connections = 64;
  // Without a connection for so long the process ends.
  std::chrono::milliseconds idle{5000};
};

// Thread-safe.
class AdminSupervisor {
 public:
  static absl::StatusOr<std::unique_ptr<AdminSupervisor>> Start(AdminOptions options);
  // Ends the process and closes all connections.
  ~AdminSupervisor();

  // Takes a connected socket whose peer speaks HTTP/2; returns at once.
  void Adopt(int socket);
  // What gRPC's health service says; true at first.
  void SetServing(bool serving);
  // What it says of these services: their names, and whether they serve.
  void SetDevices(std::map<std::string, bool> devices);
  // The process that there is ends, and its connections with it: the next one asks for this one.
  void SetAccess(AdminAccess access);
  // 0 while there is none.
  pid_t pid() const;

 private:
  using Clock = std::chrono::steady_clock;

  explicit AdminSupervisor(AdminOptions options);
  void Run();
  // Until when nothing is to do but what descriptors tell.
  absl::optional<Clock::time_point> NextTime() const;
  void Wake() const;
  // False: the end.
  bool TakeOrders();
  void HandOver();
  bool Spawn();
  bool SendSettings(int daemon) const;
  void CloseWaiting(absl::string_view why);
  // The process is gone, or goes, and its connections with it.
  void Lose();
  void DropConnection(size_t index);

  const AdminOptions options_;
  int wake_ = -1;  // an eventfd
  mutable Mutex mutex_;
  std::vector<int> new_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool wanted_serving_ ABSL_GUARDED_BY(mutex_) = true;
  std::map<std::string, bool> wanted_devices_ ABSL_GUARDED_BY(mutex_);
  AdminAccess wanted_access_ ABSL_GUARDED_BY(mutex_);
  pid_t pid_ ABSL_GUARDED_BY(mutex_) = 0;
  // The thread's own.
  std::unique_ptr<Child> child_;
  std::thread calls_;             // serves the process's own connection
  std::vector<int> waiting_;      // to be handed over
  std::vector<int> connections_;  // handed over; ours tell when the peer has gone. Oldest first
  bool serving_ = true;
  std::map<std::string, bool> devices_;
  AdminAccess access_;
  RestartPause pause_;
  Clock::time_point not_before_;  // for the next start
  Clock::time_point idle_since_;
  std::thread thread_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ADMIN_ADMIN_SUPERVISOR_H_
