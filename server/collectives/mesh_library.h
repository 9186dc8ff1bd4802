// The library that meshes come from.
#ifndef CHX_SERVER_COLLECTIVES_MESH_LIBRARY_H_
#define CHX_SERVER_COLLECTIVES_MESH_LIBRARY_H_

#include <string>
#include <vector>

#include "server/collectives/remote_groups.h"

namespace chx::server {

// Opens the first of `paths` that is there, when the first mesh is made.
RemoteGroups::MakeMesh MeshesFrom(std::vector<std::string> paths);

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_MESH_LIBRARY_H_
