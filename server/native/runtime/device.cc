#include "server/native/runtime/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/error.h"
#include "server/engine/host_memory.h"
#include "server/native/runtime/shared_memory.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

size_t WholePages(size_t bytes) {
  return RoundUp(std::max<size_t>(bytes, 1), static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

// Reserves address space for `bytes`, aligned to huge pages if it is at least one page long.
void* Map(size_t bytes) {
  const size_t slack = bytes >= kHugePage ? kHugePage : 0;
  void* const mapped = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (slack == 0) return mapped;
  char* const begin = static_cast<char*>(mapped);
  char* const aligned = reinterpret_cast<char*>(RoundUp(reinterpret_cast<size_t>(begin), slack));
  if (aligned != begin) munmap(begin, aligned - begin);
  if (aligned != begin + slack) munmap(aligned + bytes, begin + slack - aligned);
  madvise(aligned, bytes, MADV_HUGEPAGE);  // a hint: failure costs speed only
  return aligned;
}

}  // namespace

NativeDevice::NativeDevice(std::string name, int threads, KernelTable kernels)
    : name_(std::move(name)),
      memory_bytes_(static_cast<size_t>(HostMemoryBytes())),
      kernels_(std::move(kernels)),
      pool_(threads) {}

absl::StatusOr<std::unique_ptr<Stream>> NativeDevice::NewStream() {
  return std::unique_ptr<Stream>(std::make_unique<NativeStream>(this));
}

bool NativeDevice::TryReserve(size_t bytes) {
  if (used_bytes_.fetch_add(bytes) + bytes <= memory_bytes_) return true;
  used_bytes_.fetch_sub(bytes);
  return false;
}

absl::Status NativeDevice::Exhausted(size_t bytes) const {
  return MemoryError(name_, " has no ", bytes, " bytes left: ", used_bytes_.load(), " of ",
                     memory_bytes_, " are in use");
}

absl::StatusOr<void*> NativeDevice::AllocateSlab(size_t bytes) {
  // This test keeps the rounding below from overflowing.
  if (bytes > memory_bytes_) return Exhausted(bytes);
  const size_t mapped = WholePages(bytes);
  if (!TryReserve(mapped)) return Exhausted(bytes);
  if (void* const slab = Map(mapped)) return slab;
  used_bytes_.fetch_sub(mapped);
  return Exhausted(bytes);
}

void NativeDevice::FreeSlab(void* slab, size_t bytes) {
  const size_t mapped = WholePages(bytes);
  munmap(slab, mapped);
  used_bytes_.fetch_sub(mapped);
}

absl::StatusOr<SharedSlab> NativeDevice::AllocateShared(size_t bytes) {
  static const size_t max_slabs = MaxSharedSlabs();
  if (bytes > memory_bytes_) return Exhausted(bytes);
  const size_t mapped = WholePages(bytes);
  if (!TryReserve(mapped)) return Exhausted(bytes);
  if (shared_slabs_.fetch_add(1) < max_slabs) {
    absl::StatusOr<SharedSlab> slab = NewSharedSlab(mapped);
    if (slab.ok()) return slab;
  }
  shared_slabs_.fetch_sub(1);
  used_bytes_.fetch_sub(mapped);
  return MemoryError("[share] ", name_, " has no descriptors or memory left to share");
}

void NativeDevice::FreeShared(const SharedSlab& slab, bool discard) {
  DropSharedSlab(slab, discard);
  shared_slabs_.fetch_sub(1);
  used_bytes_.fetch_sub(slab.bytes);
}

absl::Status NativeStream::CopyIn(void* dst, const void* src, size_t bytes) {
  CopyBytes(dst, src, static_cast<int64_t>(bytes));
  return absl::OkStatus();
}

absl::Status NativeStream::CopyOut(void* dst, const void* src, size_t bytes) {
  CopyBytes(dst, src, static_cast<int64_t>(bytes));
  return absl::OkStatus();
}

absl::Status NativeStream::Zero(void* dst, size_t bytes) {
  FillZero(dst, static_cast<int64_t>(bytes));
  return absl::OkStatus();
}

absl::Status NativeStream::Synchronize() { return absl::OkStatus(); }

absl::Status NativeStream::RunBlocks(int64_t n, int64_t grain,
                                     absl::FunctionRef<absl::Status(int64_t, int64_t)> run) {
  Mutex mutex;
  absl::Status first;
  device_->pool().ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    absl::Status status = run(begin, end);
    if (status.ok()) return;
    MutexLock lock(&mutex);
    if (first.ok()) first = std::move(status);
  });
  return first;
}

}  // namespace chx::server::native
