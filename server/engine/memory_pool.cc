#include "server/engine/memory_pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/engine/memory_size.h"
#include "server/engine/stop_token.h"

namespace chx::server {
namespace {

constexpr int64_t kBlockAlignment = 64;
constexpr int kLinearClasses = 16;  // 64, 128, ..., 1024

// Above 1 KB there are four classes to each doubling.
int ClassOf(int64_t bytes) {
  if (bytes <= kLinearClasses * kBlockAlignment) {
    return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / kBlockAlignment);
  }
  const int log2 = 63 - absl::countl_zero(static_cast<uint64_t>(bytes - 1));
  const int quarter = static_cast<int>((bytes - 1) >> (log2 - 2)) & 3;
  return kLinearClasses + (log2 - 10) * 4 + quarter;
}

int64_t ClassBytes(int size_class) {
  if (size_class < kLinearClasses) return (size_class + 1) * kBlockAlignment;
  const int log2 = 10 + (size_class - kLinearClasses) / 4;
  const int quarter = (size_class - kLinearClasses) % 4;
  return (int64_t{1} << log2) + (int64_t{quarter} + 1) * (int64_t{1} << (log2 - 2));
}

// Of a device's own memory: for several large blocks of less than half of it.
constexpr int64_t kDividedSlab = int64_t{20} << 20;

int64_t RoundLarge(int64_t bytes) {
  const int64_t unit = bytes < (int64_t{8} << 20) ? int64_t{64} << 10 : int64_t{1} << 20;
  return (bytes + unit - 1) / unit * unit;
}

// CUDA's and other devices' own memory is bounded by the device.
bool IsHostMemory(const Device& device) {
  return dynamic_cast<const SlabSharing*>(&device) != nullptr;
}

}  // namespace

void Buffer::Destroy(const Buffer* buffer) {
  auto* mutable_buffer = const_cast<Buffer*>(buffer);
  mutable_buffer->pool_->Free(mutable_buffer);
}

bool Array::Overlaps(const Array& other) const {
  // By addresses: two buffers of one session may lie in one shared storage.
  if (buffer != other.buffer && (!buffer->lease() || !other.buffer->lease())) return false;
  const ByteRange a = BytesTouched(spec);
  const ByteRange b = BytesTouched(other.spec);
  const auto base = reinterpret_cast<intptr_t>(buffer->data());
  const auto other_base = reinterpret_cast<intptr_t>(other.buffer->data());
  return base + a.begin < other_base + b.end && other_base + b.begin < base + a.end;
}

MemoryPool::MemoryPool(DeviceSlot* slot, Stream* stream, const PoolBooks& books, Segments* segments)
    : slot_(slot),
      stream_(stream),
      account_(books.account),
      clock_(books.clock),
      segments_(segments),
      counters_(books.counters),
      sharing_(segments == nullptr ? nullptr : dynamic_cast<SlabSharing*>(slot->device.get())),
      use_(IsHostMemory(*slot->device) ? MemoryUse::kArrays : MemoryUse::kDeviceArrays),
      quota_(account_->group() == nullptr ? nullptr
                                          : account_->group()->device(slot->device->name())),
      blocks_{Blocks(has_own_memory()), Blocks(false)} {}

MemoryPool::~MemoryPool() {
  MutexLock lock(&mutex_);
  stream_->Synchronize().IgnoreError();
  for (Kind kind : {kPrivate, kShared}) {
    for (const Slab& slab : blocks_[kind].large.TakeUnused()) {
      ReturnSlab(slab.data, slab.bytes, kind, true);
    }
    for (const Slab& slab : blocks_[kind].small_slabs) {
      ReturnSlab(slab.data, slab.bytes, kind, true);
    }
  }
  account_->Release(record_bytes_, MemoryUse::kRecords);
}

absl::StatusOr<Ref<Buffer>> MemoryPool::AllocateIn(int64_t bytes, Kind kind) {
  MutexLock lock(&mutex_);
  CHX_ASSIGN_OR_RETURN(Buffer* const buffer, NewBuffer());
  absl::StatusOr<char*> data = AllocateBlock(&bytes, kind);
  if (!data.ok()) {
    buffer->next_free_ = free_buffers_;
    free_buffers_ = buffer;
    return data.status();
  }
  Place(buffer, *data, bytes, kind);
  buffer->exported_ = buffer->viewed_ = false;
  buffer->uses_ = 0;
  buffer->last_use_ = clock_->now;
  buffer->serial_ = ++clock_->buffers;
  return Ref<Buffer>(buffer);
}

absl::StatusOr<Ref<Buffer>> MemoryPool::Attach(Ref<SharedLease> lease,
                                               const SharedStorage& storage) {
  MutexLock lock(&mutex_);
  CHX_ASSIGN_OR_RETURN(Buffer* const buffer, NewBuffer());
  Place(buffer, storage.data(), storage.bytes(), kPrivate);
  buffer->exported_ = buffer->viewed_ = false;
  buffer->uses_ = 0;
  buffer->serial_ = ++clock_->buffers;
  buffer->lease_ = std::move(lease);
  return Ref<Buffer>(buffer);
}

void MemoryPool::Swap(Buffer* a, Buffer* b) {
  MutexLock lock(&mutex_);
  std::swap(a->data_, b->data_);
  std::swap(a->away_, b->away_);
  std::swap(a->bytes_, b->bytes_);
  std::swap(a->kind_, b->kind_);
  std::swap(a->exported_, b->exported_);
  std::swap(a->viewed_, b->viewed_);
  std::swap(a->lease_, b->lease_);
}

void MemoryPool::CountHeld(int64_t bytes) {
  slot_->used_bytes.fetch_add(bytes);
  if (counters_ != nullptr) counters_->held_bytes.Add(bytes);
}

absl::StatusOr<char*> MemoryPool::AllocateBlock(int64_t* bytes, Kind kind) {
  absl::StatusOr<char*> data = FindBlock(bytes, kind);
  if (data.ok()) CountBlock(kind, *bytes);
  return data;
}

absl::StatusOr<char*> MemoryPool::FindBlock(int64_t* bytes, Kind kind) {
  if (kind == kShared && sharing_ == nullptr) {
    return MemoryError("[share] the memory of this device or session is not shared");
  }
  if (*bytes <= kMaxSmall) {
    const int size_class = ClassOf(*bytes);
    *bytes = ClassBytes(size_class);
    return AllocateSmall(size_class, kind);
  }
  if (*bytes > account_->limit()) {
    return MemoryError("out of memory: the array needs ", FormatMemorySize(*bytes),
                       ", and the session's limit is ", FormatMemorySize(account_->limit()), "; ",
                       kHowToRaise);
  }
  *bytes = RoundLarge(*bytes);
  return AllocateLarge(bytes, kind, Room::kForNew);
}

absl::Status MemoryPool::Share(const Ref<Buffer>& buffer) {
  MutexLock lock(&mutex_);
  if (!buffer->shared()) CHX_RETURN_IF_ERROR(Move(buffer.get(), kShared));
  buffer->exported_ = buffer->viewed_ = true;
  return absl::OkStatus();
}

absl::Status MemoryPool::Unshare(const Ref<Buffer>& buffer) {
  MutexLock lock(&mutex_);
  if (!buffer->shared() || buffer->exported_) return absl::OkStatus();
  return Move(buffer.get(), kPrivate);
}

absl::Status MemoryPool::Move(Buffer* buffer, Kind to) {
  int64_t bytes = buffer->bytes_;
  CHX_ASSIGN_OR_RETURN(char* const data, AllocateBlock(&bytes, to));
  return MoveTo(buffer, data, bytes, to);
}

absl::StatusOr<Buffer*> MemoryPool::NewBuffer() {
  if (free_buffers_ == nullptr) {
    constexpr auto kBytes = static_cast<int64_t>(kBuffersAtOnce * sizeof(Buffer));
    if (!account_->TryCharge(kBytes, MemoryUse::kRecords) &&
        (!TrimLocked() || !account_->TryCharge(kBytes, MemoryUse::kRecords))) {
      return account_->Exhausted(kBytes);
    }
    record_bytes_ += kBytes;
    all_buffers_.push_back(std::make_unique<Buffer[]>(kBuffersAtOnce));
    for (int i = 0; i < kBuffersAtOnce; ++i) {
      Buffer& buffer = all_buffers_.back()[i];
      buffer.pool_ = this;
      buffer.next_free_ = free_buffers_;
      free_buffers_ = &buffer;
    }
  }
  Buffer* buffer = free_buffers_;
  free_buffers_ = buffer->next_free_;
  return buffer;
}

void MemoryPool::Free(Buffer* buffer) {
  Ref<SharedLease> lease;  // ends after the lock
  MutexLock lock(&mutex_);
  if (buffer->lease_) {
    lease = std::move(buffer->lease_);
    if (use_ == MemoryUse::kDeviceArrays) stream_->Synchronize().IgnoreError();
    lease->End(ChainerxError("the array was released"));  // whoever granted it has the lease, too
  } else {
    FreeBlock(buffer->block(), buffer->bytes_, buffer->kind_);
  }
  buffer->data_ = buffer->away_ = nullptr;
  buffer->next_free_ = free_buffers_;
  free_buffers_ = buffer;
}

void MemoryPool::FreeBlock(char* data, int64_t bytes, Kind kind) {
  CountBlock(kind, -bytes);
  if (kind >= kInFile) {
    FreeSpilled(data, bytes, kind);
  } else if (bytes <= kMaxSmall) {
    std::vector<char*>& free = blocks_[kind].small[ClassOf(bytes)];
    if (free.size() == free.capacity()) {
      // Cannot be refused, and is an eighth of the blocks at most.
      const size_t room = free.empty() ? 8 : 2 * free.size();
      const auto more = static_cast<int64_t>((room - free.size()) * sizeof(char*));
      account_->Charge(more, MemoryUse::kRecords);
      record_bytes_ += more;
      free.reserve(room);
    }
    free.push_back(data);
    --blocks_[kind].small_in_use;
  } else {
    blocks_[kind].large.Give(data, bytes);
  }
}

absl::StatusOr<char*> MemoryPool::AllocateSmall(int size_class, Kind kind) {
  Blocks& blocks = blocks_[kind];
  std::vector<char*>& free = blocks.small[size_class];
  if (!free.empty()) {
    char* data = free.back();
    free.pop_back();
    ++blocks.small_in_use;
    return data;
  }
  const int64_t bytes = ClassBytes(size_class);
  if (blocks.bump_end - blocks.bump < bytes) {
    absl::StatusOr<char*> slab = NewSlab(kSmallSlab, kind);
    while (!slab.ok() && SpillLocked(kSmallSlab, Room::kForNew)) slab = NewSlab(kSmallSlab, kind);
    if (!slab.ok()) return slab;
    blocks.small_slabs.push_back({*slab, kSmallSlab});
    blocks.bump = *slab;
    blocks.bump_end = *slab + kSmallSlab;
  }
  char* data = blocks.bump;
  blocks.bump += bytes;
  ++blocks.small_in_use;
  return data;
}

absl::StatusOr<char*> MemoryPool::AllocateLarge(int64_t* bytes, Kind kind, Room room) {
  for (;;) {
    if (char* const data = blocks_[kind].large.Take(bytes)) return data;
    const absl::StatusOr<Slab> slab = NewLargeSlab(*bytes, kind);
    if (slab.ok()) {
      blocks_[kind].large.Add(*slab);
    } else if (!SpillLocked(*bytes, room)) {
      return slab.status();
    }
  }
}

absl::StatusOr<Slab> MemoryPool::NewLargeSlab(int64_t bytes, Kind kind) {
  // Not where it would be much of what the session has.
  if (kind == kPrivate && has_own_memory() && bytes < kDividedSlab / 2 &&
      account_->limit() / 16 >= kDividedSlab) {
    const absl::StatusOr<char*> data = NewSlab(kDividedSlab, kind);
    if (data.ok()) return Slab{*data, kDividedSlab};
  }
  CHX_ASSIGN_OR_RETURN(char* const data, NewSlab(bytes, kind));
  return Slab{data, bytes};
}

absl::StatusOr<char*> MemoryPool::NewSlab(int64_t bytes, Kind kind) {
  CHX_RETURN_IF_ERROR(ChargeSlab(bytes));
  absl::StatusOr<char*> slab = SlabOfDevice(bytes, kind);
  if (!slab.ok() && TrimLocked()) slab = SlabOfDevice(bytes, kind);
  if (!slab.ok() && has_own_memory() && slot_->device->Relieve()) slab = SlabOfDevice(bytes, kind);
  if (!slab.ok()) {
    ReleaseSlab(bytes);
    return slab.status();
  }
  CountHeld(bytes);
  return *slab;
}

int64_t MemoryPool::limit() const {
  const int64_t limit = use_ == MemoryUse::kArrays ? account_->host_limit() : account_->limit();
  return quota_ == nullptr ? limit : std::min(limit, quota_->limit());
}

bool MemoryPool::TryChargeSlab(int64_t bytes) {
  if (!account_->TryCharge(bytes, use_)) return false;
  if (quota_ == nullptr || quota_->TryCharge(bytes)) return true;
  account_->Release(bytes, use_);
  return false;
}

absl::Status MemoryPool::ChargeSlab(int64_t bytes) {
  if (TryChargeSlab(bytes) || (TrimLocked() && TryChargeSlab(bytes)) ||
      (account_->Relieve(bytes) && TryChargeSlab(bytes))) {
    return absl::OkStatus();
  }
  if (quota_ == nullptr || quota_->Fits(bytes)) return account_->Exhausted(bytes);
  return account_->group()->Exhausted(slot_->device->name(), bytes);
}

void MemoryPool::ReleaseSlab(int64_t bytes) {
  if (quota_ != nullptr) quota_->Release(bytes);
  account_->Release(bytes, use_);
}

absl::StatusOr<char*> MemoryPool::SlabOfDevice(int64_t bytes, Kind kind) {
  if (kind == kPrivate) {
    CHX_ASSIGN_OR_RETURN(void* const slab, slot_->device->AllocateSlab(static_cast<size_t>(bytes)));
    return static_cast<char*>(slab);
  }
  if (segments_->size() >= Segments::kMaxSegments) {
    return MemoryError("[share] the session has ", Segments::kMaxSegments,
                       " segments of shared memory, which is the limit");
  }
  CHX_ASSIGN_OR_RETURN(const SharedSlab slab, sharing_->AllocateShared(static_cast<size_t>(bytes)));
  segments_->Add(slab);
  return slab.data;
}

bool MemoryPool::Trim() {
  MutexLock lock(&mutex_);
  return TrimLocked();
}

bool MemoryPool::TryTrim(const Device* device) {
  if (device == nullptr ? has_own_memory() : device != slot_->device.get()) return false;
  if (!mutex_.TryLock()) return false;
  const bool any = TrimLocked();
  mutex_.Unlock();
  return any;
}

bool MemoryPool::TrimLocked() {
  stream_->Synchronize().IgnoreError();
  if (StopRequested()) return false;  // it may not have waited
  bool any = false;
  for (Kind kind : {kPrivate, kShared}) {
    for (const Slab& slab : blocks_[kind].large.TakeUnused()) {
      ReturnSlab(slab.data, slab.bytes, kind, false);
      any = true;
    }
    any |= TrimSmall(kind);
  }
  if (any && counters_ != nullptr) counters_->trims.Add();
  return any;
}

// Small blocks of many slabs are mixed in the lists: they go when none is in use.
bool MemoryPool::TrimSmall(Kind kind) {
  Blocks& blocks = blocks_[kind];
  if (blocks.small_in_use > 0 || blocks.small_slabs.empty()) return false;
  for (std::vector<char*>& free : blocks.small) free.clear();
  for (const Slab& slab : blocks.small_slabs) ReturnSlab(slab.data, slab.bytes, kind, false);
  blocks.small_slabs.clear();
  blocks.bump = blocks.bump_end = nullptr;
  return true;
}

void MemoryPool::ReturnSlab(char* data, int64_t bytes, Kind kind, bool last) {
  if (kind == kPrivate) {
    slot_->device->FreeSlab(data, static_cast<size_t>(bytes));
  } else {
    // While the session lives, a client that still maps it must not hold more than its limit.
    sharing_->FreeShared(segments_->Remove(data), !last);
  }
  CountHeld(-bytes);
  ReleaseSlab(bytes);
}

}  // namespace chx::server
