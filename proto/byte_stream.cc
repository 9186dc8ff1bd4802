#include "proto/byte_stream.h"

#include <sched.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace chx {
namespace {

using Clock = std::chrono::steady_clock;

// Somebody else had the core for a while, if a thread that gave it away has it back so late.
constexpr std::chrono::microseconds kOthers{5};

}  // namespace

ssize_t SocketStream::Receive(char* out, size_t bytes, bool wait) {
  if (!wait) return recv(socket_, out, bytes, MSG_DONTWAIT);
  const Time start = Clock::now();
  const bool awake = awake_ && quick_;
  ssize_t got = awake ? ReceiveAwake(out, bytes, start) : -1;
  if (!awake || (got < 0 && errno == EAGAIN)) got = recv(socket_, out, bytes, 0);
  quick_ = Clock::now() - start < kQuick;
  return got;
}

ssize_t SocketStream::ReceiveAwake(char* out, size_t bytes, Time start) const {
  for (Time now = start;;) {
    const ssize_t got = recv(socket_, out, bytes, MSG_DONTWAIT);
    if (got >= 0 || errno != EAGAIN || now - start >= kAwake) return got;
    sched_yield();
    const Time before = std::exchange(now, Clock::now());
    if (now - before >= kOthers) now = start + kAwake;  // the last try
  }
}

ssize_t SocketStream::Send(const char* data, size_t bytes, bool wait, bool more) {
  return send(socket_, data, bytes,
              MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT) | (more ? MSG_MORE : 0));
}

}  // namespace chx
