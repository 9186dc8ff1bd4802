#include "server/options.h"

#include <arpa/inet.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "ops/error.h"
#include "server/engine/host_memory.h"
#include "server/engine/memory_size.h"

ABSL_FLAG(std::string, devices, "native:0",
          "Devices to serve, separated by commas: native:0 is the CPU, cuda:N a GPU, NAME:N one of "
          "a plug-in.");
ABSL_FLAG(std::string, listen, "",
          "Where to listen, separated by commas: unix:PATH or HOST:PORT. Default: a Unix socket, "
          "$XDG_RUNTIME_DIR/chxd.sock or /tmp/chxd-UID/chxd.sock. Port 0 picks a free one.");
ABSL_FLAG(std::string, session_memory, "4GiB",
          "How much memory each session may hold: 512MiB, 4GiB, 4GB, or a share of the host's "
          "memory, such as 0.5 or 50%. No more than --memory.");
ABSL_FLAG(std::string, memory, "",
          "How much of the host's memory the daemon may hold, with all sessions; written as for "
          "--session-memory. Default: 90 % of "
          "the machine's or the control group's, less a reserve of 256 MiB.");
ABSL_FLAG(absl::Duration, lease, absl::Seconds(30),
          "How long a session is kept after its client's stream was cut.");
ABSL_FLAG(absl::Duration, function_deadline, absl::Hours(1),
          "How long a gradient that the client computes may take before its backward fails; 0s: "
          "for ever.");
ABSL_FLAG(
    absl::optional<absl::Duration>, max_command_time, absl::nullopt,
    "How long one command of a client, an operator or a backward, may run before it is stopped "
    "with an error; 0s: for ever. Default: 10m, or for ever with --lifeline-fd.");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(20),
          "How long SIGTERM lets open streams go on.");
ABSL_FLAG(int, threads, 0,
          "Threads of the CPU device, at most 1024; 0: one for each core that the process or its "
          "control group may use.");
ABSL_FLAG(std::string, tls_cert, "",
          "PEM file with the server's certificate chain. It, the key and the token are read again "
          "when their files change, and on SIGHUP.");
ABSL_FLAG(std::string, tls_key, "", "PEM file with its private key.");
ABSL_FLAG(std::string, token_file, "", "File with the token that clients must present.");
ABSL_FLAG(
    bool, allow_unauthenticated_loopback, false,
    "Listen on a loopback port without --token-file: every user and container of this network "
    "namespace may then use the daemon.");
ABSL_FLAG(int, max_sessions, chx::server::kDefaultMaxSessions, "How many sessions there may be.");
ABSL_FLAG(int, max_sessions_per_peer, 1024,
          "How many of them one user of this machine, or one address with one token, may have.");
ABSL_FLAG(
    std::string, plugin_dir, "",
    "Where libchxd_cuda.so is; default: beside the executable, in ../lib/chxd, or in the Python "
    "package chx-cuda.");
ABSL_FLAG(std::string, plugins, "",
          "Further backends, separated by commas: NAME=/PATH of a shared library.");
ABSL_FLAG(int, lifeline_fd, -1,
          "Exit when this pipe is closed: for a client that starts a daemon of its own.");

namespace chx::server {
namespace {

// The daemon alone takes about half of it.
constexpr int64_t kMinMemory = int64_t{128} << 20;
constexpr int64_t kMinSessionMemory = int64_t{1} << 20;
constexpr int kMaxThreads = 1024;

// A directory of the user's own: others could otherwise put a socket in the way.
absl::StatusOr<std::string> DefaultSocket() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') return absl::StrCat(runtime, "/chxd.sock");
  const std::string directory = absl::StrCat("/tmp/chxd-", getuid());
  mkdir(directory.c_str(), 0700);
  struct stat info;
  if (lstat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid() ||
      (info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(directory, " is not a directory of this user alone"));
  }
  return absl::StrCat(directory, "/chxd.sock");
}

// A share is of the host's memory.
absl::StatusOr<int64_t> CheckedMemory(absl::string_view flag, absl::string_view text, int64_t min) {
  const absl::StatusOr<int64_t> bytes = ParseMemorySize(text, HostMemoryBytes());
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", bytes.status().message()));
  }
  if (*bytes < min) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " expects at least ", FormatMemorySize(min), ", got ", text));
  }
  return bytes;
}

absl::StatusOr<int64_t> MemoryOf(absl::string_view text) {
  if (text.empty()) return DefaultMemoryLimit(HostMemoryBytes());
  CHX_ASSIGN_OR_RETURN(const int64_t bytes, CheckedMemory("--memory", text, kMinMemory));
  return std::min(bytes, HostMemoryBytes());
}

// Far from where clocks overflow, which "inf" would do.
absl::StatusOr<std::chrono::milliseconds> CheckedDuration(absl::string_view flag,
                                                          absl::Duration duration) {
  constexpr int kMaxDays = 365;
  if (duration < absl::ZeroDuration() || duration > absl::Hours(24 * kMaxDays)) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " expects 0s to ", 24 * kMaxDays,
                                                   "h, got ", absl::FormatDuration(duration)));
  }
  return absl::ToChronoMilliseconds(duration);
}

absl::StatusOr<size_t> CheckedCount(absl::string_view flag, int count) {
  if (count < 1 || count > 1000000) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " expects 1 to 1000000, got ", count));
  }
  return static_cast<size_t>(count);
}

}  // namespace

absl::StatusOr<std::vector<Listener>> ParseListen(absl::string_view text) {
  std::vector<Listener> listeners;
  for (absl::string_view item : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    Listener listener;
    item = absl::StripAsciiWhitespace(item);
    if (absl::ConsumePrefix(&item, "unix:")) {
      listener.unix_socket = true;
      listener.loopback = true;
      if (item.empty() || item.size() > 100) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--listen expects a path of at most 100 bytes after unix:, got '", item, "'"));
      }
    } else {
      const size_t colon = item.rfind(':');
      int port = -1;
      if (colon == absl::string_view::npos || colon == 0 ||
          !absl::SimpleAtoi(item.substr(colon + 1), &port) || port < 0 || port > 65535) {
        return absl::InvalidArgumentError(
            absl::StrCat("--listen expects unix:PATH or HOST:PORT, got '", item, "'"));
      }
      const absl::string_view host = item.substr(0, colon);
      in_addr ipv4;
      const bool is_ipv4 = inet_pton(AF_INET, std::string(host).c_str(), &ipv4) == 1;
      listener.loopback =
          host == "localhost" || host == "[::1]" || (is_ipv4 && (ntohl(ipv4.s_addr) >> 24) == 127);
    }
    listener.address = std::string(item);
    listeners.push_back(std::move(listener));
  }
  if (listeners.empty()) {
    CHX_ASSIGN_OR_RETURN(const std::string path, DefaultSocket());
    listeners.push_back({true, path, true});
  }
  return listeners;
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParsePlugins(
    absl::string_view text) {
  std::vector<std::pair<std::string, std::string>> plugins;
  for (absl::string_view item : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    item = absl::StripAsciiWhitespace(item);
    const std::pair<std::string, std::string> plugin =
        absl::StrSplit(item, absl::MaxSplits('=', 1));
    const std::string& name = plugin.first;
    const bool is_word = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
    });
    // A path without a slash would be looked for in the places that LD_LIBRARY_PATH names.
    if (!is_word || !absl::StartsWith(plugin.second, "/")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--plugins expects NAME=/PATH with a name of a-z, 0-9 and _, got '", item, "'"));
    }
    const bool again = std::any_of(plugins.begin(), plugins.end(),
                                   [&](const auto& other) { return other.first == name; });
    if (again || name == "native") {
      return absl::InvalidArgumentError(absl::StrCat("--plugins expects each name once, got '",
                                                     name,
                                                     again ? "' twice" : "', which is built in"));
    }
    plugins.push_back(plugin);
  }
  return plugins;
}

absl::Status CheckListeners(const std::vector<Listener>& listeners, const Protection& protection) {
  for (const Listener& listener : listeners) {
    if (listener.unix_socket || (protection.tls && protection.token)) continue;
    if (!listener.loopback) {
      return absl::FailedPreconditionError(absl::StrCat(
          "refusing to listen on ", listener.address,
          ": off this machine's loopback the daemon needs --tls-cert, --tls-key and --token-file"));
    }
    if (protection.token || protection.open_loopback) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "refusing to listen on ", listener.address,
        " without --token-file: every user of this machine could use the daemon. If they may, say "
        "so by --allow-unauthenticated-loopback"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenFromFlags() {
  CredentialFiles files;
  files.token = absl::GetFlag(FLAGS_token_file);
  CHX_ASSIGN_OR_RETURN(Credentials credentials, ReadCredentials(files));
  return std::move(credentials.token);
}

absl::StatusOr<Options> OptionsFromFlags() {
  Options options;
  options.devices = absl::GetFlag(FLAGS_devices);
  CHX_ASSIGN_OR_RETURN(options.listeners, ParseListen(absl::GetFlag(FLAGS_listen)));
  CHX_ASSIGN_OR_RETURN(
      options.session_memory,
      CheckedMemory("--session-memory", absl::GetFlag(FLAGS_session_memory), kMinSessionMemory));
  CHX_ASSIGN_OR_RETURN(options.memory, MemoryOf(absl::GetFlag(FLAGS_memory)));
  CHX_ASSIGN_OR_RETURN(options.lease, CheckedDuration("--lease", absl::GetFlag(FLAGS_lease)));
  CHX_ASSIGN_OR_RETURN(
      options.function_deadline,
      CheckedDuration("--function-deadline", absl::GetFlag(FLAGS_function_deadline)));
  CHX_ASSIGN_OR_RETURN(options.drain_timeout,
                       CheckedDuration("--drain-timeout", absl::GetFlag(FLAGS_drain_timeout)));
  options.lifeline_fd = absl::GetFlag(FLAGS_lifeline_fd);
  // A daemon of one client's own has nobody to protect from it.
  const absl::Duration max_command_time =
      options.lifeline_fd >= 0 ? absl::ZeroDuration() : absl::Minutes(10);
  CHX_ASSIGN_OR_RETURN(
      options.max_command_time,
      CheckedDuration("--max-command-time",
                      absl::GetFlag(FLAGS_max_command_time).value_or(max_command_time)));
  options.threads = absl::GetFlag(FLAGS_threads);
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("--threads expects 0 to ", kMaxThreads, ", got ", options.threads));
  }
  options.plugin_dir = absl::GetFlag(FLAGS_plugin_dir);
  CHX_ASSIGN_OR_RETURN(options.plugins, ParsePlugins(absl::GetFlag(FLAGS_plugins)));
  options.credential_files = {absl::GetFlag(FLAGS_tls_cert), absl::GetFlag(FLAGS_tls_key),
                              absl::GetFlag(FLAGS_token_file)};
  CHX_ASSIGN_OR_RETURN(options.credentials, ReadCredentials(options.credential_files));
  Protection protection;
  protection.tls = !options.credentials.tls_cert.empty();
  protection.token = !options.credentials.token.empty();
  protection.open_loopback = absl::GetFlag(FLAGS_allow_unauthenticated_loopback);
  CHX_RETURN_IF_ERROR(CheckListeners(options.listeners, protection));
  CHX_ASSIGN_OR_RETURN(options.max_sessions,
                       CheckedCount("--max-sessions", absl::GetFlag(FLAGS_max_sessions)));
  CHX_ASSIGN_OR_RETURN(
      options.max_sessions_per_peer,
      CheckedCount("--max-sessions-per-peer", absl::GetFlag(FLAGS_max_sessions_per_peer)));
  return options;
}

}  // namespace chx::server
