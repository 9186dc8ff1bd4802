// How a connection is turned away before it is served.
#ifndef CHX_PROTO_REFUSAL_H_
#define CHX_PROTO_REFUSAL_H_

#include <string>

#include "absl/status/status.h"

namespace chx {

// The frame that tells a peer why: an answer to its first call.
std::string RefusalFrame(const absl::Status& status);

// Reads what has come, without waiting, up to a bound. What is unread when a TCP socket is closed
// makes the kernel drop what was written to it.
void DiscardUnread(int socket);

}  // namespace chx

#endif  // CHX_PROTO_REFUSAL_H_
