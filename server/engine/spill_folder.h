// A folder on a disk for arrays that sessions have no memory for.
#ifndef CHX_SERVER_ENGINE_SPILL_FOLDER_H_
#define CHX_SERVER_ENGINE_SPILL_FOLDER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace chx::server {

// Each slab is a file without a name, mapped into memory: kernels use it where it is, the kernel's
// page cache decides what of it is in memory, and nothing is left of it when the daemon has ended,
// however it ends. Its blocks are reserved, so that a full disk is an error of Allocate.
//
// Thread-safe; outlives all sessions.
class SpillFolder {
 public:
  // INVALID_ARGUMENT if files of this kind cannot be made there, or would be memory again.
  static absl::StatusOr<std::unique_ptr<SpillFolder>> Open(const std::string& path, int64_t limit);
  ~SpillFolder();

  // Zeros. A kMemory error when the limit or the disk is reached. `bytes`: whole pages.
  absl::StatusOr<char*> Allocate(int64_t bytes);
  void Free(char* slab, int64_t bytes);
  // The process does not need it in its memory for now.
  static void Settle(char* slab, int64_t bytes);

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }

 private:
  SpillFolder(int folder, int64_t limit) : folder_(folder), limit_(limit) {}
  absl::StatusOr<char*> Map(int64_t bytes) const;

  const int folder_;
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_SPILL_FOLDER_H_
