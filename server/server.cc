// chxd: the tensor daemon.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

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
#include "server/health.h"
#include "server/native/native_backend.h"
#include "server/plugin.h"
#include "server/rpc/version.h"

ABSL_FLAG(std::string, health, "",
          "Ask the daemon at this address for its health and exit: 0 if it is serving.");

namespace chx {
namespace {

// Less than what Kubernetes and systemd add to --drain-timeout (deploy).
constexpr std::chrono::milliseconds kGrace = std::chrono::seconds(4);

int Fail(const absl::Status& status) {
  std::cerr << "chxd: " << status.message() << std::endl;
  return 1;
}

// SIGTERM and SIGINT write to this pipe. Handled, not blocked: OpenBLAS starts threads before main,
// and one that doesn't block them would end the daemon without draining.
int stop_pipe[2];

void OnStopSignal(int) {
  const int error = errno;
  const char byte = 0;
  (void)!write(stop_pipe[1], &byte, 1);  // Full: it was said already.
  errno = error;
}

bool HandleStopSignals() {
  struct sigaction action = {};
  action.sa_handler = OnStopSignal;
  action.sa_flags = SA_RESTART;
  return pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) == 0 &&
         sigaction(SIGTERM, &action, nullptr) == 0 && sigaction(SIGINT, &action, nullptr) == 0;
}

// Until SIGTERM, SIGINT or the end of the lifeline. True if there is time to drain.
bool WaitForEnd(int lifeline) {
  pollfd fds[2] = {{stop_pipe[0], POLLIN, 0}, {lifeline, POLLIN, 0}};
  while (poll(fds, lifeline >= 0 ? 2 : 1, -1) < 0 || (fds[0].revents | fds[1].revents) == 0) {
  }
  return fds[0].revents != 0;
}

// A kernel cannot be interrupted: one that does not end must not keep the daemon from ending.
void ExitAfter(std::chrono::milliseconds limit) {
  std::thread([limit] {
    std::this_thread::sleep_for(limit);
    std::cerr << "chxd: leaves work behind that does not end" << std::endl;
    _exit(1);
  }).detach();
}

int Main() {
  if (!absl::GetFlag(FLAGS_health).empty()) return CheckHealth(absl::GetFlag(FLAGS_health));
  if (!HandleStopSignals()) return Fail(absl::InternalError("cannot handle signals"));
  absl::StatusOr<Options> options = OptionsFromFlags();
  if (!options.ok()) return Fail(options.status());
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
  std::cout << "chxd ready " << absl::StrJoin((*daemon)->addresses(), " ") << std::endl;
  const bool drain = WaitForEnd(options->lifeline_fd);
  ExitAfter(kGrace + (drain ? options->drain_timeout : std::chrono::milliseconds(0)));
  if (drain) (*daemon)->Drain(options->drain_timeout);
  return 0;
}

}  // namespace
}  // namespace chx

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("chxd serves arrays and autograd graphs to many clients.");
  absl::FlagsUsageConfig config;
  config.version_string = [] { return absl::StrCat("chxd ", chx::kVersion, "\n"); };
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
  absl::ParseCommandLine(static_cast<int>(pointers.size()), pointers.data());
  return chx::Main();
}
