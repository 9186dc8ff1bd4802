// What a session says to become a rank of a process group.
#ifndef CHX_SERVER_COLLECTIVES_GROUP_REQUEST_H_
#define CHX_SERVER_COLLECTIVES_GROUP_REQUEST_H_

#include <cstdint>
#include <string>

namespace chx::server {

struct GroupRequest {
  std::string name;    // 1 to kMaxGroupName bytes
  std::string secret;  // whoever has another one is in another group; "" is one, too
  int64_t rank = 0;
  int64_t size = 1;
  // HOST:PORT of the daemon where the ranks' daemons meet; "": all are sessions of this daemon.
  std::string address;
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_GROUP_REQUEST_H_
