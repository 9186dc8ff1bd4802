// Sockets beside the daemon's own, for processes of the same user on the same host.
#ifndef CHX_SERVER_RPC_LOCAL_SOCKET_H_
#define CHX_SERVER_RPC_LOCAL_SOCKET_H_

#include <string>

#include "absl/status/statusor.h"

namespace chx {

// A listening, non-blocking socket with mode 0600. `type` is SOCK_STREAM or SOCK_SEQPACKET. What
// lies at `path` is removed: the caller has seen that nobody listens there.
absl::StatusOr<int> ListenLocally(const std::string& path, int type);

// Accepts the next connection if it is the daemon's user's, with accept4's `flags`; else -1.
// Returns soon: with no descriptors left the connection stays in the queue.
int AcceptSameUser(int listener, int flags);

}  // namespace chx

#endif  // CHX_SERVER_RPC_LOCAL_SOCKET_H_
