#include "server/engine/host_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace chx::server {
namespace {

constexpr int64_t kReserve = int64_t{256} << 20;

// The file's number, where there is one below `bytes`: "max" and huge numbers stand for none.
int64_t Tighter(int64_t bytes, const std::string& path) {
  int64_t limit = 0;
  if (std::ifstream(path) >> limit && limit > 0) return std::min(bytes, limit);
  return bytes;
}

// The limits of a group and of all above it, below the hierarchy's mount point.
int64_t TightestIn(int64_t bytes, const std::string& mount, std::string group,
                   absl::string_view file) {
  for (;;) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    bytes = Tighter(bytes, absl::StrCat(mount, group, "/", file));
    if (group.empty()) return bytes;
    group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace

int64_t HostMemoryBytes(const std::string& root) {
  int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const std::string mount = root + "/sys/fs/cgroup";
  // Where the groups above are not shown, as in most containers, the mount point is the own one.
  bytes = Tighter(bytes, mount + "/memory.max");
  bytes = Tighter(bytes, mount + "/memory/memory.limit_in_bytes");
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    // "0::/system.slice/chxd.service" (version 2), "9:memory:/docker/..." (version 1)
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || !absl::StartsWith(fields[2], "/")) continue;
    if (fields[1].empty()) {
      bytes = TightestIn(bytes, mount, fields[2], "memory.max");
      continue;
    }
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
      bytes = TightestIn(bytes, mount + "/memory", fields[2], "memory.limit_in_bytes");
    }
  }
  return bytes;
}

int64_t DefaultMemoryLimit(int64_t host_bytes) {
  // In a tiny container the reserve would be all there is.
  return host_bytes / 10 * 9 - std::min(kReserve, host_bytes / 10);
}

int64_t ResidentBytes() {
  char text[128];
  const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  text[size > 0 ? size : 0] = '\0';
  int64_t total = 0;
  int64_t resident = 0;
  if (std::sscanf(text, "%ld %ld", &total, &resident) != 2) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace chx::server
