#include "client/socket.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "client/fork_guard.h"

namespace chx {

Socket::Socket(int fd) : fd_(fd), inode_(InodeOf(fd)), stream_(fd) {
  CloseInForkedChildren(fd);
  stream_.StayAwake(true);
  const timeval patience = {0, kSocketPatienceMs * 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

Socket::~Socket() { CloseGuarded(fd_, inode_); }

ssize_t Socket::Receive(char* out, size_t bytes, bool wait) {
  return stream_.Receive(out, bytes, wait);
}

ssize_t Socket::Send(const char* data, size_t bytes, bool wait, bool more) {
  return stream_.Send(data, bytes, wait, more);
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

bool Socket::AllTaken() const {
  int bytes = 0;
  return ioctl(fd_, SIOCOUTQ, &bytes) == 0 && bytes == 0;
}

}  // namespace chx
