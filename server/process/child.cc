#include "server/process/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/log/log.h"

namespace chx::server {
namespace {

// posix_spawn's, whatever happens: a child of a process of many gigabytes that shares its memory
// until it has become another program, so nothing is copied.
class SpawnSetup {
 public:
  explicit SpawnSetup(int control) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files_, control, kControlDescriptor);
    // Libraries may have opened descriptors that are inherited.
    posix_spawn_file_actions_addclosefrom_np(&files_, kControlDescriptor + 1);
    posix_spawnattr_init(&attributes_);
    // Ctrl-C and service managers signal all processes of a group: this one ends with the daemon.
    sigset_t ignored;
    sigemptyset(&ignored);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ignored, signal);
    posix_spawnattr_setsigmask(&attributes_, &ignored);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

absl::Status CannotStart(absl::string_view name, int error) {
  return absl::UnavailableError(absl::StrCat("cannot start ", name, ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Child>> Child::Start(const std::string& program, std::string name,
                                                    std::string argument) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return CannotStart(name, errno);
  }
  // The child's copy must not be where its own descriptor is to be.
  const int theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, kControlDescriptor + 1);
  int error = theirs < 0 ? errno : 0;
  close(pair[1]);
  pid_t pid = 0;
  if (error == 0) {
    const SpawnSetup setup(theirs);
    char* const argv[] = {&name[0], &argument[0], nullptr};
    // One thread is all that OpenBLAS gets there.
    std::vector<std::string> variables = LogEnvironment();
    variables.push_back("OPENBLAS_NUM_THREADS=1");
    std::vector<char*> environment;
    environment.reserve(variables.size() + 1);
    for (std::string& variable : variables) environment.push_back(&variable[0]);
    environment.push_back(nullptr);
    error = posix_spawn(&pid, program.c_str(), &setup.files_, &setup.attributes_, argv,
                        environment.data());
    close(theirs);
  }
  if (error == 0) return std::unique_ptr<Child>(new Child(pid, pair[0]));
  close(pair[0]);
  return CannotStart(name, error);
}

Child::~Child() {
  close(control_);
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace chx::server
