// The small door for a plug-in backend whose memory is the host's: it brings kernels, and has all
// else from the CPU. docs/plugins.md tells how to make one.
#ifndef CHX_SERVER_ENGINE_HOST_PLUGIN_H_
#define CHX_SERVER_ENGINE_HOST_PLUGIN_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/engine/kernel.h"

namespace chx::server {

// The kernels of a device of the plug-in, which begin as native's.
class HostKernels {
 public:
  explicit HostKernels(KernelTable* table) : table_(table) {}

  // What the operator's kernel is so far: native's, for a kernel that calls it. Null if the
  // operator is unknown or has none.
  Kernel Find(absl::string_view op) const;
  // Replaces it. An error if the operator is unknown or runs without a kernel of its own.
  absl::Status Set(absl::string_view op, Kernel kernel);

 private:
  KernelTable* const table_;
};

// Raised with every change of what a plug-in and the daemon share.
inline constexpr int kHostPluginAbi = 1;
// Tells a plug-in that was compiled with other headers, if nobody raised the number.
inline constexpr size_t kHostPluginLayout =
    (sizeof(OpDef) << 40) + (sizeof(KernelTensor) << 20) + sizeof(KernelArgs);

// Says that arrays lie in host memory. Data, not a function: the daemon checks what it was compiled
// with before any of its code is called.
struct HostPlugin {
  int abi;        // kHostPluginAbi
  size_t layout;  // kHostPluginLayout
  // Called once for each device that is opened. A kernel is called by one thread for each session.
  absl::Status (*set_kernels)(HostKernels* kernels);
};

// The name under which a plug-in exports its HostPlugin.
inline constexpr char kHostPluginSymbol[] = "ChxHostPlugin";

}  // namespace chx::server

// Defined by the plug-in.
extern "C" const chx::server::HostPlugin ChxHostPlugin;

#endif  // CHX_SERVER_ENGINE_HOST_PLUGIN_H_
