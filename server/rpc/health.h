// `chxd --health ADDRESS`: a client of the health call, for container probes.
#ifndef CHX_SERVER_RPC_HEALTH_H_
#define CHX_SERVER_RPC_HEALTH_H_

#include <string>

namespace chx::server {

// 0 if the daemon there says that it is serving within two seconds, else 1. Plaintext addresses
// only. The token is for TCP: a Unix socket needs none.
int CheckHealth(const std::string& address, const std::string& token);

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_HEALTH_H_
