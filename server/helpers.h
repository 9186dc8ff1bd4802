// What this program can be beside the daemon: a helper process that the daemon starts.
#ifndef CHX_SERVER_HELPERS_H_
#define CHX_SERVER_HELPERS_H_

#include "absl/types/optional.h"

namespace chx::server {

// Runs the helper that the arguments name, to its end; returns its exit status. Nothing: they name
// none.
absl::optional<int> RunHelper(int argc, char** argv);

}  // namespace chx::server

#endif  // CHX_SERVER_HELPERS_H_
