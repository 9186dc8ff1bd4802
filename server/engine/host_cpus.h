// How many CPU cores this process may use.
#ifndef CHX_SERVER_ENGINE_HOST_CPUS_H_
#define CHX_SERVER_ENGINE_HOST_CPUS_H_

#include <string>

namespace chx::server {

// The cores that the process may be scheduled on (taskset, cpusets), or fewer if the CPU quota of a
// control group that it is in is tighter; a part of a core counts as one. At least 1. `root`: where
// /proc and /sys are looked for.
int HostCpus(const std::string& root = "");

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_HOST_CPUS_H_
