// Sorting of integer keys on the device.
#ifndef CHX_SERVER_CUDA_KERNELS_SORTING_KEYS_H_
#define CHX_SERVER_CUDA_KERNELS_SORTING_KEYS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cuda/loops/kernel_stream.h"
#include "server/engine/kernel.h"
#include "server/kernels/host_device.h"

namespace chx::server::cuda {

// Keys with what is moved along with them, in two dense device arrays each, as the sort goes back
// and forth between them. It reads the first ones and leaves its result in the first ones, which
// may then be other arrays.
template <typename Key, typename Value>
struct KeyValues {
  Key* keys[2];
  Value* values[2];
};

// Scratch memory of a sort, for several ones in turn.
struct SortMemory {
  void* data = nullptr;
  size_t bytes = 0;
};

// Sorts stably by the keys, which are below 2^bits. For values of 32 bits there are at most
// MaxNarrowSort elements. <uint32_t, uint32_t>, <uint64_t, uint32_t> and <uint64_t, uint64_t>.
template <typename Key, typename Value>
absl::Status SortByKeys(const KernelArgs& args, int64_t size, int bits, SortMemory* memory,
                        KeyValues<Key, Value>* pairs);

// Fewer on an emulated device, so that tests sort both kinds.
inline int64_t MaxNarrowSort(const KernelArgs& args) {
  return std::min<int64_t>(INT32_MAX, 2 * StreamOf(args).max_launch_elements());
}

// Bits of the numbers below `limit`; at least 1.
inline int BitsBelow(int64_t limit) {
  int bits = 1;
  while (bits < 63 && (int64_t{1} << bits) < limit) ++bits;
  return bits;
}

// Keys in order, and where they were before. Plain data, for host and device.
class SortedKeys {
 public:
  SortedKeys() = default;
  SortedKeys(const uint32_t* keys, const uint32_t* positions)
      : keys_(keys), positions_(positions), wide_(false) {}
  SortedKeys(const uint64_t* keys, const uint64_t* positions)
      : keys_(keys), positions_(positions), wide_(true) {}

  CHX_HD int64_t key(int64_t i) const { return At(keys_, i); }
  CHX_HD int64_t position(int64_t i) const { return At(positions_, i); }

 private:
  CHX_HD int64_t At(const void* numbers, int64_t i) const {
    return wide_ ? static_cast<int64_t>(static_cast<const uint64_t*>(numbers)[i])
                 : int64_t{static_cast<const uint32_t*>(numbers)[i]};
  }

  const void* keys_ = nullptr;
  const void* positions_ = nullptr;
  bool wide_ = false;
};

// Sorts a dense device array of keys in [0, limit) stably; the result is scratch memory of the
// call.
absl::StatusOr<SortedKeys> SortWithPositions(const KernelArgs& args, const int64_t* keys,
                                             int64_t size, int64_t limit);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNELS_SORTING_KEYS_H_
