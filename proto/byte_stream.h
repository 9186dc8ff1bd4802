// A connection as a stream of bytes: a socket here, TLS over one in the client.
#ifndef CHX_PROTO_BYTE_STREAM_H_
#define CHX_PROTO_BYTE_STREAM_H_

#include <sys/types.h>

#include <chrono>
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
//
// If asked to stay awake, Receive waits for a peer that has just answered quickly without sleeping,
// as long as nobody else wants the core: to wake a core that sleeps takes longer than a small step.
class SocketStream final : public ByteStream {
 public:
  static constexpr std::chrono::microseconds kAwake{200};
  // An answer is quick if it has come so soon, which may be after a sleep.
  static constexpr std::chrono::microseconds kQuick{400};

  explicit SocketStream(int socket) : socket_(socket) {}
  // From now on, of whoever receives.
  void StayAwake(bool awake) { awake_ = awake; }
  ssize_t Receive(char* out, size_t bytes, bool wait) override;
  ssize_t Send(const char* data, size_t bytes, bool wait, bool more) override;

 private:
  using Time = std::chrono::steady_clock::time_point;
  ssize_t ReceiveAwake(char* out, size_t bytes, Time start) const;

  const int socket_;
  bool awake_ = false;
  bool quick_ = false;  // the last answer
};

}  // namespace chx

#endif  // CHX_PROTO_BYTE_STREAM_H_
