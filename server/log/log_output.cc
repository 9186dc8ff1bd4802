#include "server/log/log_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"

namespace chx::server {

LogOutput::LogOutput(int fd) : fd_(fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) return;
  if (S_ISSOCK(info.st_mode)) kind_ = Kind::kSocket;
  if (!S_ISFIFO(info.st_mode)) return;
  kind_ = Kind::kPipe;
  // Opened again it has flags of its own. Some containers forbid that.
  const std::string path = absl::StrCat("/proc/self/fd/", fd);
  const int own = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (own < 0) return;
  fd_ = own;
  own_ = true;
}

LogOutput::~LogOutput() {
  if (own_) close(fd_);
}

bool LogOutput::Write(absl::string_view line) const {
  while (!line.empty()) {
    if (kind_ == Kind::kPipe && !own_) {
      pollfd ready = {fd_, POLLOUT, 0};
      if (poll(&ready, 1, 0) <= 0) return false;
    }
    const ssize_t size = kind_ == Kind::kSocket
                             ? send(fd_, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                             : write(fd_, line.data(), line.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    line.remove_prefix(static_cast<size_t>(size));
  }
  return true;
}

}  // namespace chx::server
