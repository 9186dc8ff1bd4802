#include "server/engine/memory_pool.h"

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

MemoryPool::MemoryPool(DeviceSlot* slot, Stream* stream, MemoryAccount* account)
    : slot_(slot), stream_(stream), account_(account) {}

MemoryPool::~MemoryPool() {
  MutexLock lock(&mutex_);
  stream_->Synchronize().IgnoreError();
  for (const auto& [bytes, data] : free_large_) ReturnSlab(data, bytes);
  for (const Slab& slab : small_slabs_) ReturnSlab(slab.data, slab.bytes);
  for (Buffer* buffer : all_buffers_) delete buffer;
}

absl::StatusOr<Ref<Buffer>> MemoryPool::Allocate(int64_t bytes) {
  MutexLock lock(&mutex_);
  char* data = nullptr;
  int64_t rounded = 0;
  if (bytes <= kMaxSmall) {
    const int size_class = ClassOf(bytes);
    rounded = ClassBytes(size_class);
    CHX_ASSIGN_OR_RETURN(data, AllocateSmall(size_class));
  } else {
    if (bytes > account_->limit()) {
      return MemoryError("out of memory: the array needs ", bytes,
                         " bytes and the session's limit is ", account_->limit());
    }
    rounded = RoundLarge(bytes);
    CHX_ASSIGN_OR_RETURN(data, AllocateLarge(&rounded));
  }
  Buffer* buffer = NewBuffer();
  buffer->data_ = data;
  buffer->bytes_ = rounded;
  return Ref<Buffer>(buffer);
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
  if (buffer->bytes_ <= kMaxSmall) {
    free_small_[ClassOf(buffer->bytes_)].push_back(buffer->data_);
  } else {
    free_large_.emplace(buffer->bytes_, buffer->data_);
  }
  buffer->next_free_ = free_buffers_;
  free_buffers_ = buffer;
}

absl::StatusOr<char*> MemoryPool::AllocateSmall(int size_class) {
  std::vector<char*>& free = free_small_[size_class];
  if (!free.empty()) {
    char* data = free.back();
    free.pop_back();
    return data;
  }
  const int64_t bytes = ClassBytes(size_class);
  if (bump_end_ - bump_ < bytes) {
    CHX_ASSIGN_OR_RETURN(char* slab, NewSlab(kSmallSlab));
    small_slabs_.push_back({slab, kSmallSlab});
    bump_ = slab;
    bump_end_ = slab + kSmallSlab;
  }
  char* data = bump_;
  bump_ += bytes;
  return data;
}

absl::StatusOr<char*> MemoryPool::AllocateLarge(int64_t* bytes) {
  auto it = free_large_.lower_bound(*bytes);
  if (it != free_large_.end() && it->first <= *bytes + *bytes / 4) {
    char* data = it->second;
    *bytes = it->first;
    free_large_.erase(it);
    return data;
  }
  return NewSlab(*bytes);
}

absl::StatusOr<char*> MemoryPool::NewSlab(int64_t bytes) {
  if (!account_->TryReserve(bytes)) {
    if (!Trim() || !account_->TryReserve(bytes)) {
      return MemoryError("out of memory: ", bytes, " more bytes are needed and the session holds ",
                         account_->used(), " of its limit of ", account_->limit());
    }
  }
  absl::StatusOr<void*> slab = slot_->device->AllocateSlab(bytes);
  if (!slab.ok() && Trim()) slab = slot_->device->AllocateSlab(bytes);
  if (!slab.ok()) {
    account_->Release(bytes);
    return slab.status();
  }
  slot_->used_bytes.fetch_add(bytes);
  return static_cast<char*>(*slab);
}

bool MemoryPool::Trim() {
  if (free_large_.empty()) return false;
  stream_->Synchronize().IgnoreError();
  for (const auto& [bytes, data] : free_large_) ReturnSlab(data, bytes);
  free_large_.clear();
  return true;
}

void MemoryPool::ReturnSlab(void* data, int64_t bytes) {
  slot_->device->FreeSlab(data, bytes);
  slot_->used_bytes.fetch_sub(bytes);
  account_->Release(bytes);
}

}  // namespace chx
