#include "server/engine/memory_pool.h"

#include <cstring>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int kLinearClasses = 16;  // 64, 128, ..., 1024

// Above 1 KB there are four classes to each doubling.
int ClassOf(int64_t bytes) {
  if (bytes <= kLinearClasses * kAlignment) {
    return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / kAlignment);
  }
  const int log2 = 63 - absl::countl_zero(static_cast<uint64_t>(bytes - 1));
  const int quarter = static_cast<int>((bytes - 1) >> (log2 - 2)) & 3;
  return kLinearClasses + (log2 - 10) * 4 + quarter;
}

int64_t ClassBytes(int size_class) {
  if (size_class < kLinearClasses) return (size_class + 1) * kAlignment;
  const int log2 = 10 + (size_class - kLinearClasses) / 4;
  const int quarter = (size_class - kLinearClasses) % 4;
  return (int64_t{1} << log2) + (int64_t{quarter} + 1) * (int64_t{1} << (log2 - 2));
}

int64_t RoundLarge(int64_t bytes) {
  const int64_t unit = bytes < (int64_t{8} << 20) ? int64_t{64} << 10 : int64_t{1} << 20;
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void Buffer::Destroy(const Buffer* buffer) {
  auto* mutable_buffer = const_cast<Buffer*>(buffer);
  mutable_buffer->pool_->Free(mutable_buffer);
}

bool Array::Overlaps(const Array& other) const {
  if (buffer != other.buffer) return false;
  const ByteRange a = BytesTouched(spec);
  const ByteRange b = BytesTouched(other.spec);
  return a.begin < b.end && b.begin < a.end;
}

MemoryPool::MemoryPool(DeviceSlot* slot, Stream* stream, MemoryAccount* account, Segments* segments)
    : slot_(slot),
      stream_(stream),
      account_(account),
      segments_(segments),
      sharing_(segments == nullptr ? nullptr : dynamic_cast<SlabSharing*>(slot->device.get())) {}

MemoryPool::~MemoryPool() {
  MutexLock lock(&mutex_);
  stream_->Synchronize().IgnoreError();
  for (Kind kind : {kPrivate, kShared}) {
    for (const auto& [bytes, data] : blocks_[kind].large) ReturnSlab(data, bytes, kind, true);
    for (const Slab& slab : blocks_[kind].small_slabs) {
      ReturnSlab(slab.data, slab.bytes, kind, true);
    }
  }
  for (Buffer* buffer : all_buffers_) delete buffer;
}

absl::StatusOr<Ref<Buffer>> MemoryPool::AllocateIn(int64_t bytes, Kind kind) {
  MutexLock lock(&mutex_);
  CHX_ASSIGN_OR_RETURN(char* const data, AllocateBlock(&bytes, kind));
  Buffer* buffer = NewBuffer();
  buffer->data_ = data;
  buffer->bytes_ = bytes;
  buffer->shared_ = kind == kShared;
  buffer->exported_ = false;
  buffer->uses_ = 0;
  return Ref<Buffer>(buffer);
}

absl::StatusOr<char*> MemoryPool::AllocateBlock(int64_t* bytes, Kind kind) {
  if (*bytes <= kMaxSmall) {
    const int size_class = ClassOf(*bytes);
    *bytes = ClassBytes(size_class);
    return AllocateSmall(size_class, kind);
  }
  if (*bytes > account_->limit()) {
    return MemoryError("out of memory: the array needs ", *bytes,
                       " bytes and the session's limit is ", account_->limit());
  }
  *bytes = RoundLarge(*bytes);
  return AllocateLarge(bytes, kind);
}

absl::Status MemoryPool::Share(const Ref<Buffer>& buffer) {
  MutexLock lock(&mutex_);
  if (!buffer->shared_) CHX_RETURN_IF_ERROR(Move(buffer.get(), kShared));
  buffer->exported_ = true;
  return absl::OkStatus();
}

absl::Status MemoryPool::Unshare(const Ref<Buffer>& buffer) {
  MutexLock lock(&mutex_);
  if (!buffer->shared_ || buffer->exported_) return absl::OkStatus();
  return Move(buffer.get(), kPrivate);
}

absl::Status MemoryPool::Move(Buffer* buffer, Kind to) {
  int64_t bytes = buffer->bytes_;
  CHX_ASSIGN_OR_RETURN(char* const data, AllocateBlock(&bytes, to));
  std::memcpy(data, buffer->data_, static_cast<size_t>(buffer->bytes_));
  FreeBlock(buffer->data_, buffer->bytes_, to == kShared ? kPrivate : kShared);
  buffer->data_ = data;
  buffer->bytes_ = bytes;
  buffer->shared_ = to == kShared;
  buffer->uses_ = 0;
  return absl::OkStatus();
}

Buffer* MemoryPool::NewBuffer() {
  if (free_buffers_ == nullptr) {
    auto* buffer = new Buffer;
    buffer->pool_ = this;
    all_buffers_.push_back(buffer);
    return buffer;
  }
  Buffer* buffer = free_buffers_;
  free_buffers_ = buffer->next_free_;
  return buffer;
}

void MemoryPool::Free(Buffer* buffer) {
  MutexLock lock(&mutex_);
  FreeBlock(buffer->data_, buffer->bytes_, buffer->shared_ ? kShared : kPrivate);
  buffer->next_free_ = free_buffers_;
  free_buffers_ = buffer;
}

void MemoryPool::FreeBlock(char* data, int64_t bytes, Kind kind) {
  if (bytes <= kMaxSmall) {
    blocks_[kind].small[ClassOf(bytes)].push_back(data);
  } else {
    // In front of its equals, so that the block whose memory is still in the caches goes out next.
    std::multimap<int64_t, char*>& large = blocks_[kind].large;
    large.emplace_hint(large.lower_bound(bytes), bytes, data);
  }
}

absl::StatusOr<char*> MemoryPool::AllocateSmall(int size_class, Kind kind) {
  Blocks& blocks = blocks_[kind];
  std::vector<char*>& free = blocks.small[size_class];
  if (!free.empty()) {
    char* data = free.back();
    free.pop_back();
    return data;
  }
  const int64_t bytes = ClassBytes(size_class);
  if (blocks.bump_end - blocks.bump < bytes) {
    CHX_ASSIGN_OR_RETURN(char* slab, NewSlab(kSmallSlab, kind));
    blocks.small_slabs.push_back({slab, kSmallSlab});
    blocks.bump = slab;
    blocks.bump_end = slab + kSmallSlab;
  }
  char* data = blocks.bump;
  blocks.bump += bytes;
  return data;
}

absl::StatusOr<char*> MemoryPool::AllocateLarge(int64_t* bytes, Kind kind) {
  std::multimap<int64_t, char*>& free = blocks_[kind].large;
  auto it = free.lower_bound(*bytes);
  if (it != free.end() && it->first <= *bytes + *bytes / 4) {
    char* data = it->second;
    *bytes = it->first;
    free.erase(it);
    return data;
  }
  return NewSlab(*bytes, kind);
}

absl::StatusOr<char*> MemoryPool::NewSlab(int64_t bytes, Kind kind) {
  if (!account_->TryReserve(bytes)) {
    if (!Trim() || !account_->TryReserve(bytes)) {
      return MemoryError("out of memory: ", bytes, " more bytes are needed and the session holds ",
                         account_->used(), " of its limit of ", account_->limit());
    }
  }
  absl::StatusOr<char*> slab = SlabOfDevice(bytes, kind);
  if (!slab.ok() && Trim()) slab = SlabOfDevice(bytes, kind);
  if (!slab.ok()) {
    account_->Release(bytes);
    return slab.status();
  }
  slot_->used_bytes.fetch_add(bytes);
  return *slab;
}

absl::StatusOr<char*> MemoryPool::SlabOfDevice(int64_t bytes, Kind kind) {
  if (kind == kPrivate) {
    CHX_ASSIGN_OR_RETURN(void* const slab, slot_->device->AllocateSlab(static_cast<size_t>(bytes)));
    return static_cast<char*>(slab);
  }
  if (sharing_ == nullptr) {
    return MemoryError("[share] the memory of this device or session is not shared");
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
  if (blocks_[kPrivate].large.empty() && blocks_[kShared].large.empty()) return false;
  stream_->Synchronize().IgnoreError();
  for (Kind kind : {kPrivate, kShared}) {
    for (const auto& [bytes, data] : blocks_[kind].large) ReturnSlab(data, bytes, kind, false);
    blocks_[kind].large.clear();
  }
  return true;
}

void MemoryPool::ReturnSlab(char* data, int64_t bytes, Kind kind, bool last) {
  if (kind == kPrivate) {
    slot_->device->FreeSlab(data, static_cast<size_t>(bytes));
  } else {
    // While the session lives, a client that still maps it must not hold more than its limit.
    sharing_->FreeShared(segments_->Remove(data), !last);
  }
  slot_->used_bytes.fetch_sub(bytes);
  account_->Release(bytes);
}

}  // namespace chx
