// How much memory this process may take, and takes.
#ifndef CHX_SERVER_ENGINE_HOST_MEMORY_H_
#define CHX_SERVER_ENGINE_HOST_MEMORY_H_

#include <cstdint>
#include <string>

namespace chx::server {

// The machine's memory, or what the tightest control group that the process is in leaves of it: a
// container's limit, or MemoryMax of a systemd unit. `root`: where /proc and /sys are looked for.
int64_t HostMemoryBytes(const std::string& root = "");

// What a daemon takes if it is not told: 90 % of that, less a reserve for what is not counted
// (libraries' buffers, page tables, sockets).
int64_t DefaultMemoryLimit(int64_t host_bytes);

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_HOST_MEMORY_H_
