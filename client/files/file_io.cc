#include "client/files/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx {
OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

absl::Status OutputFile::Open() {
  static std::atomic<int> count{0};
  temporary_ = absl::StrCat(place_.path, ".", getpid(), "-", ++count, ".tmp");
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  return fd_ < 0 ? SystemError(place_, "cannot write") : absl::OkStatus();
}

absl::Status OutputFile::Write(absl::string_view data) {
  while (!data.empty()) {
    const ssize_t written = write(fd_, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(place_, "cannot write");
    data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  if (fsync(fd_) != 0 || rename(temporary_.c_str(), place_.path.c_str()) != 0) {
    return SystemError(place_, "cannot write");
  }
  close(std::exchange(fd_, -1));
  return absl::OkStatus();
}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status InputFile::Open() {
  // Not to wait for a pipe's other end.
  fd_ = open(place_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info = {};
  if (fd_ < 0 || fstat(fd_, &info) != 0) return SystemError(place_, "cannot open");
  if (!S_ISREG(info.st_mode)) return AtPlace(place_, ValueError("expects a regular file"));
  bytes_ = static_cast<uint64_t>(info.st_size);
  return absl::OkStatus();
}

absl::Status InputFile::Read(char* out, size_t bytes) {
  while (bytes != 0) {
    const ssize_t got = read(fd_, out, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, "cannot read");
    if (got == 0) return ValueError("is cut short: expects ", bytes, " bytes more");
    out += got;
    bytes -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace chx
