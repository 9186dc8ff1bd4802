#include "server/data/data_root.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ops/error.h"
#include "server/data/data_formats.h"

namespace chx::server {
namespace {

constexpr size_t kMaxPathBytes = 1024;
constexpr int64_t kMaxReadBytes = int64_t{1} << 30;  // by one system call

// What quotes a file may have any bytes.
absl::Status At(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  std::string text(status.message());
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return MakeError(KindOf(status), absl::StrCat("[data] '", path, "': ", text));
}

absl::StatusOr<DataStamp> StampOf(int fd) {
  constexpr uint64_t kNanoseconds = 1000000000;
  struct stat status = {};
  struct statfs system = {};
  if (fstat(fd, &status) != 0 || fstatfs(fd, &system) != 0) {
    return ValueError("cannot be read: ", std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) return ValueError("expects a regular file");
  // Those of object stores number their files anew when they are mounted again.
  const bool numbers_stay = system.f_type != FUSE_SUPER_MAGIC;
  return DataStamp{static_cast<uint64_t>(status.st_size),
                   static_cast<uint64_t>(status.st_mtim.tv_sec) * kNanoseconds +
                       static_cast<uint64_t>(status.st_mtim.tv_nsec),
                   numbers_stay ? static_cast<uint64_t>(status.st_ino) : 0};
}

}  // namespace

// A file that is open.
class DataRoot::File {
 public:
  File() = default;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;

  // Part by part from the folder on, through no link and never upwards. Nothing but a regular file
  // is opened: a FIFO or a device would do more than that.
  absl::Status Open(int folder, const std::string& path) {
    const std::vector<std::string> parts = absl::StrSplit(path, '/');
    if (path.size() > kMaxPathBytes || path.find('\0') != std::string::npos) {
      return ValueError("expects a path of at most ", kMaxPathBytes, " bytes");
    }
    for (const std::string& part : parts) {
      if (part.empty() || part == "." || part == "..") {
        return ValueError("expects a path below --data-root, such as mnist/train.npz");
      }
    }
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const int next = openat(i == 0 ? folder : fd_, parts[i].c_str(),
                              O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      const int error = errno;
      Replace(next);
      if (next < 0) return Cannot(error);
    }
    const int parent = parts.size() == 1 ? folder : fd_;
    struct stat before = {};
    if (fstatat(parent, parts.back().c_str(), &before, AT_SYMLINK_NOFOLLOW) != 0) {
      return Cannot(errno);
    }
    if (!S_ISREG(before.st_mode)) return ValueError("expects a regular file");
    const int opened = openat(parent, parts.back().c_str(),
                              O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    const int error = errno;
    Replace(opened);
    if (opened < 0) return Cannot(error);
    CHX_ASSIGN_OR_RETURN(stamp_, StampOf(fd_));
    return absl::OkStatus();
  }
  const DataStamp& stamp() const { return stamp_; }

  absl::Status Read(uint64_t begin, char* out, size_t bytes) const {
    while (bytes > 0) {
      const ssize_t got = pread(fd_, out, std::min(bytes, static_cast<size_t>(kMaxReadBytes)),
                                static_cast<off_t>(begin));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Cannot(errno);
      if (got == 0) return ValueError("is shorter than it was");
      begin += static_cast<uint64_t>(got);
      out += got;
      bytes -= static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }
  // What was read is of one file, unless somebody writes to it within a tick of its clock.
  absl::Status CheckUnchanged(const DataStamp& stamp) const {
    CHX_ASSIGN_OR_RETURN(const DataStamp now, StampOf(fd_));
    return now == stamp ? absl::OkStatus() : ValueError("has changed");
  }

 private:
  void Replace(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }
  static absl::Status Cannot(int error) {
    if (error == ENOENT) return ValueError("there is no such file below --data-root");
    if (error == ELOOP || error == ENOTDIR) {
      return ValueError("expects a path of folders and a file, without links");
    }
    return ValueError("cannot be read: ", std::strerror(error));
  }

  int fd_ = -1;
  DataStamp stamp_;
};

int64_t DataArray::row_bytes() const {
  if (rows() == 0) return 0;  // the other dimensions may be anything
  int64_t bytes = ItemSize(dtype);
  for (int i = 1; i < shape.size(); ++i) bytes *= shape[i];
  return bytes;
}

absl::StatusOr<std::unique_ptr<DataRoot>> DataRoot::Open(const std::string& folder) {
  const int fd = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("--data-root: cannot open ", folder));
  return std::unique_ptr<DataRoot>(new DataRoot(fd));
}

DataRoot::~DataRoot() { close(folder_); }

absl::StatusOr<std::vector<DataArray>> DataRoot::Describe(const std::string& path) const {
  File file;
  CHX_RETURN_IF_ERROR(At(path, file.Open(folder_, path)));
  absl::StatusOr<std::vector<DataArray>> arrays = ReadDataHeader(
      path, file.stamp().size,
      [&file](uint64_t begin, char* out, size_t bytes) { return file.Read(begin, out, bytes); });
  CHX_RETURN_IF_ERROR(At(path, arrays.status()));
  CHX_RETURN_IF_ERROR(At(path, file.CheckUnchanged(file.stamp())));
  for (DataArray& array : *arrays) {
    array.path = path;
    array.stamp = file.stamp();
  }
  return arrays;
}

absl::StatusOr<DataArray> DataRoot::Find(const std::string& path, const std::string& name) const {
  CHX_ASSIGN_OR_RETURN(std::vector<DataArray> arrays, Describe(path));
  for (DataArray& array : arrays) {
    if (array.name == name) return std::move(array);
  }
  return At(path, ValueError("has no array '", name, "'"));
}

absl::Status DataRoot::Read(const DataArray& array, absl::Span<const int64_t> rows,
                            char* out) const {
  File file;
  CHX_RETURN_IF_ERROR(At(array.path, file.Open(folder_, array.path)));
  CHX_RETURN_IF_ERROR(At(array.path, file.CheckUnchanged(array.stamp)));
  const auto row_bytes = static_cast<size_t>(array.row_bytes());
  for (size_t i = 0; i < rows.size();) {
    if (rows[i] < 0 || rows[i] >= array.rows()) {
      return At(array.path,
                ValueError("expects rows of 0 to ", array.rows() - 1, ", got ", rows[i]));
    }
    size_t count = 1;  // that follow one another
    while (i + count < rows.size() && rows[i + count] < array.rows() &&
           rows[i + count] == rows[i] + static_cast<int64_t>(count)) {
      ++count;
    }
    CHX_RETURN_IF_ERROR(
        At(array.path, file.Read(array.begin + static_cast<uint64_t>(rows[i]) * row_bytes, out,
                                 count * row_bytes)));
    out += count * row_bytes;
    i += count;
  }
  if (array.dtype == Dtype::kBool) {  // whatever the file has
    char* const begin = out - rows.size() * row_bytes;
    std::transform(begin, out, begin, [](char c) { return static_cast<char>(c != 0); });
  }
  return At(array.path, file.CheckUnchanged(array.stamp));
}

}  // namespace chx::server
