#include "server/engine/spill_folder.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/engine/memory_size.h"

namespace chx::server {
namespace {

absl::Status Unusable(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--spill-dir expects a folder on a disk that this user can write to, got ", path, ": ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpillFolder>> SpillFolder::Open(const std::string& path,
                                                               int64_t limit) {
  const int folder = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return Unusable(path, std::strerror(errno));
  std::unique_ptr<SpillFolder> spill(new SpillFolder(folder, limit));
  struct statfs system = {};
  if (fstatfs(folder, &system) != 0) return Unusable(path, std::strerror(errno));
  if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC) {
    return Unusable(path, "its files are in memory");
  }
  const absl::StatusOr<char*> tried = spill->Map(sysconf(_SC_PAGESIZE));
  if (!tried.ok()) return Unusable(path, tried.status().message());
  munmap(*tried, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  return spill;
}

SpillFolder::~SpillFolder() { close(folder_); }

absl::StatusOr<char*> SpillFolder::Map(int64_t bytes) const {
  const int file = openat(folder_, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return MemoryError("cannot make a file: ", std::strerror(errno));
  void* data = MAP_FAILED;
  const auto size = static_cast<size_t>(bytes);
  if (fallocate(file, 0, 0, bytes) == 0) {
    data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  const int error = errno;
  close(file);  // the mapping keeps it
  if (data == MAP_FAILED) {
    return MemoryError("cannot make a file of ", FormatMemorySize(bytes), ": ",
                       std::strerror(error));
  }
  madvise(data, size, MADV_DONTDUMP);
  return static_cast<char*>(data);
}

absl::StatusOr<char*> SpillFolder::Allocate(int64_t bytes) {
  int64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used) {
      return MemoryError("[spill] the files in --spill-dir have ", FormatMemorySize(used),
                         " of their ", FormatMemorySize(limit_));
    }
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  absl::StatusOr<char*> slab = Map(bytes);
  if (!slab.ok()) used_.fetch_sub(bytes, std::memory_order_relaxed);
  return slab;
}

void SpillFolder::Free(char* slab, int64_t bytes) {
  munmap(slab, static_cast<size_t>(bytes));
  used_.fetch_sub(bytes, std::memory_order_relaxed);
}

void SpillFolder::Settle(char* slab, int64_t bytes) {
  madvise(slab, static_cast<size_t>(bytes), MADV_DONTNEED);
}

}  // namespace chx::server
