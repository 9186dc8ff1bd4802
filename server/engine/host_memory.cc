#include "server/engine/host_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "server/engine/control_group.h"

namespace chx::server {
namespace {

constexpr int64_t kReserve = int64_t{256} << 20;

// The file's number, where there is one below `bytes`: "max" and huge numbers stand for none.
int64_t Tighter(int64_t bytes, const std::string& path) {
  int64_t limit = 0;
  if (std::ifstream(path) >> limit && limit > 0) return std::min(bytes, limit);
  return bytes;
}

}  // namespace

int64_t HostMemoryBytes(const std::string& root) {
  int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  VisitControlGroups(root, "memory", [&bytes](int version, const std::string& folder) {
    bytes = Tighter(bytes, folder + (version == 2 ? "/memory.max" : "/memory.limit_in_bytes"));
  });
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
