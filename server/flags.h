// What whoever starts the daemon asks for: command line, configuration file and environment.
#ifndef CHX_SERVER_FLAGS_H_
#define CHX_SERVER_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "server/session/session_types.h"

namespace chx::server {

// As it was written; options.h says what it means.
struct Flags {
  std::string devices = "native:0";
  int threads = 0;
  std::string plugins;
  std::string plugin_dir;

  std::string listen;
  std::string token_file;
  std::string tls_cert;
  std::string tls_key;
  std::string tenants;
  std::string tls_client_ca;
  std::string jwks_file;
  std::string socket_group;
  bool allow_unauthenticated_loopback = false;

  std::string peer_listen;
  std::string peer_address;
  std::string peers;
  std::string peer_secret_file;
  std::string peer_encryption = "tls";
  bool peer_nccl = false;

  std::string memory;
  std::string session_memory = "4GiB";
  std::string spill_dir;
  std::string spill_size;
  int max_sessions = kDefaultMaxSessions;
  int max_sessions_per_peer = 1024;
  absl::optional<absl::Duration> max_command_time;
  absl::Duration function_deadline = absl::Hours(1);
  absl::Duration collective_timeout = absl::Minutes(1);
  absl::Duration lease = absl::Seconds(30);
  absl::Duration named_lease = absl::Hours(24);

  std::string state_dir;
  std::string data_root;
  absl::Duration snapshot_interval = absl::ZeroDuration();
  int state_keep = 1;

  std::string metrics_listen;
  std::string status_listen;
  bool metrics_open = false;
  absl::Duration slow_command = absl::Seconds(1);
  bool recognize_windows = true;

  absl::optional<std::string> log_level;
  std::string log_format = "text";

  absl::Duration drain_timeout = absl::Seconds(20);
  int lifeline_fd = -1;

  std::string health;
  std::string text;  // what --help or --version prints instead of anything else
};

// `args` without the program's name. A flag is taken from the command line, else from the file that
// --config names, else from the environment: $CHXD_ and its name in capitals. A private daemon,
// with
// --lifeline-fd, does not look there.
absl::Status ParseFlags(const std::vector<std::string>& args, Flags* flags);

}  // namespace chx::server

#endif  // CHX_SERVER_FLAGS_H_
