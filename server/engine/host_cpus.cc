#include "server/engine/host_cpus.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <thread>

#include "server/engine/control_group.h"

namespace chx::server {
namespace {

// How many cores' time a group has, rounded up; 0: no quota.
int64_t QuotaOf(int version, const std::string& folder) {
  int64_t quota = 0;
  int64_t period = 0;
  if (version == 2) {
    // "max 100000" or "150000 100000": microseconds of each period.
    if (!(std::ifstream(folder + "/cpu.max") >> quota >> period)) return 0;
  } else {
    // -1: no quota.
    if (!(std::ifstream(folder + "/cpu.cfs_quota_us") >> quota)) return 0;
    if (!(std::ifstream(folder + "/cpu.cfs_period_us") >> period)) return 0;
  }
  if (quota <= 0 || period <= 0) return 0;
  return (quota - 1) / period + 1;
}

}  // namespace

int HostCpus(const std::string& root) {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines of more than 1024 cores.
  int64_t cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                              : std::thread::hardware_concurrency();
  cpus = std::max<int64_t>(1, cpus);
  VisitControlGroups(root, "cpu", [&cpus](int version, const std::string& folder) {
    const int64_t quota = QuotaOf(version, folder);
    if (quota > 0) cpus = std::min(cpus, quota);
  });
  return static_cast<int>(cpus);
}

}  // namespace chx::server
