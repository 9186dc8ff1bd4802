// The pool's part about arrays that a session has no memory for: where they go, and how they come
// back.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ops/error.h"
#include "server/engine/memory_pool.h"
#include "server/engine/memory_size.h"
#include "server/engine/stop_token.h"

namespace chx::server {
namespace {

// Between two looks whether to stop.
constexpr int64_t kPiece = int64_t{1} << 20;

// In the host's memory.
absl::Status CopyBytes(absl::string_view op, char* to, const char* from, int64_t bytes) {
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    CHX_RETURN_IF_ERROR(CheckNotStopped(op));
    std::memcpy(to + begin, from + begin, static_cast<size_t>(std::min(kPiece, bytes - begin)));
  }
  return absl::OkStatus();
}

}  // namespace

void MemoryPool::Place(Buffer* buffer, char* data, int64_t bytes, Kind kind) {
  const bool away = kind >= kInFile && has_own_memory();
  buffer->data_ = away ? nullptr : data;
  buffer->away_ = away ? data : nullptr;
  buffer->bytes_ = bytes;
  buffer->kind_ = kind;
}

absl::Status MemoryPool::CopyPiece(const Buffer& from, int64_t begin, int64_t bytes, char* to,
                                   Kind kind) {
  const auto size = static_cast<size_t>(bytes);
  if (!has_own_memory()) {
    std::memcpy(to + begin, from.data_ + begin, size);
    return absl::OkStatus();
  }
  if (kind >= kInFile) return stream_->CopyOut(to + begin, from.data_ + begin, size);
  return stream_->CopyIn(to + begin, from.away_ + begin, size);
}

absl::Status MemoryPool::MoveTo(Buffer* buffer, char* data, int64_t bytes, Kind to) {
  const absl::string_view what = to == kShared ? "share" : "spill";
  absl::Status status = CheckNotStopped(what);
  for (int64_t begin = 0; begin < buffer->bytes_ && status.ok(); begin += kPiece) {
    status = CopyPiece(*buffer, begin, std::min(kPiece, buffer->bytes_ - begin), data, to);
    if (status.ok()) status = CheckNotStopped(what);  // the stream may not have waited
  }
  if (!status.ok()) {
    FreeBlock(data, bytes, to);
    return status;
  }
  FreeBlock(buffer->block(), buffer->bytes_, buffer->kind_);
  Place(buffer, data, bytes, to);
  buffer->uses_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<char*> MemoryPool::NewHostBlock(int64_t bytes) {
  // Not the last of the host's memory: the session and others still need some for arrays of the
  // CPU, for handles and for copies on the way to clients, and nothing there makes room for them.
  const int parts = slot_->spill != nullptr ? 2 : 8;
  const auto charge = [&] {
    return account_->LeavesRoom(bytes, parts) && account_->TryCharge(bytes, MemoryUse::kAway);
  };
  if (!charge() && !(account_->Relieve(bytes) && charge())) return account_->Exhausted(bytes);
  void* const data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    account_->Release(bytes, MemoryUse::kAway);
    return MemoryError("cannot map ", FormatMemorySize(bytes), ": ", std::strerror(errno));
  }
  madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // a hint
  CountBlock(kInHostMemory, bytes);
  return static_cast<char*>(data);
}

absl::StatusOr<char*> MemoryPool::NewFile(int64_t bytes) {
  if (slot_->spill == nullptr) return MemoryError("[spill] there is no --spill-dir");
  CHX_ASSIGN_OR_RETURN(char* const data, slot_->spill->Allocate(bytes));
  account_->Charge(bytes, MemoryUse::kSpilled);
  CountBlock(kInFile, bytes);
  return data;
}

void MemoryPool::FreeSpilled(char* data, int64_t bytes, Kind kind) {
  if (kind == kInFile) {
    slot_->spill->Free(data, bytes);
    account_->Release(bytes, MemoryUse::kSpilled);
  } else {
    munmap(data, static_cast<size_t>(bytes));
    account_->Release(bytes, MemoryUse::kAway);
  }
}

// Host memory first: files are for what it has no room for, as they cost writes to the disk.
absl::Status MemoryPool::MoveOut(Buffer* buffer, bool to_host_memory) {
  const int64_t bytes = buffer->bytes_;
  if (to_host_memory) {
    const absl::StatusOr<char*> block = NewHostBlock(bytes);
    if (block.ok()) return MoveTo(buffer, *block, bytes, kInHostMemory);
  }
  CHX_ASSIGN_OR_RETURN(char* const file, NewFile(bytes));
  CHX_RETURN_IF_ERROR(MoveTo(buffer, file, bytes, kInFile));
  SpillFolder::Settle(file, bytes);
  return absl::OkStatus();
}

std::vector<Buffer*> MemoryPool::FindCold() {
  std::vector<Buffer*> cold;
  for (const auto& buffers : all_buffers_) {
    for (int i = 0; i < kBuffersAtOnce; ++i) {
      Buffer& buffer = buffers[i];
      const bool idle = buffer.data_ != nullptr && buffer.last_use_ != clock_->now;
      if (idle && buffer.MayMove() && buffer.bytes_ > kMaxSmall) cold.push_back(&buffer);
    }
  }
  std::sort(cold.begin(), cold.end(),
            [](const Buffer* a, const Buffer* b) { return a->last_use_ < b->last_use_; });
  return cold;
}

int64_t MemoryPool::LargestAway() const {
  int64_t largest = 0;
  for (const auto& buffers : all_buffers_) {
    for (int i = 0; i < kBuffersAtOnce; ++i) {
      if (buffers[i].away_ != nullptr) largest = std::max(largest, buffers[i].bytes_);
    }
  }
  return largest;
}

bool MemoryPool::SpillLocked(int64_t bytes, Room room) {
  if (!has_own_memory()) room = Room::kInFiles;
  if ((room == Room::kInFiles && slot_->spill == nullptr) || StopRequested()) return false;
  // Of the session's limit, beside what is free on the device. Host memory counts there as the
  // device's does: a move is no gain where that limit is what is reached. And as long as an array
  // comes back it is in both, so that a new one must leave room for that.
  const int64_t left = account_->limit() - account_->used() - bytes;
  int64_t largest = room == Room::kForNew ? LargestAway() : 0;
  int64_t refused = std::numeric_limits<int64_t>::max();
  int64_t moved = 0;
  const std::vector<Buffer*> cold = FindCold();
  stream_->Synchronize().IgnoreError();
  for (Buffer* buffer : cold) {
    const int64_t size = buffer->bytes_;
    if (moved >= bytes || StopRequested()) break;
    if (size >= refused) continue;
    if (room == Room::kForNew) largest = std::max(largest, size);
    if (MoveOut(buffer, room != Room::kInFiles && largest <= left).ok()) {
      moved += size;
    } else {
      refused = size;
    }
  }
  return moved > 0;
}

bool MemoryPool::Spill(int64_t bytes) {
  MutexLock lock(&mutex_);
  return SpillLocked(bytes, Room::kInFiles);
}

bool MemoryPool::MakeRoom(int64_t bytes) {
  MutexLock lock(&mutex_);
  return SpillLocked(bytes, Room::kForNew) && TrimLocked();
}

absl::Status MemoryPool::Restore(const Ref<Buffer>& buffer) {
  MutexLock lock(&mutex_);
  if (!buffer->spilled()) return absl::OkStatus();
  int64_t bytes = buffer->bytes_;
  if (buffer->away_ == nullptr) {
    char* data = blocks_[kPrivate].large.Take(&bytes);
    if (data == nullptr && TryChargeSlab(bytes)) {
      const absl::StatusOr<char*> slab = SlabOfDevice(bytes, kPrivate);
      if (slab.ok()) CountHeld(bytes);
      if (!slab.ok()) ReleaseSlab(bytes);
      data = slab.ok() ? *slab : nullptr;
    }
    if (data == nullptr) return absl::OkStatus();
    CountBlock(kPrivate, bytes);
    MoveTo(buffer.get(), data, bytes, kPrivate).IgnoreError();  // stopped, it stays where it is
    return absl::OkStatus();
  }
  const absl::StatusOr<char*> data = AllocateLarge(&bytes, kPrivate, Room::kForBack);
  if (data.ok()) {
    CountBlock(kPrivate, bytes);
    return MoveTo(buffer.get(), *data, bytes, kPrivate);
  }
  CHX_RETURN_IF_ERROR(CheckNotStopped("spill"));
  if (KindOf(data.status()) != ErrorKind::kMemory) return data.status();
  if (Buffer* const other = FindTwin(*buffer)) return Exchange(buffer.get(), other);
  return MemoryError("out of memory: an array of ", FormatMemorySize(buffer->bytes_),
                     " that was moved to ", buffer->kind_ == kInFile ? "a file" : "host memory",
                     " cannot come back to ", slot_->device->name(),
                     ", where what is in use leaves no room for it: ",
                     absl::StripPrefix(data.status().message(), "out of memory: "));
}

Buffer* MemoryPool::FindTwin(const Buffer& buffer) {
  for (Buffer* const other : FindCold()) {
    if (other->bytes_ == buffer.bytes_) return other;
  }
  return nullptr;
}

absl::Status MemoryPool::Exchange(Buffer* buffer, Buffer* other) {
  const int64_t bytes = buffer->bytes_;
  CHX_RETURN_IF_ERROR(stream_->Synchronize());  // here it can be stopped
  CHX_RETURN_IF_ERROR(CheckNotStopped("spill"));
  // Half of it done, neither would be an array. A copy fails only when its device has.
  const StopScope unstoppable(nullptr);
  const auto piece = std::make_unique<char[]>(kPiece);
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    const auto size = static_cast<size_t>(std::min(kPiece, bytes - begin));
    CHX_RETURN_IF_ERROR(stream_->CopyOut(piece.get(), other->data_ + begin, size));
    CHX_RETURN_IF_ERROR(stream_->CopyIn(other->data_ + begin, buffer->away_ + begin, size));
    std::memcpy(buffer->away_ + begin, piece.get(), size);
  }
  char* const on_device = other->data_;
  char* const away = buffer->away_;
  const Kind kind = buffer->kind_;
  Place(buffer, on_device, bytes, kPrivate);
  Place(other, away, bytes, kind);
  buffer->uses_ = other->uses_ = 0;
  return absl::OkStatus();
}

absl::Status MemoryPool::CopyIn(Buffer* buffer, int64_t begin, absl::string_view bytes) {
  if (ABSL_PREDICT_FALSE(buffer->away_ != nullptr)) {
    return CopyBytes("upload", buffer->away_ + begin, bytes.data(),
                     static_cast<int64_t>(bytes.size()));
  }
  CHX_RETURN_IF_ERROR(stream_->CopyIn(buffer->data_ + begin, bytes.data(), bytes.size()));
  return CheckNotStopped("upload");
}

absl::Status MemoryPool::CopyOut(const Buffer& buffer, int64_t begin, int64_t bytes, char* out) {
  if (ABSL_PREDICT_FALSE(buffer.away_ != nullptr)) {
    return CopyBytes("fetch", out, buffer.away_ + begin, bytes);
  }
  CHX_RETURN_IF_ERROR(stream_->CopyOut(out, buffer.data_ + begin, static_cast<size_t>(bytes)));
  return CheckNotStopped("fetch");
}

}  // namespace chx::server
