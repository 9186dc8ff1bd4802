#include "server/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/error.h"

namespace chx {
namespace {

std::string ExecutableDirectory() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  const std::string text(path, size > 0 ? static_cast<size_t>(size) : 0);
  return text.substr(0, text.rfind('/'));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> OpenPlugin(const std::string& name,
                                                    const std::string& directory) {
  const std::string file = absl::StrCat("libchxd_", name, ".so");
  std::vector<std::string> paths;
  if (!directory.empty()) {
    paths.push_back(absl::StrCat(directory, "/", file));
  } else {
    const std::string here = ExecutableDirectory();
    paths = {absl::StrCat(here, "/", file), absl::StrCat(here, "/cuda/", file),
             absl::StrCat(here, "/../lib/chxd/", file)};
  }
  std::vector<std::string> errors;
  for (const std::string& path : paths) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      errors.push_back(dlerror());
      continue;
    }
    const auto create = reinterpret_cast<BackendEntryPoint>(dlsym(library, kBackendEntryPoint));
    if (create == nullptr) {
      return MakeError(ErrorKind::kBackend, absl::StrCat(path, " is not a chxd backend"));
    }
    std::string error;
    std::unique_ptr<Backend> backend(create(kBackendAbi, &error));
    if (backend == nullptr) return MakeError(ErrorKind::kBackend, absl::StrCat(path, ": ", error));
    return backend;
  }
  return MakeError(ErrorKind::kBackend, absl::StrCat("cannot open the '", name,
                                                     "' backend: ", absl::StrJoin(errors, "; ")));
}

}  // namespace chx
