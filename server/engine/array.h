// Arrays on a device: a spec and a counted reference to the memory it describes.
#ifndef CHX_SERVER_ENGINE_ARRAY_H_
#define CHX_SERVER_ENGINE_ARRAY_H_

#include <cstdint>

#include "base/ref.h"
#include "ops/array_spec.h"
#include "server/engine/shared_storage.h"

namespace chx::server {

class MemoryPool;

// Counts the operators that a session has run, so that what was used last is known, and numbers its
// buffers.
struct UseClock {
  uint64_t now = 0;
  uint64_t buffers = 0;  // that have been made
};

// A block of a session's memory on one device, shared by the views of one storage. Goes back to its
// pool with the last reference.
class Buffer : public RefCounted<Buffer> {
 public:
  // For kernels and copies of the device; null while it is away.
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Greater than that of all buffers of the session that were made before.
  uint64_t serial() const { return serial_; }
  // Whether the client can map it, and so read and write it at any time.
  bool shared() const { return kind_ == kShared; }
  // Whether it has moved to make room: to a file, or to the host's memory. A device that has the
  // host's memory uses it there, only slower. For others it is away: Executor::Use brings it back.
  bool spilled() const { return kind_ >= kInFile; }
  // Where the elements are while it is away; null: data() has them.
  char* away() const { return away_; }
  // At the time `now` of the session's UseClock. What is in use now stays where it is.
  void Touch(uint64_t now) { last_use_ = now; }
  // Whether it has to stay where it is: the client has been told where that is for more than an
  // upload.
  bool exported() const { return exported_; }
  void set_exported() { exported_ = true; }
  // It stays where it is, whoever needs room: as many times as it is to be let go again.
  void Hold() { ++holds_; }
  void LetGo() { --holds_; }
  // Whether the client may have been given the memory to see, for good.
  bool viewed() const { return viewed_; }
  // Set: the memory is that of several sessions, and not the pool's. See Executor::Hold.
  const Ref<SharedLease>& lease() const { return lease_; }
  // Counts a use by a kernel; whether there have been many.
  bool IsUsedOften() { return ++uses_ >= kManyUses; }
  static void Destroy(const Buffer* buffer);

 private:
  friend class MemoryPool;
  // Not to where it is already. An upload stays until its first use: the client may still write.
  bool MayMove() const {
    if (lease_ || holds_ > 0) return false;
    return kind_ == kPrivate || (kind_ == kShared && !exported_ && uses_ > 0);
  }
  // Small pages make a pass over the memory a third slower; to move it costs about three passes.
  static constexpr int kManyUses = 8;
  enum Kind : uint8_t { kPrivate, kShared, kInFile, kInHostMemory };
  // Its memory, wherever that is; null: it is free.
  char* block() const { return away_ != nullptr ? away_ : data_; }

  char* data_ = nullptr;
  char* away_ = nullptr;
  int64_t bytes_ = 0;  // as rounded up by the pool
  Kind kind_ = kPrivate;
  bool exported_ = false;
  bool viewed_ = false;
  int uses_ = 0;
  int holds_ = 0;
  uint64_t last_use_ = 0;
  uint64_t serial_ = 0;
  Ref<SharedLease> lease_;
  MemoryPool* pool_ = nullptr;
  Buffer* next_free_ = nullptr;
};

struct Array {
  Ref<Buffer> buffer;
  ArraySpec spec;

  bool valid() const { return static_cast<bool>(buffer); }
  char* data() const { return buffer->data() + spec.offset; }
  // Whether a write to one may be seen through the other.
  bool Overlaps(const Array& other) const;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_ARRAY_H_
