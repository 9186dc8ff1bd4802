// StateFolder: where files are opened, and how they replace each other.
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/state/snapshot_file.h"

namespace chx::server {
namespace {

constexpr absl::string_view kUnfinished = ".tmp";
constexpr mode_t kFileMode = 0600;
constexpr mode_t kFolderMode = 0700;

absl::Status FolderError(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("--state-dir: cannot ", what, " ", path));
}

bool IsPlainName(absl::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
  };
  return !name.empty() && name[0] != '.' && std::all_of(name.begin(), name.end(), plain);
}

// No name leads out of the folder or through a link, also if somebody puts links there.
int OpenBeneath(int folder, const std::string& name, int flags) {
  if (!IsPlainName(name)) {
    errno = EINVAL;
    return -1;
  }
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW);
  how.mode = (flags & O_CREAT) != 0 ? kFileMode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  const auto fd = syscall(SYS_openat2, folder, name.c_str(), &how, sizeof(how));
  // Kernels before 5.6, and sandboxes that do not know the call. The name has no slash.
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) {
    return openat(folder, name.c_str(), static_cast<int>(how.flags), kFileMode);
  }
  return static_cast<int>(fd);
}

absl::Status CheckOwn(int fd, bool folder, const std::string& path) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) return FolderError("look at", path);
  if (status.st_uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat("--state-dir: expects that user ", geteuid(),
                                                    ", whose daemon this is, owns ", path,
                                                    ", got user ", status.st_uid));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "--state-dir: expects that no other user may write to ", path, ": use chmod go-w"));
  }
  if (folder || S_ISREG(status.st_mode)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("--state-dir: expects a file, got ", path));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateFolder>> StateFolder::Open(const std::string& path) {
  if (mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) return FolderError("make", path);
  OwnedFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return FolderError("open", path);
  absl::Status own = CheckOwn(folder.get(), true, path);
  if (!own.ok()) return own;
  OwnedFd lock(OpenBeneath(folder.get(), "lock", O_RDWR | O_CREAT));
  if (lock.get() < 0) return FolderError("open the lock in", path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::AlreadyExistsError(absl::StrCat("--state-dir: another chxd uses ", path,
                                                 ": stop it, or give this one another"));
  }
  std::unique_ptr<StateFolder> state(new StateFolder(path, std::move(folder), std::move(lock)));
  const auto unfinished = state->List(kUnfinished);
  if (!unfinished.ok()) return unfinished.status();
  for (const std::string& name : *unfinished) state->Remove(name);
  return state;
}

absl::Status StateFolder::Replace(const std::string& name,
                                  absl::FunctionRef<absl::Status(int fd)> write) {
  const std::string unfinished = absl::StrCat(name, kUnfinished);
  unlinkat(folder_.get(), unfinished.c_str(), 0);
  const OwnedFd file(OpenBeneath(folder_.get(), unfinished, O_WRONLY | O_CREAT | O_EXCL));
  if (file.get() < 0) return FolderError("make a file in", path_);
  absl::Status status = write(file.get());
  if (status.ok()) status = Rename(unfinished, name);
  if (!status.ok()) unlinkat(folder_.get(), unfinished.c_str(), 0);
  return status;
}

absl::Status StateFolder::Link(const std::string& name, const std::string& other) {
  const int folder = folder_.get();
  const bool plain = IsPlainName(name) && IsPlainName(other);
  if (!plain) errno = EINVAL;
  if (plain && linkat(folder, name.c_str(), folder, other.c_str(), 0) == 0) return absl::OkStatus();
  return FolderError("link a file in", path_);
}

absl::Status StateFolder::Rename(const std::string& name, const std::string& to) {
  const int folder = folder_.get();
  const bool plain = IsPlainName(name) && IsPlainName(to);
  if (!plain) errno = EINVAL;
  if (!plain || renameat(folder, name.c_str(), folder, to.c_str()) != 0) {
    return FolderError("rename a file in", path_);
  }
  return fsync(folder) == 0 ? absl::OkStatus() : FolderError("sync", path_);
}

bool StateFolder::AreSame(const std::string& a, const std::string& b) const {
  const auto look = [this](const std::string& name, struct stat* status) {
    return IsPlainName(name) &&
           fstatat(folder_.get(), name.c_str(), status, AT_SYMLINK_NOFOLLOW) == 0;
  };
  struct stat first = {};
  struct stat second = {};
  return look(a, &first) && look(b, &second) && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

absl::StatusOr<OwnedFd> StateFolder::OpenFile(const std::string& name) const {
  OwnedFd file(OpenBeneath(folder_.get(), name, O_RDONLY | O_NONBLOCK));
  if (file.get() < 0) return FolderError(absl::StrCat("open ", name, " in"), path_);
  absl::Status own = CheckOwn(file.get(), false, name);
  if (!own.ok()) return own;
  return file;
}

absl::StatusOr<std::vector<std::string>> StateFolder::List(absl::string_view ending) const {
  std::vector<std::string> names;
  const int fd = openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const entries = fd < 0 ? nullptr : fdopendir(fd);
  if (entries == nullptr) return FolderError("list", path_);
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    if (IsPlainName(name) && absl::EndsWith(name, ending)) names.push_back(name);
  }
  closedir(entries);
  std::sort(names.begin(), names.end());
  return names;
}

void StateFolder::Remove(const std::string& name) {
  if (IsPlainName(name)) unlinkat(folder_.get(), name.c_str(), 0);
}

}  // namespace chx::server
