#include "server/cuda/kernels/sorting_keys.h"

#include <type_traits>
#include <utility>

#include "ops/error.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/launch.h"

#ifdef __CUDACC__
#include <cub/device/device_radix_sort.cuh>
#else
#include <numeric>
#include <vector>
#endif

namespace chx::server::cuda {
namespace {

template <typename T>
struct NumberBody {
  const int64_t* in;
  T* keys;
  T* positions;
  CHX_HD void operator()(int64_t i) const {
    keys[i] = static_cast<T>(in[i]);
    positions[i] = static_cast<T>(i);
  }
};

template <typename T>
absl::StatusOr<SortedKeys> SortNumbers(const KernelArgs& args, const int64_t* keys, int64_t size,
                                       int64_t limit) {
  KeyValues<T, T> pairs;
  for (int i = 0; i < 2; ++i) {
    CHX_ASSIGN_OR_RETURN(pairs.keys[i], NewScratch<T>(args, size));
    CHX_ASSIGN_OR_RETURN(pairs.values[i], NewScratch<T>(args, size));
  }
  CHX_RETURN_IF_ERROR(ForEach(args, size, NumberBody<T>{keys, pairs.keys[0], pairs.values[0]}));
  SortMemory memory;
  CHX_RETURN_IF_ERROR(SortByKeys(args, size, BitsBelow(limit), &memory, &pairs));
  return SortedKeys(pairs.keys[0], pairs.values[0]);
}

}  // namespace

template <typename Key, typename Value>
absl::Status SortByKeys(const KernelArgs& args, int64_t size, int bits, SortMemory* memory,
                        KeyValues<Key, Value>* pairs) {
  KernelStream& stream = StreamOf(args);
#ifdef __CUDACC__
  using Size = std::conditional_t<sizeof(Value) == 4, uint32_t, uint64_t>;
  cub::DoubleBuffer<Key> keys(pairs->keys[0], pairs->keys[1]);
  cub::DoubleBuffer<Value> values(pairs->values[0], pairs->values[1]);
  const auto handle = static_cast<cudaStream_t>(stream.handle());
  const auto sort = [&](void* temporary, size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(temporary, bytes, keys, values, static_cast<Size>(size),
                                           0, bits, handle);
  };
  size_t bytes = 0;
  CHX_RETURN_IF_ERROR(stream.Outcome("radix sort", sort(nullptr, bytes)));
  if (memory->data == nullptr || memory->bytes < bytes) {
    CHX_ASSIGN_OR_RETURN(memory->data, args.scratch.Allocate(bytes + 1));
    memory->bytes = bytes;
  }
  bytes = memory->bytes;
  CHX_RETURN_IF_ERROR(stream.Outcome("radix sort", sort(memory->data, bytes)));
  *pairs = {{keys.Current(), keys.Alternate()}, {values.Current(), values.Alternate()}};
#else
  static_cast<void>(memory);
  stream.Emulate([size, bits, from = *pairs] {
    const auto mask = static_cast<Key>(~uint64_t{0} >> (64 - bits));
    const Key* const keys = from.keys[0];
    std::vector<int64_t> order(size);
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [keys, mask](int64_t a, int64_t b) {
      return (keys[a] & mask) < (keys[b] & mask);
    });
    for (int64_t i = 0; i < size; ++i) {
      from.keys[1][i] = keys[order[i]];
      from.values[1][i] = from.values[0][order[i]];
    }
  });
  std::swap(pairs->keys[0], pairs->keys[1]);
  std::swap(pairs->values[0], pairs->values[1]);
#endif
  return absl::OkStatus();
}

template absl::Status SortByKeys(const KernelArgs&, int64_t, int, SortMemory*,
                                 KeyValues<uint32_t, uint32_t>*);
template absl::Status SortByKeys(const KernelArgs&, int64_t, int, SortMemory*,
                                 KeyValues<uint64_t, uint32_t>*);
template absl::Status SortByKeys(const KernelArgs&, int64_t, int, SortMemory*,
                                 KeyValues<uint64_t, uint64_t>*);

absl::StatusOr<SortedKeys> SortWithPositions(const KernelArgs& args, const int64_t* keys,
                                             int64_t size, int64_t limit) {
  if (size == 0) return SortedKeys();
  if (size <= MaxNarrowSort(args) && limit <= int64_t{1} << 32) {
    return SortNumbers<uint32_t>(args, keys, size, limit);
  }
  return SortNumbers<uint64_t>(args, keys, size, limit);
}

}  // namespace chx::server::cuda
