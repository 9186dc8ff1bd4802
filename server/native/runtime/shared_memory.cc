#include "server/native/runtime/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "ops/error.h"

namespace chx::server::native {

absl::StatusOr<SharedSlab> NewSharedSlab(size_t bytes) {
  SharedSlab slab;
  slab.bytes = bytes;
  slab.fd = memfd_create("chxd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (slab.fd < 0) return MemoryError("[share] the daemon has no file descriptor left");
  void* mapped = MAP_FAILED;
  if (ftruncate(slab.fd, static_cast<off_t>(bytes)) == 0 &&
      fcntl(slab.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, slab.fd, 0);
  }
  if (mapped == MAP_FAILED) {
    close(slab.fd);
    return MemoryError("[share] cannot map ", bytes, " bytes of shared memory");
  }
  slab.data = static_cast<char*>(mapped);
  return slab;
}

void DropSharedSlab(const SharedSlab& slab, bool discard) {
  if (discard) {
    fallocate(slab.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
              static_cast<off_t>(slab.bytes));
  }
  munmap(slab.data, slab.bytes);
  close(slab.fd);
}

size_t MaxSharedSlabs() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  // The soft limit is low for the sake of programs that call select().
  const rlim_t soft = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = soft;
  return std::min<size_t>(limit.rlim_cur, 1 << 17) / 2;
}

}  // namespace chx::server::native
