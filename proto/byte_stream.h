// A connection as a stream of bytes: a socket here, TLS over one in the client.
#ifndef CHX_PROTO_BYTE_STREAM_H_
#define CHX_PROTO_BYTE_STREAM_H_

#include <sys/types.h>

#include <cstddef>

namespace chx {

// One thread at a time receives and one sends, which may be two at once.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // As recv: the number of bytes, 0 at the peer's end, -1 with errno. EAGAIN: there is nothing yet,
  // and the socket's timeout has passed or the call is not to `wait`.
  virtual ssize_t Receive(char* out, size_t bytes, bool wait) = 0;
  // As send, without SIGPIPE. `more`: the next call follows at once.
  virtual ssize_t Send(const char* data, size_t bytes, bool wait, bool more) = 0;
};

// A blocking socket, which is not owned.
class SocketStream final : public ByteStream {
 public:
  explicit SocketStream(int socket) : socket_(socket) {}
  ssize_t Receive(char* out, size_t bytes, bool wait) override;
  ssize_t Send(const char* data, size_t bytes, bool wait, bool more) override;

 private:
  const int socket_;
};

}  // namespace chx

#endif  // CHX_PROTO_BYTE_STREAM_H_
