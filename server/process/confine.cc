#include "server/process/confine.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/sanitizers.h"
#include "server/process/child.h"

namespace chx::server {
namespace {

// What RLIMIT_DATA counts. 0: not known.
rlim_t DataBytes() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    rlim_t kilobytes = 0;
    if (word == "VmData:" && file >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

}  // namespace

size_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  const rlim_t before = limit.rlim_cur;
  // Tables that are sized by the limit should stay small.
  limit.rlim_cur = std::max(before, std::min<rlim_t>(limit.rlim_max, 1 << 20));
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return before;
  return limit.rlim_cur;
}

size_t ConfineProcess(size_t memory_bytes) {
  fcntl(kControlDescriptor, F_SETFD, FD_CLOEXEC);
  // Where memory ends for all, the kernel is to take this process, whose work can be done again.
  // Before the process loses the right to write there.
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0);
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  // One arena: what one thread frees another can use, and the rest goes back to the system.
  mallopt(M_ARENA_MAX, 1);
  if (const rlim_t used = DataBytes(); used > 0 && !kSanitized) {
    const rlimit data = {used + memory_bytes, used + memory_bytes};
    setrlimit(RLIMIT_DATA, &data);
  }
  signal(SIGPIPE, SIG_IGN);
  return RaiseDescriptorLimit();
}

}  // namespace chx::server
