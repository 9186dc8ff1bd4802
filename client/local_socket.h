// Unix sockets of the daemon.
#ifndef CHX_CLIENT_LOCAL_SOCKET_H_
#define CHX_CLIENT_LOCAL_SOCKET_H_

#include <string>

namespace chx {

// The path in "unix:PATH" or "unix://PATH"; empty for other addresses.
std::string SocketPathOf(const std::string& address);

// Whose process is to have accepted.
enum class Owner { kThisUser, kAnybody };

// A connected socket, or -1 with errno: within some seconds nobody accepted at `path`, or it was
// not `owner`.
int ConnectLocally(const std::string& path, int type, Owner owner);

}  // namespace chx

#endif  // CHX_CLIENT_LOCAL_SOCKET_H_
