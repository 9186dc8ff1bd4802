// The daemon's flags, checked.
#ifndef CHX_SERVER_OPTIONS_H_
#define CHX_SERVER_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chx {

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
  std::vector<Listener> listeners;
  int64_t session_memory = 0;
  std::chrono::milliseconds lease{0};
  std::chrono::milliseconds function_deadline{0};
  std::chrono::milliseconds drain_timeout{0};
  int threads = 0;
  std::string tls_cert, tls_key;  // PEM
  std::string token;
  std::string plugin_dir;
  std::vector<std::pair<std::string, std::string>> plugins;  // name, path
  int lifeline_fd = -1;
};

// From the parsed command line. Reads the named files.
absl::StatusOr<Options> OptionsFromFlags();

// "unix:PATH", "HOST:PORT" or several, separated by commas. Empty: a Unix socket in the user's
// runtime directory.
absl::StatusOr<std::vector<Listener>> ParseListen(absl::string_view text);
// "512MiB", "4GiB", "1000000".
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);
// "NAME=/PATH,NAME=/PATH". Only the person who starts the daemon can name a library.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParsePlugins(
    absl::string_view text);
// Off loopback there must be TLS and a token: whoever reaches the port could otherwise use, and
// read, everything.
absl::Status CheckListeners(const std::vector<Listener>& listeners, bool tls, bool token);

}  // namespace chx

#endif  // CHX_SERVER_OPTIONS_H_
