#include "server/engine/core_affinity.h"

#include <sched.h>

#include <vector>

#include "absl/types/span.h"
#include "server/engine/host_cpus.h"

namespace chx::server {
namespace {

// Empty: threads run on any.
const std::vector<int>& Cores() {
  static const auto* const cores = [] {
    auto* found = new std::vector<int>;
    cpu_set_t all;
    CPU_ZERO(&all);
    if (sched_getaffinity(0, sizeof(all), &all) != 0) return found;
    if (CPU_COUNT(&all) > HostCpus()) return found;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &all)) found->push_back(cpu);
    }
    return found;
  }();
  return *cores;
}

// Fails if the administrator has taken these cores away: the thread stays where it may.
bool RunOn(absl::Span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cores) CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

// What this thread has asked for.
thread_local int current = -1;

}  // namespace

void StayOnCore(int number) {
  const absl::Span<const int> all = Cores();
  if (number >= static_cast<int>(all.size())) number = -1;
  if (number == current) return;
  if (RunOn(number < 0 ? all : all.subspan(static_cast<size_t>(number), 1))) current = number;
}

void LeaveOneCore() {
  const absl::Span<const int> all = Cores();
  if (all.size() > 1) RunOn(all.first(all.size() - 1));
}

}  // namespace chx::server
