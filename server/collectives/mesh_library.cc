#include "server/collectives/mesh_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/error.h"

namespace chx::server {
namespace {

absl::StatusOr<MeshEntryPoint> Open(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (access(path.c_str(), F_OK) != 0) continue;
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const entry = library == nullptr ? nullptr : dlsym(library, kMeshEntryPoint);
    if (entry != nullptr) return reinterpret_cast<MeshEntryPoint>(entry);
    return MakeError(ErrorKind::kBackend,
                     absl::StrCat("[join_group] cannot open ", path, ": ", dlerror(),
                                  ": it needs Debian's package libgloo0"));
  }
  return MakeError(
      ErrorKind::kBackend,
      absl::StrCat("[join_group] groups of several daemons need libchxd_gloo.so; there "
                   "is no ",
                   absl::StrJoin(paths, ", ")));
}

}  // namespace

RemoteGroups::MakeMesh MeshesFrom(std::vector<std::string> paths) {
  struct Library {
    std::vector<std::string> paths;
    Mutex mutex;
    MeshEntryPoint entry = nullptr;
  };
  auto library = std::make_shared<Library>();
  library->paths = std::move(paths);
  return [library](int self,
                   const std::vector<int>& sockets) -> absl::StatusOr<std::unique_ptr<Mesh>> {
    absl::Status opened;
    {
      const MutexLock lock(&library->mutex);
      if (library->entry == nullptr) {
        const absl::StatusOr<MeshEntryPoint> entry = Open(library->paths);
        opened = entry.status();
        if (entry.ok()) library->entry = *entry;
      }
    }
    if (!opened.ok()) {
      for (const int socket : sockets) {
        if (socket >= 0) close(socket);
      }
      return opened;
    }
    std::string why;
    std::unique_ptr<Mesh> mesh(
        library->entry(kMeshAbi, self, static_cast<int>(sockets.size()), sockets.data(), &why));
    if (mesh == nullptr) {
      return MakeError(ErrorKind::kConnection,
                       absl::StrCat("[join_group] cannot connect daemons: ", why));
    }
    return mesh;
  };
}

}  // namespace chx::server
