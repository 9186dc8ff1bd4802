// Backends that live in shared libraries.
#ifndef CHX_SERVER_PLUGIN_H_
#define CHX_SERVER_PLUGIN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/backend.h"
#include "server/native/native_backend.h"
#include "server/options.h"

namespace chx::server {

// A backend's name, and where its library may be: the first that can be opened counts.
struct PluginFile {
  std::string name;
  std::vector<std::string> paths;
};

// Those of --plugins. And cuda's own, if a device of it is to be served: libchxd_cuda.so in
// --plugin-dir; without one, beside the executable and in ../lib/chxd.
std::vector<PluginFile> PluginsToOpen(const Options& options);

// Where the library for groups of several daemons may be: as that of cuda.
std::vector<std::string> MeshLibraryPaths(const Options& options);

// A library that exports kHostPluginSymbol gets the CPU's devices, made by `native`; one that
// exports kBackendEntryPoint makes its own. The library stays open for the rest of the process.
absl::StatusOr<std::unique_ptr<Backend>> OpenPlugin(const std::string& name,
                                                    const std::vector<std::string>& paths,
                                                    NativeOptions native);

}  // namespace chx::server

#endif  // CHX_SERVER_PLUGIN_H_
