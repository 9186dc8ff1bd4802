// A plug-in from another time: nothing of it may be called.
#include <cstdlib>

#include "server/engine/host_plugin.h"

namespace {

absl::Status SetKernels(chx::server::HostKernels*) { std::abort(); }

}  // namespace

const chx::server::HostPlugin ChxHostPlugin = {chx::server::kHostPluginAbi + 1,
                                               chx::server::kHostPluginLayout, SetKernels};
