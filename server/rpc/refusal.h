// Turns a connection away.
#ifndef CHX_SERVER_RPC_REFUSAL_H_
#define CHX_SERVER_RPC_REFUSAL_H_

#include "absl/status/status.h"

namespace chx::server {

// Tells a client that has just connected why it is not served, if that can be done at once, and
// closes the socket. Never waits.
void Refuse(int socket, const absl::Status& status);

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_REFUSAL_H_
