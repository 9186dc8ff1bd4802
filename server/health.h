// `chxd --health ADDRESS`: a client of the standard health service, for container probes.
#ifndef CHX_SERVER_HEALTH_H_
#define CHX_SERVER_HEALTH_H_

#include <string>

namespace chx {

// 0 if the daemon there says SERVING within two seconds, else 1. Plaintext addresses only.
int CheckHealth(const std::string& address);

}  // namespace chx

#endif  // CHX_SERVER_HEALTH_H_
