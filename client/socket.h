// A connection to the daemon's host: a Unix socket, TCP, or TLS over TCP.
#ifndef CHX_CLIENT_SOCKET_H_
#define CHX_CLIENT_SOCKET_H_

#include "proto/byte_stream.h"

namespace chx {

// How long a Receive waits before it returns EAGAIN, for a reader that asks whether to go on.
inline constexpr int kSocketPatienceMs = 200;

// Owns its descriptor. One thread receives and one sends, at the same time; any may cut. A forked
// child has it closed.
class Socket : public ByteStream {
 public:
  explicit Socket(int fd);
  ~Socket() override;

  ssize_t Receive(char* out, size_t bytes, bool wait) override;
  ssize_t Send(const char* data, size_t bytes, bool wait, bool more) override;
  // Ends all waits, here and at the peer's.
  void Cut() const;
  // Waits until there is room to send or, if asked for, something to receive.
  struct Ready {
    bool in;
    bool out;
  };
  Ready WaitForRoom(bool or_input, int timeout_ms) const;
  // Whether the peer has read all that was sent; of TCP, whether its host has received it.
  bool AllTaken() const;
  int fd() const { return fd_; }

 private:
  const int fd_;
  const ino_t inode_;
  SocketStream stream_;
};

}  // namespace chx

#endif  // CHX_CLIENT_SOCKET_H_
