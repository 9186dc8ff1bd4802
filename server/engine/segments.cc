#include "server/engine/segments.h"

#include <fcntl.h>

#include <iterator>

#include "ops/error.h"

namespace chx::server {
namespace {

constexpr size_t kMostPinned = 16 << 20;  // bytes

}  // namespace

size_t Segments::size() {
  MutexLock lock(&mutex_);
  return by_address_.size();
}

void Segments::Add(const SharedSlab& slab) {
  // No holder of the descriptor can change what may be done with it.
  fcntl(slab.fd, F_ADD_SEALS, F_SEAL_SEAL);
  MutexLock lock(&mutex_);
  by_address_.emplace(slab.data, Segment{next_number_++, slab, nullptr, nullptr});
}

absl::Status Segments::AddStorage(const Ref<SharedStorage>& storage) {
  const SharedSlab slab = storage->mappable();
  MutexLock lock(&mutex_);
  if (by_address_.count(slab.data) != 0) return absl::OkStatus();
  if (slab.fd < 0 || by_address_.size() >= kMaxSegments) {
    return MemoryError("[share] the memory of this device or session is not shared");
  }
  by_address_.emplace(slab.data, Segment{next_number_++, slab, storage, nullptr});
  return absl::OkStatus();
}

void Segments::Pin(const char* data, Device* device) {
  MutexLock lock(&mutex_);
  Segment& segment = std::prev(by_address_.upper_bound(data))->second;
  if (segment.storage || segment.pinned_by != nullptr || segment.slab.bytes > kMostPinned) return;
  device->Pin(segment.slab.data, segment.slab.bytes);
  segment.pinned_by = device;
}

SharedSlab Segments::Remove(const char* data) {
  MutexLock lock(&mutex_);
  auto it = by_address_.find(data);
  const SharedSlab slab = it->second.slab;
  if (Device* const device = it->second.pinned_by) device->Unpin(slab.data);
  by_address_.erase(it);
  return slab;
}

Segments::Address Segments::Find(const char* data) {
  MutexLock lock(&mutex_);
  const Segment& segment = std::prev(by_address_.upper_bound(data))->second;
  Address address;
  address.segment = segment.number;
  address.offset = data - segment.slab.data;
  return address;
}

absl::StatusOr<int> Segments::Duplicate(uint32_t number, int64_t* bytes) {
  MutexLock lock(&mutex_);
  for (const auto& [address, segment] : by_address_) {
    if (segment.number != number) continue;
    const int fd = fcntl(segment.slab.fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return MemoryError("[share] the daemon has no file descriptor left");
    *bytes = static_cast<int64_t>(segment.slab.bytes);
    return fd;
  }
  return absl::NotFoundError("no such segment");
}

}  // namespace chx::server
