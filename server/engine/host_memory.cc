#include "server/engine/host_memory.h"

#include <unistd.h>

#include <algorithm>
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

}  // namespace chx::server
