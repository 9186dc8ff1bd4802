// Sets a kernel that no operator runs by.
#include "server/engine/host_plugin.h"

namespace {

absl::Status Nothing(const chx::server::KernelArgs&) { return absl::OkStatus(); }

absl::Status SetKernels(chx::server::HostKernels* kernels) {
  return kernels->Set("rellu", Nothing);
}

}  // namespace

const chx::server::HostPlugin ChxHostPlugin = {chx::server::kHostPluginAbi,
                                               chx::server::kHostPluginLayout, SetKernels};
