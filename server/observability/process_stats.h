// What the system says about this process.
#ifndef CHX_SERVER_OBSERVABILITY_PROCESS_STATS_H_
#define CHX_SERVER_OBSERVABILITY_PROCESS_STATS_H_

#include <cstdint>

namespace chx::server {

struct ProcessStats {
  int64_t resident_bytes = 0;
  double cpu_seconds = 0;  // user and system, of all threads
  double start_time = 0;   // seconds since 1970
  int64_t open_descriptors = 0;
  int64_t max_descriptors = 0;
  int64_t threads = 0;
};

// What /proc does not tell is 0.
ProcessStats ReadProcessStats();

}  // namespace chx::server

#endif  // CHX_SERVER_OBSERVABILITY_PROCESS_STATS_H_
