// Turns a connection away.
#ifndef CHX_SERVER_RPC_REFUSAL_H_
#define CHX_SERVER_RPC_REFUSAL_H_

#include "absl/status/status.h"
#include "server/rpc/peer_info.h"

namespace chx::server {

// Tells a client that has just connected why it is not served, if that can be done at once, and
// closes the socket. Never waits.
void Refuse(int socket, const absl::Status& status);

// Counts it, and tells the log, within a limit: `peer` has been refused for this reason.
void LogRefusal(const PeerInfo& peer, const absl::Status& status);

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_REFUSAL_H_
