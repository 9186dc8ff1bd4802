// chxd: the tensor daemon.
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "server/daemon.h"
#include "server/engine/heap_trimmer.h"
#include "server/engine/memory_size.h"
#include "server/flags.h"
#include "server/helpers.h"
#include "server/log/log.h"
#include "server/native/native_backend.h"
#include "server/plugin.h"
#include "server/process/confine.h"
#include "server/rpc/health.h"
#include "server/rpc/version.h"

namespace chx::server {
namespace {

// Less than what Kubernetes and systemd add to --drain-timeout (deploy).
constexpr std::chrono::milliseconds kGrace = std::chrono::seconds(4);

// Before there is a daemon: for whoever has typed the flags.
int Fail(const Flags& flags, const absl::Status& status) {
  // A client that starts a daemon of its own reads stdout: it may have no terminal for stderr.
  if (flags.lifeline_fd >= 0) {
    std::cout << "chxd: " << status.message() << std::endl;
  } else if (CurrentLogOptions().format == LogFormat::kJson) {
    Log(LogLevel::kError, "cannot start", {{"reason", status.message()}});
  } else {
    std::cerr << "chxd: " << status.message() << std::endl;
  }
  return 1;
}

// SIGTERM, SIGINT and SIGHUP, which reads certificate and token again and never ends the daemon,
// write to this pipe. SIGPIPE is ignored. Handled, not blocked: OpenBLAS starts threads before
// main, and one that doesn't block them would end the daemon without draining.
int stop_pipe[2];
constexpr char kStop = 0;
constexpr char kReload = 1;
constexpr char kUseless = 2;

void OnSignal(int signal) {
  const int error = errno;
  const char byte = signal == SIGHUP ? kReload : kStop;
  (void)!write(stop_pipe[1], &byte, 1);  // Full: it was said already.
  errno = error;
}

bool HandleStopSignals() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  return sigaction(SIGPIPE, &ignore, nullptr) == 0 &&
         // Under RLIMIT_FSIZE memory that cannot be shared is an error of one call.
         sigaction(SIGXFSZ, &ignore, nullptr) == 0 &&
         pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) == 0 &&
         sigaction(SIGHUP, &action, nullptr) == 0 && sigaction(SIGTERM, &action, nullptr) == 0 &&
         sigaction(SIGINT, &action, nullptr) == 0;
}

// What is wrong with the files changes nothing: new connections go on with what was there.
void Adopt(const absl::StatusOr<Credentials>& read, absl::string_view why, bool tenants,
           Daemon* daemon) {
  const absl::Status status = read.ok() ? daemon->SetCredentials(*read) : read.status();
  if (!status.ok()) {
    Log(LogLevel::kError,
        tenants ? "the former certificate and tenants stay"
                : "the former certificate and token stay",
        {{"why", why}, {"reason", status.message()}});
    return;
  }
  Log(LogLevel::kInfo,
      tenants ? "certificate and tenants are read again" : "certificate and token are read again",
      {{"why", why}});
  if (!read->warning.empty()) Log(LogLevel::kWarning, read->warning);
}

// Why the daemon ends.
enum class End {
  kAsked,     // by SIGTERM or SIGINT: there is time to drain
  kUseless,   // the last device is lost: the same, but it is a failure
  kLifeline,  // at once
};

void SayUseless() { (void)!write(stop_pipe[1], &kUseless, 1); }

End WaitForEnd(const Options& options, CredentialWatch* watch, Daemon* daemon) {
  const CredentialFiles& files = options.credential_files;
  const bool tenants = !files.tenants.empty();
  const int look_ms = files.tls_cert.empty() && files.token.empty() && !tenants ? -1 : 1000;
  pollfd fds[2] = {{stop_pipe[0], POLLIN, 0}, {options.lifeline_fd, POLLIN, 0}};
  for (;;) {
    const int ready = poll(fds, options.lifeline_fd >= 0 ? 2 : 1, look_ms);
    if (ready < 0) continue;
    if (ready == 0) {
      if (const auto read = watch->Look()) Adopt(*read, "the files have changed", tenants, daemon);
      daemon->ForgetFormerTokens();
      continue;
    }
    char byte = kStop;
    if (fds[0].revents != 0 && read(stop_pipe[0], &byte, 1) == 1) {
      if (byte == kStop) return End::kAsked;
      if (byte == kUseless) return End::kUseless;
      Adopt(watch->Read(), "SIGHUP", tenants, daemon);
    }
    if (fds[1].revents != 0) return End::kLifeline;
  }
}

// A kernel cannot be interrupted: one that does not end must not keep the daemon from ending.
void ExitAfter(std::chrono::milliseconds limit) {
  std::thread([limit] {
    std::this_thread::sleep_for(limit);
    Log(LogLevel::kWarning, "leaves work behind that does not end");
    _exit(1);
  }).detach();
}

// So that what threads take can be told, whatever the shell's limit is. Recursion is bounded.
constexpr size_t kStackBytes = size_t{2} << 20;

bool BoundStacks() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  const bool bounded = pthread_attr_setstacksize(&attributes, kStackBytes) == 0 &&
                       pthread_setattr_default_np(&attributes) == 0;
  pthread_attr_destroy(&attributes);
  return bounded;
}

// The end of an arena is given back as it becomes free if it is larger than this. The allocator
// would raise both bounds to many megabytes by itself.
void BoundHeaps() {
  mallopt(M_ARENA_MAX, static_cast<int>(HeapTrimmer::Arenas()));
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 10);
}

void LogStart(const Options& options, const Daemon& daemon) {
  const bool tls = !options.credentials.tls_cert.empty();
  Log(LogLevel::kInfo, "started",
      {{"version", kVersion},
       {"devices", options.devices},
       {"listen", absl::StrJoin(daemon.addresses(), ",")},
       {"http", absl::StrJoin(daemon.web_addresses(), ",")},
       {"peers", daemon.peer_address()},
       {"tls", tls},
       {"token", !options.credentials.token.empty()},
       {"tenants", options.credentials.tenants.size()},
       {"memory", FormatMemorySize(options.memory)},
       {"session_memory", FormatMemorySize(std::min(options.session_memory, options.memory))},
       {"max_sessions", options.max_sessions},
       {"lease_seconds", options.lease.count() / 1000}});
}

int Main(const Flags& flags) {
  RaiseDescriptorLimit();
  if (!flags.health.empty()) {
    const absl::StatusOr<std::string> token = TokenFromFlags(flags);
    return token.ok() ? CheckHealth(flags.health, *token) : Fail(flags, token.status());
  }
  BoundHeaps();
  if (!BoundStacks()) return Fail(flags, absl::InternalError("cannot bound the threads' stacks"));
  if (!HandleStopSignals()) return Fail(flags, absl::InternalError("cannot handle signals"));
  absl::StatusOr<Options> options = OptionsFromFlags(flags);
  if (!options.ok()) return Fail(flags, options.status());
  // From here on, not from when all is up: what is written meanwhile is seen, too.
  CredentialWatch watch(options->credential_files, options->credentials);
  ConfigureLog(options->log);
  options->helper_program = "/proc/self/exe";
  options->on_useless = SayUseless;
  options->mesh_libraries = MeshLibraryPaths(*options);
  std::vector<std::unique_ptr<Backend>> owned;
  const NativeOptions native{options->threads};
  owned.push_back(CreateNativeBackend(native));
  for (const auto& [name, paths] : PluginsToOpen(*options)) {
    absl::StatusOr<std::unique_ptr<Backend>> plugin = OpenPlugin(name, paths, native);
    if (!plugin.ok()) return Fail(flags, plugin.status());
    owned.push_back(*std::move(plugin));
  }
  std::vector<Backend*> backends;
  backends.reserve(owned.size());
  for (const auto& backend : owned) backends.push_back(backend.get());
  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(*options, backends);
  if (!daemon.ok()) return Fail(flags, daemon.status());
  LogStart(*options, **daemon);
  if (!options->credentials.warning.empty()) {
    Log(LogLevel::kWarning, options->credentials.warning);
  }
  std::cout << "chxd ready " << absl::StrJoin((*daemon)->addresses(), " ") << std::endl;
  const End end = WaitForEnd(*options, &watch, daemon->get());
  const bool drain = end != End::kLifeline;
  // Until streams have ended; and as long again for the snapshots.
  const int waits = drain ? (options->state_dir.empty() ? 1 : 2) : 0;
  ExitAfter(kGrace + waits * options->drain_timeout);
  if (drain) (*daemon)->Drain(options->drain_timeout);
  *daemon = nullptr;
  Log(LogLevel::kInfo, "ended");
  return end == End::kUseless ? EXIT_FAILURE : EXIT_SUCCESS;
}

// Else what is opened first would be standard error, and get the log.
void OpenStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDWR));
  }
}

}  // namespace
}  // namespace chx::server

int main(int argc, char** argv) {
  chx::server::OpenStandardStreams();
  if (const absl::optional<int> status = chx::server::RunHelper(argc, argv)) return *status;
  chx::server::Flags flags;
  const absl::Status status =
      chx::server::ParseFlags(std::vector<std::string>(argv + 1, argv + argc), &flags);
  if (!status.ok()) return chx::server::Fail(flags, status);
  if (!flags.text.empty()) {
    std::cout << flags.text;
    return 0;
  }
  return chx::server::Main(flags);
}
