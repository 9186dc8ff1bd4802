#include "proto/byte_stream.h"

#include <sys/socket.h>

namespace chx {

ssize_t SocketStream::Receive(char* out, size_t bytes, bool wait) {
  return recv(socket_, out, bytes, wait ? 0 : MSG_DONTWAIT);
}

ssize_t SocketStream::Send(const char* data, size_t bytes, bool wait, bool more) {
  return send(socket_, data, bytes,
              MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT) | (more ? MSG_MORE : 0));
}

}  // namespace chx
