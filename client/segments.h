// The daemon's memory as this process maps it.
#ifndef CHX_CLIENT_SEGMENTS_H_
#define CHX_CLIENT_SEGMENTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "base/mutex.h"

namespace chx {

// One segment; unmapped with its last user.
class Mapping {
 public:
  Mapping(char* data, size_t bytes, bool writable = true)
      : data_(data), bytes_(bytes), writable_(writable) {}
  ~Mapping();
  Mapping(const Mapping&) = delete;
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // False: other sessions have the memory, too.
  bool writable() const { return writable_; }

 private:
  char* const data_;
  const size_t bytes_;
  const bool writable_;
};
using MappingPtr = std::shared_ptr<Mapping>;

// Of one session. Thread-safe.
class SegmentMap {
 public:
  // Null unless `address` is that of a Unix socket. `daemon`: whose process the session is with; no
  // other's is asked for its memory.
  static std::unique_ptr<SegmentMap> For(const std::string& address, std::string session_id,
                                         const absl::optional<uid_t>& daemon);

  // False once the daemon's second socket could not be reached: arrays are copied then.
  bool usable() const { return usable_.load(std::memory_order_relaxed); }
  // Maps a segment by the number that the daemon gave it, unless it is mapped already. `populate`:
  // all of it will be used, soon.
  absl::StatusOr<MappingPtr> Get(uint32_t number, bool populate);
  // The daemon that they were of has ended: there are no others.
  void Retire();
  // Unmaps what nobody uses: a mapping keeps memory that the daemon has freed at a session's end.
  void Clear();

 private:
  SegmentMap(std::string path, std::string session_id, uid_t daemon)
      : path_(std::move(path)), session_id_(std::move(session_id)), daemon_(daemon) {}
  absl::StatusOr<MappingPtr> Map(uint32_t number, bool populate);

  const std::string path_;
  const std::string session_id_;
  const uid_t daemon_;
  std::atomic<bool> usable_{true};
  std::atomic<bool> retired_{false};
  Mutex mutex_;
  // Kept for the next use; those that nobody uses are dropped when there are many.
  absl::flat_hash_map<uint32_t, MappingPtr> mappings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx

#endif  // CHX_CLIENT_SEGMENTS_H_
