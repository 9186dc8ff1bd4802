#include "server/cuda/runtime/pinned_ranges.h"

#include <cuda_runtime_api.h>

#include <iterator>

namespace chx::server::cuda {

PinnedRanges& PinnedRanges::Global() {
  static auto* const ranges = new PinnedRanges;
  return *ranges;
}

void PinnedRanges::Add(char* memory, size_t bytes) {
  MutexLock lock(&mutex_);
  if (cudaHostRegister(memory, bytes, cudaHostRegisterPortable) == cudaSuccess) {
    ranges_[memory] = bytes;
  } else {
    cudaGetLastError();
  }
}

void PinnedRanges::Remove(char* memory) {
  MutexLock lock(&mutex_);
  if (ranges_.erase(memory) == 0) return;
  cudaHostUnregister(memory);
  cudaGetLastError();
}

bool PinnedRanges::Contains(const void* memory, size_t bytes) {
  const char* const begin = static_cast<const char*>(memory);
  MutexLock lock(&mutex_);
  const auto after = ranges_.upper_bound(begin);
  if (after == ranges_.begin()) return false;
  const auto& [data, size] = *std::prev(after);
  return static_cast<size_t>(begin - data) + bytes <= size;
}

}  // namespace chx::server::cuda
