// What chxctl's commands do.
#ifndef CHX_CLIENT_CTL_COMMANDS_H_
#define CHX_CLIENT_CTL_COMMANDS_H_

#include "client/ctl/options.h"

namespace chx::ctl {

// Exit codes.
inline constexpr int kDone = 0;
inline constexpr int kRefused = 1;   // the daemon has said no, or a file cannot be used
inline constexpr int kUsage = 2;     // the command line is wrong
inline constexpr int kNoDaemon = 3;  // nobody answers at the address

// Returns the exit code. Results go to standard output, errors to standard error.
int Run(const Options& options);

}  // namespace chx::ctl

#endif  // CHX_CLIENT_CTL_COMMANDS_H_
