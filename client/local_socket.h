// Sockets beside the daemon's own.
#ifndef CHX_CLIENT_LOCAL_SOCKET_H_
#define CHX_CLIENT_LOCAL_SOCKET_H_

#include <string>

namespace chx {

// The path in "unix:PATH" or "unix://PATH"; empty for other addresses.
std::string SocketPathOf(const std::string& address);

// A connected socket, or -1: within some seconds nobody accepted at `path`, or it was not a process
// of this user's. Else anybody who can make a file there would be shown the session's id.
int ConnectLocally(const std::string& path, int type);

}  // namespace chx

#endif  // CHX_CLIENT_LOCAL_SOCKET_H_
