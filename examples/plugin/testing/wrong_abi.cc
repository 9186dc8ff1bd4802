// A plug-in from another time: nothing of it may be called.
#include <cstdlib>

#include "server/engine/host_plugin.h"

namespace {

absl::Status SetKernels(chx::HostKernels*) { std::abort(); }

}  // namespace

const chx::HostPlugin ChxHostPlugin = {chx::kHostPluginAbi + 1, chx::kHostPluginLayout, SetKernels};
