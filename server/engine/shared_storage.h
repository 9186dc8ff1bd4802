// Memory that arrays of several sessions lie in.
#ifndef CHX_SERVER_ENGINE_SHARED_STORAGE_H_
#define CHX_SERVER_ENGINE_SHARED_STORAGE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "server/engine/devices.h"
#include "server/engine/memory_budget.h"
#include "server/engine/slab_sharing.h"
#include "server/engine/stop_token.h"

namespace chx::server {

// A slab of its own, outside of all sessions' pools. Charged once, to the session that made it and
// to its tenant's part of the device; the charge ends with the memory, also if that session has
// ended before.
//
// In host memory it has a lock, held for the length of one command that uses it: many commands read
// or one writes. On other devices commands only queue work, which no lock covers: there nobody
// writes to it, as it is copied before a write. Thread-safe; the devices must outlive it.
class SharedStorage : public RefCounted<SharedStorage> {
 public:
  static absl::StatusOr<Ref<SharedStorage>> New(DeviceSlot* slot, int64_t bytes,
                                                const MemoryAccountPtr& account);
  static void Destroy(const SharedStorage* storage) { delete storage; }

  char* data() const { return slab_.data; }
  int64_t bytes() const { return bytes_; }
  bool on_host() const { return sharing_ != nullptr; }
  // Stands for the memory, which its holders can map for reading only; fd -1: they cannot.
  SharedSlab mappable() const;

  // Waits. False: the calling thread's work has been told to stop meanwhile.
  bool Lock(bool exclusive);
  void Unlock(bool exclusive);

 private:
  SharedStorage(DeviceSlot* slot, int64_t bytes, MemoryCharge charge, MemoryGroupPtr group);
  ~SharedStorage();
  friend class RefCounted<SharedStorage>;
  absl::Status Allocate();
  bool MustWait(bool exclusive) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  DeviceSlot* const slot_;
  SlabSharing* const sharing_;  // null: the device's memory is not the host's
  const int64_t bytes_;
  const MemoryCharge charge_;
  const MemoryGroupPtr group_;  // whose quota on the device is charged, too; null: none
  SharedSlab slab_;
  bool sealed_ = false;  // for reading only

  Mutex mutex_;
  CondVar changed_;
  int readers_ ABSL_GUARDED_BY(mutex_) = 0;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  int waiting_writers_ ABSL_GUARDED_BY(mutex_) = 0;  // new readers let them go first
  // Who waited when a writer was done goes before the next one: a loop that writes starves nobody.
  int readers_first_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writer_ ABSL_GUARDED_BY(mutex_) = false;
};

enum class SharedRights : uint8_t {
  kRead,   // writes are refused
  kWrite,  // writes are seen by all
  kCopy,   // the first write gives the session a copy of its own
};

// What one session may do with a storage, and until when. Whoever has granted it may end it at any
// time. Thread-safe.
class SharedLease : public RefCounted<SharedLease> {
 public:
  struct Terms {
    SharedRights rights = SharedRights::kRead;
    bool owner = false;  // of the session that made the storage: it may share it further
    absl::Time expires = absl::InfiniteFuture();
    MemoryCharge charge;                            // of the lease itself
    std::shared_ptr<std::atomic<int64_t>> holding;  // bytes that the session uses; may be null
  };
  SharedLease(Ref<SharedStorage> storage, Terms terms);
  static void Destroy(const SharedLease* lease) { delete lease; }

  SharedRights rights() const { return terms_.rights; }
  bool owner() const { return terms_.owner; }
  // The storage, for as long as Unpin has not been called; else why there is none any more.
  absl::StatusOr<Ref<SharedStorage>> Pin();
  void Unpin();
  // Pins are refused from now on, for that reason, and the memory is let go.
  void End(absl::Status why);

 private:
  ~SharedLease();
  friend class RefCounted<SharedLease>;
  void DropIfUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Terms terms_;
  const int64_t bytes_;
  Mutex mutex_;
  Ref<SharedStorage> storage_ ABSL_GUARDED_BY(mutex_);
  int pins_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
};

// The storages that one command works on: locked from Begin until the object is gone. All at once
// and in the order of their addresses, so that commands never wait for each other in a circle.
// Meanwhile the thread gives its turn to compute to nobody, and what writes is not stopped.
class SharedUse {
 public:
  SharedUse() = default;
  ~SharedUse() { End(); }
  SharedUse(const SharedUse&) = delete;
  SharedUse& operator=(const SharedUse&) = delete;

  // Before Begin.
  void Add(const Ref<SharedLease>& lease, bool writes);
  // An error of that operator if one of the leases has ended, or the work is to stop. `*current`
  // is this object as long as it is there.
  absl::Status Begin(absl::string_view op, SharedUse** current = nullptr);
  bool Holds(const SharedLease* lease, bool writes) const;
  // After Begin, of the first lease.
  const Ref<SharedStorage>& first() const { return held_[0].storage; }

 private:
  struct Held {
    Ref<SharedLease> lease;
    bool writes = false;
    Ref<SharedStorage> storage;  // once it is pinned
    bool locked = false;         // by this entry, for all of the same storage
  };
  void End();

  absl::InlinedVector<Held, 2> held_;
  bool begun_ = false;
  absl::optional<StopScope> unstoppable_;
  SharedUse** current_ = nullptr;
};

// Whether the calling thread has begun a SharedUse.
bool UsesSharedStorage();

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_SHARED_STORAGE_H_
