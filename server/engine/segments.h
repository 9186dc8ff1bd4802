// The slabs of a session that its client may map, by numbers.
#ifndef CHX_SERVER_ENGINE_SEGMENTS_H_
#define CHX_SERVER_ENGINE_SEGMENTS_H_

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/engine/backend.h"
#include "server/engine/shared_storage.h"
#include "server/engine/slab_sharing.h"

namespace chx::server {

// Thread-safe, and never waits for the session's work: a descriptor can be had while a kernel runs.
class Segments {
 public:
  // Of memory, as the client knows it.
  struct Address {
    uint32_t segment = 0;
    int64_t offset = 0;  // bytes
  };
  static constexpr size_t kMaxSegments = 1024;

  size_t size();
  void Add(const SharedSlab& slab);
  // The slab of a storage of several sessions, unless it is there: it stays as long as the session,
  // whose client may map it. A kMemory error if it cannot be mapped, or there are too many.
  absl::Status AddStorage(const Ref<SharedStorage>& storage);
  // Lets the device copy from and to the slab that this address is in without a copy on the way
  // (Device::Pin), until it is removed; not if it is so large that this is not worth its time.
  void Pin(const char* data, Device* device);
  // Forgets a slab by its address.
  SharedSlab Remove(const char* data);
  // Of what is inside of a slab.
  Address Find(const char* data);
  // A copy of the descriptor, for the caller to close; kNotFound if there is no such number.
  absl::StatusOr<int> Duplicate(uint32_t number, int64_t* bytes);

 private:
  struct Segment {
    uint32_t number;
    SharedSlab slab;
    Ref<SharedStorage> storage;  // null: the slab is a pool's
    Device* pinned_by = nullptr;
  };

  Mutex mutex_;
  // Numbers are never used again: a client's mapping of one stays true, or stale for good.
  uint32_t next_number_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<const char*, Segment> by_address_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_SEGMENTS_H_
