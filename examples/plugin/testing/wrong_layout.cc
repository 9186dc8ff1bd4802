// Says the right number, but was compiled with other headers.
#include <cstdlib>

#include "server/engine/host_plugin.h"

namespace {

absl::Status SetKernels(chx::HostKernels*) { std::abort(); }

}  // namespace

const chx::HostPlugin ChxHostPlugin = {chx::kHostPluginAbi, chx::kHostPluginLayout + 8, SetKernels};
