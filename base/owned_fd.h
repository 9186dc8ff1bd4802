// A file descriptor that is closed with its owner.
#ifndef CHX_BASE_OWNED_FD_H_
#define CHX_BASE_OWNED_FD_H_

#include <unistd.h>

#include <utility>

namespace chx {

class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.Release()) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedFd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  // It is the caller's from now on.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace chx

#endif  // CHX_BASE_OWNED_FD_H_
