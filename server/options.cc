#include "server/options.h"

#include <arpa/inet.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

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

namespace chx::server {
namespace {

// The daemon alone takes about half of it.
constexpr int64_t kMinMemory = int64_t{128} << 20;
constexpr int64_t kMinSessionMemory = int64_t{1} << 20;
constexpr int kMaxThreads = 1024;
constexpr int kMaxStateKeep = 100;

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

absl::StatusOr<absl::optional<gid_t>> GroupOf(const std::string& name) {
  absl::optional<gid_t> group;
  if (name.empty()) return group;
  uint32_t number = 0;
  if (absl::SimpleAtoi(name, &number)) {
    group = number;
    return group;
  }
  std::string buffer(64 << 10, '\0');
  struct group entry = {};
  struct group* found = nullptr;
  getgrnam_r(name.c_str(), &entry, &buffer[0], buffer.size(), &found);
  if (found == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--socket-group expects a group of this machine, or its number, got ", name));
  }
  group = found->gr_gid;
  return group;
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
      return absl::FailedPreconditionError(
          absl::StrCat("refusing to listen on ", listener.address,
                       ": off this machine's loopback the daemon needs --tls-cert, --tls-key and "
                       "--token-file or "
                       "--tenants"));
    }
    if (protection.token || protection.open_loopback) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "refusing to listen on ", listener.address,
        " without --token-file: every user of this machine could use the daemon. If they may, say "
        "so by --allow-unauthenticated-loopback"));
  }
  return absl::OkStatus();
}

namespace {

// Nothing if the flag is not given.
absl::Status ReadWebListener(absl::string_view flag, const std::string& text,
                             const Protection& protection, Listener* listener) {
  if (text.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<Listener>> listeners = ParseListen(text);
  if (!listeners.ok() || listeners->size() != 1 || listeners->front().unix_socket) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " expects one HOST:PORT, got ", text));
  }
  *listener = std::move(listeners->front());
  return CheckListeners({*listener}, protection);
}

absl::Status ReadWebListeners(const Flags& flags, const Protection& protection, Options* options) {
  options->metrics_open = flags.metrics_open;
  Protection metrics = protection;
  if (flags.metrics_open) metrics.tls = metrics.token = true;  // none is asked for
  CHX_RETURN_IF_ERROR(ReadWebListener("--metrics-listen", flags.metrics_listen, metrics,
                                      &options->metrics_listener));
  return ReadWebListener("--status-listen", flags.status_listen, protection,
                         &options->status_listener);
}

absl::Status ReadPeers(const Flags& flags, PeerOptions* peers) {
  if (flags.peer_listen.empty()) {
    if (flags.peers.empty() && flags.peer_address.empty() && flags.peer_secret_file.empty() &&
        !flags.peer_nccl) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "--peers, --peer-address, --peer-secret-file and --peer-nccl expect --peer-listen, got "
        "none");
  }
  if (flags.peer_secret_file.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("refusing to listen for daemons on ", flags.peer_listen,
                     " without --peer-secret-file: whoever connects would be one"));
  }
  const absl::StatusOr<std::vector<Listener>> listeners = ParseListen(flags.peer_listen);
  if (!listeners.ok() || listeners->size() != 1 || listeners->front().unix_socket) {
    return absl::InvalidArgumentError(
        absl::StrCat("--peer-listen expects one HOST:PORT, got ", flags.peer_listen));
  }
  peers->listen = listeners->front().address;
  peers->address = flags.peer_address;
  const std::string host = peers->listen.substr(0, peers->listen.rfind(':'));
  if (peers->address.empty() && (host.empty() || host == "0.0.0.0" || host == "[::]")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--peer-listen=", peers->listen, " expects --peer-address, by which others reach it"));
  }
  peers->peers = absl::StrSplit(flags.peers, ',', absl::SkipWhitespace());
  if (flags.peer_encryption != "tls" && flags.peer_encryption != "none") {
    return absl::InvalidArgumentError(
        absl::StrCat("--peer-encryption expects tls or none, got ", flags.peer_encryption));
  }
  peers->encrypted = flags.peer_encryption == "tls";
  if (flags.peer_nccl && std::getenv("NCCL_SOCKET_IFNAME") == nullptr) {
    return absl::InvalidArgumentError(
        "--peer-nccl expects NCCL_SOCKET_IFNAME in the environment, for the network of NCCL's "
        "connections, which are not encrypted, got none");
  }
  peers->by_devices = flags.peer_nccl;
  CHX_ASSIGN_OR_RETURN(peers->secret, ReadSecret("--peer-secret-file", flags.peer_secret_file));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> TokenFromFlags(const Flags& flags) {
  CredentialFiles files;
  files.token = flags.token_file;
  CHX_ASSIGN_OR_RETURN(Credentials credentials, ReadCredentials(files));
  return std::move(credentials.token);
}

absl::StatusOr<Options> OptionsFromFlags(const Flags& flags) {
  Options options;
  options.devices = flags.devices;
  CHX_ASSIGN_OR_RETURN(options.listeners, ParseListen(flags.listen));
  CHX_ASSIGN_OR_RETURN(options.session_memory,
                       CheckedMemory("--session-memory", flags.session_memory, kMinSessionMemory));
  CHX_ASSIGN_OR_RETURN(options.memory, MemoryOf(flags.memory));
  options.spill_dir = flags.spill_dir;
  options.spill_size = options.memory;
  if (!flags.spill_size.empty()) {
    CHX_ASSIGN_OR_RETURN(options.spill_size,
                         CheckedMemory("--spill-size", flags.spill_size, kMinSessionMemory));
  }
  CHX_ASSIGN_OR_RETURN(options.lease, CheckedDuration("--lease", flags.lease));
  CHX_ASSIGN_OR_RETURN(options.named_lease, CheckedDuration("--named-lease", flags.named_lease));
  CHX_ASSIGN_OR_RETURN(options.function_deadline,
                       CheckedDuration("--function-deadline", flags.function_deadline));
  CHX_ASSIGN_OR_RETURN(options.collective_timeout,
                       CheckedDuration("--collective-timeout", flags.collective_timeout));
  if (options.collective_timeout.count() == 0) {
    return absl::InvalidArgumentError("--collective-timeout expects more than 0s");
  }
  CHX_ASSIGN_OR_RETURN(options.drain_timeout,
                       CheckedDuration("--drain-timeout", flags.drain_timeout));
  options.state_dir = flags.state_dir;
  options.data_root = flags.data_root;
  CHX_ASSIGN_OR_RETURN(options.snapshot_interval,
                       CheckedDuration("--snapshot-interval", flags.snapshot_interval));
  if (options.snapshot_interval.count() != 0 && options.state_dir.empty()) {
    return absl::InvalidArgumentError("--snapshot-interval expects --state-dir, got none");
  }
  options.state_keep = flags.state_keep;
  if (options.state_keep < 1 || options.state_keep > kMaxStateKeep) {
    return absl::InvalidArgumentError(
        absl::StrCat("--state-keep expects 1 to ", kMaxStateKeep, ", got ", options.state_keep));
  }
  if (options.state_keep != 1 && options.state_dir.empty()) {
    return absl::InvalidArgumentError("--state-keep expects --state-dir, got none");
  }
  options.lifeline_fd = flags.lifeline_fd;
  // A daemon of one client's own has nobody to protect from it, and logs to that client's terminal.
  const absl::Duration max_command_time =
      options.lifeline_fd >= 0 ? absl::ZeroDuration() : absl::Minutes(10);
  CHX_ASSIGN_OR_RETURN(
      options.max_command_time,
      CheckedDuration("--max-command-time", flags.max_command_time.value_or(max_command_time)));
  options.threads = flags.threads;
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("--threads expects 0 to ", kMaxThreads, ", got ", options.threads));
  }
  const std::string log_level =
      flags.log_level.value_or(options.lifeline_fd >= 0 ? "warning" : "info");
  CHX_RETURN_IF_ERROR(ParseLogLevel(log_level, &options.log.level));
  CHX_RETURN_IF_ERROR(ParseLogFormat(flags.log_format, &options.log.format));
  options.plugin_dir = flags.plugin_dir;
  CHX_ASSIGN_OR_RETURN(options.plugins, ParsePlugins(flags.plugins));
  options.credential_files = {flags.tls_cert, flags.tls_key,       flags.token_file,
                              flags.tenants,  flags.tls_client_ca, flags.jwks_file};
  CHX_ASSIGN_OR_RETURN(options.credentials, ReadCredentials(options.credential_files));
  Protection protection;
  protection.tls = !options.credentials.tls_cert.empty();
  protection.token = !options.credentials.token.empty() || !options.credentials.tenants.empty();
  protection.open_loopback = flags.allow_unauthenticated_loopback;
  CHX_RETURN_IF_ERROR(CheckListeners(options.listeners, protection));
  CHX_ASSIGN_OR_RETURN(options.socket_group, GroupOf(flags.socket_group));
  CHX_RETURN_IF_ERROR(ReadWebListeners(flags, protection, &options));
  CHX_RETURN_IF_ERROR(ReadPeers(flags, &options.peers));
  CHX_ASSIGN_OR_RETURN(options.slow_command, CheckedDuration("--slow-command", flags.slow_command));
  options.recognize_windows = flags.recognize_windows;
  CHX_ASSIGN_OR_RETURN(options.max_sessions, CheckedCount("--max-sessions", flags.max_sessions));
  CHX_ASSIGN_OR_RETURN(options.max_sessions_per_peer,
                       CheckedCount("--max-sessions-per-peer", flags.max_sessions_per_peer));
  return options;
}

}  // namespace chx::server
