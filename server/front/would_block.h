#ifndef CHX_SERVER_FRONT_WOULD_BLOCK_H_
#define CHX_SERVER_FRONT_WOULD_BLOCK_H_

#include <cerrno>

namespace chx::server {

// Whether a call on a socket that does not block has failed only because there is nothing to do
// yet.
inline bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace chx::server

#endif  // CHX_SERVER_FRONT_WOULD_BLOCK_H_
