// What the daemon's flags say, checked.
#ifndef CHX_SERVER_OPTIONS_H_
#define CHX_SERVER_OPTIONS_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "server/credentials.h"
#include "server/engine/host_memory.h"
#include "server/flags.h"
#include "server/log/log.h"
#include "server/peers/peer_options.h"
#include "server/session/session_types.h"

namespace chx::server {

// One --listen entry.
struct Listener {
  bool unix_socket = false;
  std::string address;  // the path, or HOST:PORT
  bool loopback = false;

  // As gRPC takes it.
  std::string Target() const { return unix_socket ? "unix:" + address : address; }
};

struct Options {
  std::string devices;
  std::function<void()> on_useless;  // called when the last device is lost
  std::vector<Listener> listeners;
  int64_t session_memory = 0;
  // Of the whole daemon; by default what this machine suggests.
  int64_t memory = DefaultMemoryLimit(HostMemoryBytes());
  std::string spill_dir;  // empty: none
  int64_t spill_size = 0;
  std::chrono::milliseconds lease{0};
  std::chrono::milliseconds named_lease = std::chrono::hours(24);
  std::chrono::milliseconds function_deadline{0};
  std::chrono::milliseconds collective_timeout = std::chrono::minutes(1);
  std::chrono::milliseconds max_command_time{0};  // 0: for ever
  std::chrono::milliseconds drain_timeout{0};
  std::string state_dir;                           // empty: no session outlives the daemon
  std::chrono::milliseconds snapshot_interval{0};  // 0: none
  int state_keep = 1;                              // snapshots of each session
  std::string data_root;                           // empty: no files are for sessions
  int threads = 0;
  CredentialFiles credential_files;
  Credentials credentials;  // what is in them
  absl::optional<gid_t> socket_group;
  size_t max_sessions = kDefaultMaxSessions;
  size_t max_sessions_per_peer = 1024;
  std::string helper_program;  // calls RunHelper; empty: there can be neither TCP nor gRPC
  std::string plugin_dir;
  std::vector<std::pair<std::string, std::string>> plugins;  // name, path
  std::vector<std::string> mesh_libraries;                   // where libchxd_gloo.so may be
  int lifeline_fd = -1;
  LogOptions log;
  // What is served over HTTP: HOST:PORT; empty: it is not.
  Listener metrics_listener;
  Listener status_listener;
  bool metrics_open = false;
  PeerOptions peers;                          // listen: empty: no part in groups of several daemons
  std::chrono::milliseconds slow_command{0};  // 0: none is
  bool recognize_windows = true;
};

// Checked. Reads the named files.
absl::StatusOr<Options> OptionsFromFlags(const Flags& flags);

// What --token-file says; empty without one.
absl::StatusOr<std::string> TokenFromFlags(const Flags& flags);

// "unix:PATH", "HOST:PORT" or several, separated by commas. Empty: a Unix socket in the user's
// runtime directory.
absl::StatusOr<std::vector<Listener>> ParseListen(absl::string_view text);
// "NAME=/PATH,NAME=/PATH". Only the person who starts the daemon can name a library.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParsePlugins(
    absl::string_view text);
// What must be there before the daemon listens on TCP: off loopback TLS and a token, as whoever
// reaches the port could otherwise use, and read, everything; on loopback, which is every local
// user's, a token or the word that it is to be open.
struct Protection {
  bool tls = false;
  bool token = false;  // or tenants, of whom each shows something
  bool open_loopback = false;
};
absl::Status CheckListeners(const std::vector<Listener>& listeners, const Protection& protection);

}  // namespace chx::server

#endif  // CHX_SERVER_OPTIONS_H_
