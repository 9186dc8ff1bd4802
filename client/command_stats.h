// What a session counts.
#ifndef CHX_CLIENT_COMMAND_STATS_H_
#define CHX_CLIENT_COMMAND_STATS_H_

#include <cstdint>

namespace chx {

// Since the session began.
struct CommandStats {
  int64_t commands = 0;     // sent, or about to be
  int64_t round_trips = 0;  // how often something waited for the daemon
};

}  // namespace chx

#endif  // CHX_CLIENT_COMMAND_STATS_H_
