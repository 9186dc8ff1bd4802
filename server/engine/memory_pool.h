// A session's memory on one device.
#ifndef CHX_SERVER_ENGINE_MEMORY_POOL_H_
#define CHX_SERVER_ENGINE_MEMORY_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "server/engine/array.h"
#include "server/engine/devices.h"
#include "server/engine/large_blocks.h"
#include "server/engine/memory_budget.h"
#include "server/engine/segments.h"
#include "server/engine/slab_sharing.h"
#include "server/engine/spill_folder.h"
#include "server/observability/counters.h"

namespace chx::server {

// Where a pool enters what it does.
struct PoolBooks {
  MemoryAccount* account;              // the session's
  UseClock* clock;                     // its operators and buffers
  DeviceCounters* counters = nullptr;  // null: nothing is counted
};

// Hands out blocks of size classes from slabs of the device. Blocks never pass from one session to
// another, and slabs come from the device filled with zeros, so no session can see another's data.
// A freed block may be reused at once: all work of a session on a device is in one stream's order.
// Memory is private to the daemon until the client asks to map it; shared memory stays shared and
// is handed out on demand only, so that scratch and intermediate results never lie in it.
// Where the session's memory does not suffice, what was not used for longest moves away: from a
// device that has its own memory to the host's, or else to files (SpillFolder). It comes back at
// its next use: from files that the device can use as they are, when there is room again.
// Thread-safe. The session's stream must outlive the pool and every buffer must be gone first.
class MemoryPool {
 public:
  // All must outlive the pool. `segments`: where shared slabs are entered; null: none are made.
  MemoryPool(DeviceSlot* slot, Stream* stream, const PoolBooks& books,
             Segments* segments = nullptr);
  ~MemoryPool();

  // kMemory error if the session's limit or the device's memory does not suffice. 0 bytes is valid.
  absl::StatusOr<Ref<Buffer>> Allocate(int64_t bytes) { return AllocateIn(bytes, kPrivate); }
  absl::StatusOr<Ref<Buffer>> AllocateShared(int64_t bytes) { return AllocateIn(bytes, kShared); }
  // Bytes that the session may have here at most, while nobody else has any.
  int64_t limit() const;
  // Moves a buffer into shared memory, unless it is there. No work on it may be under way.
  absl::Status Share(const Ref<Buffer>& buffer);
  // Moves a buffer that is not exported out of shared memory, if it is there.
  absl::Status Unshare(const Ref<Buffer>& buffer);
  // Brings a spilled buffer back. One that the device can use where it is, only if that needs no
  // room that others have; for another one those make room that are not in use, and if that is not
  // enough there is a kMemory error, and it stays as it is.
  absl::Status Restore(const Ref<Buffer>& buffer);
  // Moves what is coldest to files until `bytes` are free; false: nothing could be moved.
  bool Spill(int64_t bytes);
  // Of the device's memory, for who allocates it without the pool: moves what is coldest, wherever
  // there is room, and gives it back. False: there was nothing.
  bool MakeRoom(int64_t bytes);
  // Elements of a buffer, wherever they are. The session's thread only.
  absl::Status CopyIn(Buffer* buffer, int64_t begin, absl::string_view bytes);
  absl::Status CopyOut(const Buffer& buffer, int64_t begin, int64_t bytes, char* out);
  // A buffer of memory that is not the pool's.
  absl::StatusOr<Ref<Buffer>> Attach(Ref<SharedLease> lease, const SharedStorage& storage);
  // Gives each buffer the other's memory: with its elements, for whoever has copied them.
  void Swap(Buffer* a, Buffer* b);
  // Whether this device's memory can be shared with the session's client.
  bool sharing() const { return sharing_ != nullptr; }
  // Gives what is not in use back to the device; false if that is nothing.
  bool Trim();
  // The same for another session that needs memory of this device, or, with null, of the host: does
  // not wait for who uses the pool.
  bool TryTrim(const Device* device);

 private:
  friend class Buffer;
  static constexpr int kNumClasses = 56;
  static constexpr int64_t kSmallSlab = int64_t{1} << 20;
  static constexpr int64_t kMaxSmall = int64_t{256} << 10;
  static constexpr int kBuffersAtOnce = 64;

  using Kind = Buffer::Kind;
  static constexpr Kind kPrivate = Buffer::kPrivate;
  static constexpr Kind kShared = Buffer::kShared;
  static constexpr Kind kInFile = Buffer::kInFile;
  static constexpr Kind kInHostMemory = Buffer::kInHostMemory;
  // What others move for.
  enum class Room : uint8_t {
    kForNew,   // a block on the device
    kForBack,  // the same, for what is away
    kInFiles,  // less under the session's limit, where host memory counts too
  };
  struct Blocks {
    explicit Blocks(bool divides) : large(divides) {}
    std::vector<char*> small[kNumClasses];
    LargeBlocks large;
    std::vector<Slab> small_slabs;
    int64_t small_in_use = 0;  // blocks
    char* bump = nullptr;
    char* bump_end = nullptr;
  };

  absl::StatusOr<Ref<Buffer>> AllocateIn(int64_t bytes, Kind kind);
  absl::Status Move(Buffer* buffer, Kind to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // To a block that is there; it is freed if the move fails or is stopped.
  absl::Status MoveTo(Buffer* buffer, char* data, int64_t bytes, Kind to)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<char*> AllocateBlock(int64_t* bytes, Kind kind)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<char*> FindBlock(int64_t* bytes, Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Free(Buffer* buffer);
  void FreeBlock(char* data, int64_t bytes, Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Buffer*> NewBuffer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<char*> AllocateSmall(int size_class, Kind kind)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<char*> AllocateLarge(int64_t* bytes, Kind kind, Room room)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For a large block, with room for others where blocks are divided.
  absl::StatusOr<Slab> NewLargeSlab(int64_t bytes, Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<char*> NewSlab(int64_t bytes, Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TryChargeSlab(int64_t bytes);
  // For a slab; what is not in use is given back if that is needed.
  absl::Status ChargeSlab(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReleaseSlab(int64_t bytes);

  // memory_pool_spill.cc
  bool SpillLocked(int64_t bytes, Room room) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What may move, the coldest first.
  std::vector<Buffer*> FindCold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t LargestAway() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MoveOut(Buffer* buffer, bool to_host_memory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CopyPiece(const Buffer& from, int64_t begin, int64_t bytes, char* to, Kind kind);
  absl::StatusOr<char*> NewHostBlock(int64_t bytes);
  absl::StatusOr<char*> NewFile(int64_t bytes);
  void FreeSpilled(char* data, int64_t bytes, Kind kind);
  // The coldest of the same size; null: there is none.
  Buffer* FindTwin(const Buffer& buffer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A buffer that is away and one that is not change places: that needs no room for a third.
  absl::Status Exchange(Buffer* buffer, Buffer* other) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Place(Buffer* buffer, char* data, int64_t bytes, Kind kind);
  // Whether kernels cannot use what is not in the device's memory.
  bool has_own_memory() const { return use_ == MemoryUse::kDeviceArrays; }

  absl::StatusOr<char*> SlabOfDevice(int64_t bytes, Kind kind);
  // Blocks in use, and slabs.
  void CountBlock(Kind kind, int64_t bytes) {
    if (counters_ == nullptr) return;
    (kind >= kInFile ? counters_->spilled_bytes : counters_->live_bytes).Add(bytes);
  }
  void CountHeld(int64_t bytes);
  // Gives unused slabs back to the device; false if there were none.
  bool TrimLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TrimSmall(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `last`: the session ends, and what its client still maps is the client's to keep.
  void ReturnSlab(char* data, int64_t bytes, Kind kind, bool last);

  DeviceSlot* const slot_;
  Stream* const stream_;
  MemoryAccount* const account_;
  UseClock* const clock_;
  Segments* const segments_;
  DeviceCounters* const counters_;  // its memory, written under the lock
  SlabSharing* const sharing_;      // null: not on this device, or not in this session
  const MemoryUse use_;             // of its slabs
  MemoryQuota* const quota_;        // of the session's tenant on this device; null: none
  Mutex mutex_;
  Blocks blocks_[2] ABSL_GUARDED_BY(mutex_);  // by Kind; shared ones are the host's
  Buffer* free_buffers_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::unique_ptr<Buffer[]>> all_buffers_ ABSL_GUARDED_BY(mutex_);
  int64_t record_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // charged for buffers and lists of blocks
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_MEMORY_POOL_H_
