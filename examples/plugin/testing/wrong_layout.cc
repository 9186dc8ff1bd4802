// Says the right number, but was compiled with other headers.
#include <cstdlib>

#include "server/engine/host_plugin.h"

namespace {

absl::Status SetKernels(chx::server::HostKernels*) { std::abort(); }

}  // namespace

const chx::server::HostPlugin ChxHostPlugin = {chx::server::kHostPluginAbi,
                                               chx::server::kHostPluginLayout + 8, SetKernels};
