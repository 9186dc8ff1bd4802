#include "server/engine/shared_storage.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ops/error.h"
#include "server/engine/memory_group.h"
#include "server/engine/stop_token.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace chx::server {
namespace {

constexpr int64_t kPage = 4096;
// How often a wait looks whether it is to stop.
constexpr std::chrono::milliseconds kLook(20);

thread_local int uses = 0;

// Each takes a descriptor, which connections and sessions' own segments need, too.
std::atomic<int> mappable_storages{0};
int MaxMappable() {
  static const int max = [] {
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 16) / 8);
  }();
  return max;
}

// Null: there is none.
MemoryQuota* QuotaOf(const MemoryGroup* group, const DeviceSlot& slot) {
  return group == nullptr ? nullptr : group->device(slot.device->name());
}

}  // namespace

bool UsesSharedStorage() { return uses != 0; }

SharedStorage::SharedStorage(DeviceSlot* slot, int64_t bytes, MemoryCharge charge,
                             MemoryGroupPtr group)
    : slot_(slot),
      sharing_(dynamic_cast<SlabSharing*>(slot->device.get())),
      bytes_(bytes),
      charge_(std::move(charge)),
      group_(std::move(group)) {}

absl::StatusOr<Ref<SharedStorage>> SharedStorage::New(DeviceSlot* slot, int64_t bytes,
                                                      const MemoryAccountPtr& account) {
  bytes = (std::max<int64_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  const bool host = dynamic_cast<SlabSharing*>(slot->device.get()) != nullptr;
  CHX_ASSIGN_OR_RETURN(
      MemoryCharge charge,
      MemoryCharge::Of(account, bytes, host ? MemoryUse::kArrays : MemoryUse::kDeviceArrays));
  MemoryQuota* const quota = QuotaOf(account->group().get(), *slot);
  if (quota != nullptr && !quota->TryCharge(bytes)) {
    return account->group()->Exhausted(slot->device->name(), bytes);
  }
  Ref<SharedStorage> storage(new SharedStorage(slot, bytes, std::move(charge),
                                               quota == nullptr ? nullptr : account->group()));
  CHX_RETURN_IF_ERROR(storage->Allocate());
  return storage;
}

absl::Status SharedStorage::Allocate() {
  const auto size = static_cast<size_t>(bytes_);
  if (sharing_ != nullptr && ++mappable_storages <= MaxMappable()) {
    const absl::StatusOr<SharedSlab> slab = sharing_->AllocateShared(size);
    if (slab.ok()) {
      slab_ = *slab;
      // The daemon has mapped it for writing. From here on nobody can any more, by whatever way he
      // opens the file again.
      sealed_ = fcntl(slab_.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0;
    }
  }
  if (slab_.fd < 0 && sharing_ != nullptr) --mappable_storages;
  if (slab_.data == nullptr) {
    CHX_ASSIGN_OR_RETURN(void* const memory, slot_->device->AllocateSlab(size));
    slab_.data = static_cast<char*>(memory);
    slab_.bytes = size;
  }
  slot_->used_bytes.fetch_add(bytes_);
  return absl::OkStatus();
}

SharedStorage::~SharedStorage() {
  if (group_ != nullptr) QuotaOf(group_.get(), *slot_)->Release(bytes_);
  if (slab_.data == nullptr) return;
  if (slab_.fd >= 0) {
    sharing_->FreeShared(slab_, false);
    --mappable_storages;
  } else {
    slot_->device->FreeSlab(slab_.data, slab_.bytes);
  }
  slot_->used_bytes.fetch_sub(bytes_);
}

SharedSlab SharedStorage::mappable() const {
  SharedSlab slab = slab_;
  if (!sealed_) slab.fd = -1;
  return slab;
}

bool SharedStorage::Lock(bool exclusive) {
  const StopToken* const stop = CurrentStopToken();
  MutexLock lock(&mutex_);
  if (exclusive) ++waiting_writers_;
  ++waiting_;
  bool stopped = false;
  bool waited = false;
  while (!stopped && MustWait(exclusive)) {
    waited = true;
    changed_.wait_for(mutex_, kLook);
    stopped = stop != nullptr && stop->Notice();
  }
  --waiting_;
  if (exclusive) --waiting_writers_;
  if (!exclusive && waited && readers_first_ > 0) --readers_first_;
  if (stopped) {
    changed_.notify_all();  // whoever has let this one go first
    return false;
  }
  if (exclusive) {
    writer_ = true;
  } else {
    ++readers_;
  }
  return true;
}

bool SharedStorage::MustWait(bool exclusive) const {
  if (writer_) return true;
  if (exclusive) return readers_ > 0 || readers_first_ > 0;
  return waiting_writers_ > 0 && readers_first_ == 0;
}

void SharedStorage::Unlock(bool exclusive) {
  MutexLock lock(&mutex_);
  if (exclusive) {
    writer_ = false;
    readers_first_ = waiting_ - waiting_writers_;
  } else {
    --readers_;
  }
  if (waiting_ > 0) changed_.notify_all();
}

SharedLease::SharedLease(Ref<SharedStorage> storage, Terms terms)
    : terms_(std::move(terms)), bytes_(storage->bytes()), storage_(std::move(storage)) {
  if (terms_.holding != nullptr) terms_.holding->fetch_add(bytes_, std::memory_order_relaxed);
}

SharedLease::~SharedLease() {
  if (storage_ && terms_.holding != nullptr)
    terms_.holding->fetch_sub(bytes_, std::memory_order_relaxed);
}

absl::StatusOr<Ref<SharedStorage>> SharedLease::Pin() {
  const bool expires = terms_.expires != absl::InfiniteFuture();
  if (expires && absl::Now() >= terms_.expires) {
    End(MakeError(ErrorKind::kContext, "the capability has expired"));
  }
  MutexLock lock(&mutex_);
  if (!ended_.ok()) return ended_;
  ++pins_;
  return storage_;
}

void SharedLease::Unpin() {
  MutexLock lock(&mutex_);
  --pins_;
  DropIfUnused();
}

void SharedLease::End(absl::Status why) {
  MutexLock lock(&mutex_);
  if (ended_.ok()) ended_ = std::move(why);
  DropIfUnused();
}

// Work that a device has queued is over when the session lets go of its buffer.
void SharedLease::DropIfUnused() {
  if (pins_ != 0 || ended_.ok() || !storage_ || !storage_->on_host()) return;
  storage_ = nullptr;
  if (terms_.holding != nullptr) terms_.holding->fetch_sub(bytes_, std::memory_order_relaxed);
}

void SharedUse::Add(const Ref<SharedLease>& lease, bool writes) {
  for (Held& held : held_) {
    if (held.lease == lease) {
      held.writes |= writes;
      return;
    }
  }
  Held held;
  held.lease = lease;
  held.writes = writes;
  held_.push_back(std::move(held));
}

absl::Status SharedUse::Begin(absl::string_view op, SharedUse** current) {
  CHX_RETURN_IF_ERROR(CheckNotStopped(op));  // here others have their turn
  begun_ = true;
  ++uses;
  for (Held& held : held_) {
    absl::StatusOr<Ref<SharedStorage>> storage = held.lease->Pin();
    if (!storage.ok()) {
      const absl::Status why = MakeError(KindOf(storage.status()),
                                         absl::StrCat("[", op, "] ", storage.status().message()));
      End();
      return why;
    }
    held.storage = *std::move(storage);
  }
  if (held_.size() > 1) {
    // Of entries of one storage, one that writes comes first and locks for all.
    std::sort(held_.begin(), held_.end(), [](const Held& a, const Held& b) {
      return std::make_pair(a.storage.get(), !a.writes) <
             std::make_pair(b.storage.get(), !b.writes);
    });
  }
  const SharedStorage* last = nullptr;
  for (Held& held : held_) {
    if (held.storage.get() == last) continue;
    last = held.storage.get();
    if (!held.storage->Lock(held.writes)) {
      End();
      return CheckNotStopped(op);
    }
    held.locked = true;
    // What has been begun is finished: nobody may see half of it.
    if (held.writes && !unstoppable_.has_value()) unstoppable_.emplace(nullptr);
  }
  current_ = current;
  if (current_ != nullptr) *current_ = this;
  return absl::OkStatus();
}

bool SharedUse::Holds(const SharedLease* lease, bool writes) const {
  for (const Held& held : held_) {
    if (held.lease.get() == lease) return held.writes || !writes;
  }
  return false;
}

void SharedUse::End() {
  unstoppable_.reset();
  for (Held& held : held_) {
    if (held.locked) held.storage->Unlock(held.writes);
    if (!held.storage) continue;
    held.storage = nullptr;
    held.lease->Unpin();
  }
  held_.clear();
  if (current_ != nullptr) *current_ = nullptr;
  current_ = nullptr;
  if (std::exchange(begun_, false)) --uses;
}

}  // namespace chx::server
