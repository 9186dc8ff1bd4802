// Backends that live in shared libraries.
#ifndef CHX_SERVER_PLUGIN_H_
#define CHX_SERVER_PLUGIN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/engine/backend.h"

namespace chx {

// Opens libchxd_NAME.so in `directory`; without one, beside the executable and in ../lib/chxd. The
// library stays open for the rest of the process.
absl::StatusOr<std::unique_ptr<Backend>> OpenPlugin(const std::string& name,
                                                    const std::string& directory);

}  // namespace chx

#endif  // CHX_SERVER_PLUGIN_H_
