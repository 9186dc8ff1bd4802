// TCP between daemons.
#ifndef CHX_SERVER_PEERS_SOCKETS_H_
#define CHX_SERVER_PEERS_SOCKETS_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/owned_fd.h"
#include "server/peers/handshake.h"

namespace chx::server {

// Listens at HOST:PORT; *port is the real one.
absl::StatusOr<OwnedFd> ListenAt(const std::string& address, int* port);
// A blocking connection to HOST:PORT; not any more once `stop`, a pipe, has an end. *refused is an
// errno, if no connection came of what was tried; 0: the address leads to nothing.
absl::StatusOr<OwnedFd> ConnectTo(const std::string& address, Deadline deadline, int stop = -1,
                                  int* refused = nullptr);
// Finds out by itself that the other host has gone.
void KeepAlive(int socket);

}  // namespace chx::server

#endif  // CHX_SERVER_PEERS_SOCKETS_H_
