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
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/daemon.h"
#include "server/engine/heap_trimmer.h"
#include "server/engine/memory_size.h"
#include "server/helpers.h"
#include "server/native/native_backend.h"
#include "server/plugin.h"
#include "server/process/confine.h"
#include "server/rpc/health.h"
#include "server/rpc/version.h"
#include "server/usage.h"

ABSL_FLAG(std::string, health, "",
          "Ask the daemon at this address for its health and exit: 0 if it is serving.");

ABSL_DECLARE_FLAG(int, lifeline_fd);

namespace chx::server {
namespace {

// Less than what Kubernetes and systemd add to --drain-timeout (deploy).
constexpr std::chrono::milliseconds kGrace = std::chrono::seconds(4);

int Fail(const absl::Status& status) {
  // A client that starts a daemon of its own reads stdout: it may have no terminal for stderr.
  std::ostream& out = absl::GetFlag(FLAGS_lifeline_fd) >= 0 ? std::cout : std::cerr;
  out << "chxd: " << status.message() << std::endl;
  return 1;
}

// SIGTERM, SIGINT and SIGHUP, which reads certificate and token again and never ends the daemon,
// write to this pipe. SIGPIPE is ignored. Handled, not blocked: OpenBLAS starts threads before
// main, and one that doesn't block them would end the daemon without draining.
int stop_pipe[2];
constexpr char kStop = 0;
constexpr char kReload = 1;

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
void Adopt(const absl::StatusOr<Credentials>& read, absl::string_view why, Daemon* daemon) {
  const absl::Status status = read.ok() ? daemon->SetCredentials(*read) : read.status();
  std::cerr << "chxd: " << why << ": "
            << (status.ok()
                    ? absl::StrCat("certificate and token are read again. ", read->warning)
                    : absl::StrCat("the former certificate and token stay: ", status.message()))
            << std::endl;
}

// Until SIGTERM, SIGINT or the end of the lifeline. True if there is time to drain.
bool WaitForEnd(const Options& options, Daemon* daemon) {
  CredentialWatch watch(options.credential_files, options.credentials);
  const CredentialFiles& files = options.credential_files;
  const int look_ms = files.tls_cert.empty() && files.token.empty() ? -1 : 1000;
  pollfd fds[2] = {{stop_pipe[0], POLLIN, 0}, {options.lifeline_fd, POLLIN, 0}};
  for (;;) {
    const int ready = poll(fds, options.lifeline_fd >= 0 ? 2 : 1, look_ms);
    if (ready < 0) continue;
    if (ready == 0) {
      if (const auto read = watch.Look()) Adopt(*read, "the files have changed", daemon);
      daemon->ForgetFormerTokens();
      continue;
    }
    char byte = kStop;
    if (fds[0].revents != 0 && read(stop_pipe[0], &byte, 1) == 1) {
      if (byte == kStop) return true;
      Adopt(watch.Read(), "SIGHUP", daemon);
    }
    if (fds[1].revents != 0) return false;
  }
}

// A kernel cannot be interrupted: one that does not end must not keep the daemon from ending.
void ExitAfter(std::chrono::milliseconds limit) {
  std::thread([limit] {
    std::this_thread::sleep_for(limit);
    std::cerr << "chxd: leaves work behind that does not end" << std::endl;
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

int Main() {
  RaiseDescriptorLimit();
  if (const std::string address = absl::GetFlag(FLAGS_health); !address.empty()) {
    const absl::StatusOr<std::string> token = TokenFromFlags();
    return token.ok() ? CheckHealth(address, *token) : Fail(token.status());
  }
  BoundHeaps();
  if (!BoundStacks()) return Fail(absl::InternalError("cannot bound the threads' stacks"));
  if (!HandleStopSignals()) return Fail(absl::InternalError("cannot handle signals"));
  absl::StatusOr<Options> options = OptionsFromFlags();
  if (!options.ok()) return Fail(options.status());
  options->helper_program = "/proc/self/exe";
  std::vector<std::unique_ptr<Backend>> owned;
  const NativeOptions native{options->threads};
  owned.push_back(CreateNativeBackend(native));
  for (const auto& [name, paths] : PluginsToOpen(*options)) {
    absl::StatusOr<std::unique_ptr<Backend>> plugin = OpenPlugin(name, paths, native);
    if (!plugin.ok()) return Fail(plugin.status());
    owned.push_back(*std::move(plugin));
  }
  std::vector<Backend*> backends;
  backends.reserve(owned.size());
  for (const auto& backend : owned) backends.push_back(backend.get());
  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(*options, backends);
  if (!daemon.ok()) return Fail(daemon.status());
  // A client that starts a daemon of its own shows what that says.
  if (options->lifeline_fd < 0) {
    std::cerr << "chxd: memory limit " << FormatMemorySize(options->memory) << ", of a session "
              << FormatMemorySize(std::min(options->session_memory, options->memory)) << std::endl;
  }
  if (!options->credentials.warning.empty()) {
    std::cerr << "chxd: " << options->credentials.warning << std::endl;
  }
  std::cout << "chxd ready " << absl::StrJoin((*daemon)->addresses(), " ") << std::endl;
  const bool drain = WaitForEnd(*options, daemon->get());
  ExitAfter(kGrace + (drain ? options->drain_timeout : std::chrono::milliseconds(0)));
  if (drain) (*daemon)->Drain(options->drain_timeout);
  return 0;
}

}  // namespace
}  // namespace chx::server

int main(int argc, char** argv) {
  if (const absl::optional<int> status = chx::server::RunHelper(argc, argv)) return *status;
  if (argc == 2 && (argv[1] == absl::string_view("--help") || argv[1] == absl::string_view("-h"))) {
    std::cout << chx::server::Usage();
    return 0;
  }
  absl::SetProgramUsageMessage("chxd serves arrays and autograd graphs to many clients.");
  absl::FlagsUsageConfig config;
  config.version_string = [] { return absl::StrCat("chxd ", chx::server::kVersion, "\n"); };
  absl::SetFlagsUsageConfig(config);
  // Flags are written with dashes, as users of etcd and Kubernetes expect.
  std::vector<std::string> args(argv, argv + argc);
  std::vector<char*> pointers;
  pointers.reserve(args.size());
  for (std::string& arg : args) {
    for (size_t i = 2; absl::StartsWith(arg, "--") && i < arg.size() && arg[i] != '='; ++i) {
      if (arg[i] == '-') arg[i] = '_';
    }
    pointers.push_back(&arg[0]);
  }
  const std::vector<char*> rest =
      absl::ParseCommandLine(static_cast<int>(pointers.size()), pointers.data());
  if (rest.size() > 1) {
    return chx::server::Fail(absl::InvalidArgumentError(
        absl::StrCat("expects flags only, got '", rest[1], "'; chxd --help lists the flags")));
  }
  return chx::server::Main();
}
