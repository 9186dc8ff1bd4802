#include "server/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ops/error.h"
#include "server/engine/host_plugin.h"
#include "server/native/host_backend.h"

namespace chx::server {
namespace {

template <typename... Args>
absl::Status PluginError(const Args&... args) {
  return MakeError(ErrorKind::kBackend, absl::StrCat(args...));
}

std::string ExecutableDirectory() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  const std::string text(path, size > 0 ? static_cast<size_t>(size) : 0);
  return text.substr(0, text.rfind('/'));
}

// `file` begins with a slash.
std::vector<std::string> PathsOf(const std::string& file, const std::string& directory) {
  if (!directory.empty()) return {directory + file};
  const std::string here = ExecutableDirectory();
  return {here + file, absl::StrCat(here, "/../lib/chxd", file)};
}

std::vector<std::string> CudaPaths(const std::string& directory) {
  constexpr char kFile[] = "/libchxd_cuda.so";
  std::vector<std::string> paths = PathsOf(kFile, directory);
  if (!directory.empty()) return paths;
  const std::string here = ExecutableDirectory();
  paths.push_back(absl::StrCat(here, "/cuda", kFile));
  // The package chx-cuda beside the package chx, which has the daemon in chx/bin.
  paths.push_back(absl::StrCat(here, "/../../chx_cuda", kFile));
  return paths;
}

bool ServesCuda(const Options& options) {
  for (absl::string_view device : absl::StrSplit(options.devices, ',')) {
    if (device == "cuda" || absl::StartsWith(device, "cuda:")) return true;
  }
  return false;
}

absl::Status CheckHostPlugin(const std::string& path, const HostPlugin& plugin) {
  if (plugin.abi != kHostPluginAbi) {
    return PluginError(path, ": made for plug-in interface ", plugin.abi,
                       ", but the daemon has interface ", kHostPluginAbi);
  }
  if (plugin.layout != kHostPluginLayout || plugin.set_kernels == nullptr) {
    return PluginError(path, ": compiled with headers of another chxd than this one");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const std::string& name,
                                                     const std::string& path, void* library,
                                                     NativeOptions native) {
  const auto* const host = static_cast<const HostPlugin*>(dlsym(library, kHostPluginSymbol));
  if (host != nullptr) {
    CHX_RETURN_IF_ERROR(CheckHostPlugin(path, *host));
    return CreateHostBackend(name, *host, native);
  }
  const auto create = reinterpret_cast<BackendEntryPoint>(dlsym(library, kBackendEntryPoint));
  if (create == nullptr) return PluginError(path, " is not a chxd backend");
  std::string error;
  std::unique_ptr<Backend> backend(create(kBackendAbi, &error));
  if (backend == nullptr) return PluginError(path, ": ", error);
  if (backend->name() != name) {
    return PluginError(path, ": is backend '", backend->name(), "', not '", name, "'");
  }
  return backend;
}

}  // namespace

std::vector<PluginFile> PluginsToOpen(const Options& options) {
  std::vector<PluginFile> files;
  files.reserve(options.plugins.size() + 1);
  for (const auto& [name, path] : options.plugins) files.push_back({name, {path}});
  const bool has_cuda = std::any_of(files.begin(), files.end(),
                                    [](const PluginFile& file) { return file.name == "cuda"; });
  if (!has_cuda && ServesCuda(options)) files.push_back({"cuda", CudaPaths(options.plugin_dir)});
  return files;
}

std::vector<std::string> MeshLibraryPaths(const Options& options) {
  std::vector<std::string> paths = PathsOf("/libchxd_gloo.so", options.plugin_dir);
  // As Bazel leaves it.
  if (options.plugin_dir.empty()) paths.push_back(ExecutableDirectory() + "/gloo/libchxd_gloo.so");
  return paths;
}

absl::StatusOr<std::unique_ptr<Backend>> OpenPlugin(const std::string& name,
                                                    const std::vector<std::string>& paths,
                                                    NativeOptions native) {
  for (const std::string& path : paths) {
    if (access(path.c_str(), F_OK) != 0) continue;
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return MakeBackend(name, path, library, native);
    return PluginError("cannot open the '", name, "' backend: ", dlerror());
  }
  if (name == "cuda") {
    return PluginError(
        "--devices names a GPU, but there is no ", paths.front(),
        ": install it by `pip install chx[cuda]` if the daemon is that of the Python "
        "package; else `bazel build //:chxd` makes it where the CUDA toolkit and cuDNN are "
        "installed (nvcc in $CUDA_HOME/bin or /usr/local/cuda/bin): put it there, or name its "
        "folder by --plugin-dir");
  }
  return PluginError("cannot open the '", name, "' backend: there is no ",
                     absl::StrJoin(paths, ", "));
}

}  // namespace chx::server
