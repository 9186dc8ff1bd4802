// Listening TCP sockets.
#ifndef CHX_SERVER_FRONT_LISTENERS_H_
#define CHX_SERVER_FRONT_LISTENERS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace chx::server {

// Listens on every address that the host of "HOST:PORT" has; port 0 picks a free one, the same for
// all. Appends the sockets, which do not block. Returns the port.
absl::StatusOr<int> ListenOn(const std::string& address, std::vector<int>* sockets);

}  // namespace chx::server

#endif  // CHX_SERVER_FRONT_LISTENERS_H_
