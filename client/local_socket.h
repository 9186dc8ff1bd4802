// Unix sockets of the daemon.
#ifndef CHX_CLIENT_LOCAL_SOCKET_H_
#define CHX_CLIENT_LOCAL_SOCKET_H_

#include <sys/types.h>

#include <string>

#include "absl/types/optional.h"

namespace chx {

// The path in "unix:PATH" or "unix://PATH"; empty for other addresses.
std::string SocketPathOf(const std::string& address);

// A connected socket, or -1 with errno: within some seconds nobody accepted at `path`, or it was
// another user's process than `owner`'s; none: whoever it is.
int ConnectLocally(const std::string& path, int type,
                   const absl::optional<uid_t>& owner = absl::nullopt);

// Whose process is at the other end of a Unix socket; none: it cannot be told.
absl::optional<uid_t> PeerOf(int socket);

}  // namespace chx

#endif  // CHX_CLIENT_LOCAL_SOCKET_H_
