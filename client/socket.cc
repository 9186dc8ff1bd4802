#include "client/socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "client/fork_guard.h"

namespace chx {

Socket::Socket(int fd) : fd_(fd), inode_(InodeOf(fd)) {
  CloseInForkedChildren(fd);
  const timeval patience = {0, kSocketPatienceMs * 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

Socket::~Socket() { CloseGuarded(fd_, inode_); }

ssize_t Socket::Receive(char* out, size_t bytes, bool wait) {
  return recv(fd_, out, bytes, wait ? 0 : MSG_DONTWAIT);
}

ssize_t Socket::Send(const char* data, size_t bytes, bool wait, bool more) {
  return send(fd_, data, bytes, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT) | (more ? MSG_MORE : 0));
}

void Socket::Cut() const {
  if (InodeOf(fd_) == inode_) shutdown(fd_, SHUT_RDWR);
}

Socket::Ready Socket::WaitForRoom(bool or_input, int timeout_ms) const {
  const auto events = static_cast<int16_t>(or_input ? POLLOUT | POLLIN : POLLOUT);
  pollfd state = {fd_, events, 0};
  poll(&state, 1, timeout_ms);
  return {(state.revents & POLLIN) != 0, (state.revents & ~POLLIN) != 0};
}

}  // namespace chx
