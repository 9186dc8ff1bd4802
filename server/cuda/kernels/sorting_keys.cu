#include "server/cuda/kernels/sorting_keys.h"

#include "ops/error.h"
#include "server/cuda/loops/launch.h"

#ifdef __CUDACC__
#include <cub/device/device_radix_sort.cuh>
#else
#include <algorithm>
#include <numeric>
#endif

namespace chx::server::cuda {
namespace {

struct Count {
  int64_t* out;
  CHX_HD void operator()(int64_t i) const { out[i] = i; }
};

}  // namespace

absl::Status SortWithPositions(const KernelArgs& args, const int64_t* keys, int64_t size,
                               int64_t limit, int64_t* sorted_keys, int64_t* positions) {
  if (size == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(void* const unsorted, args.scratch.Allocate(size * sizeof(int64_t)));
  int64_t* const numbers = static_cast<int64_t*>(unsorted);
  CHX_RETURN_IF_ERROR(ForEach(args, size, Count{numbers}));
#ifdef __CUDACC__
  int bits = 1;
  while (bits < 63 && (int64_t{1} << bits) < limit) ++bits;
  KernelStream& stream = StreamOf(args);
  const auto handle = static_cast<cudaStream_t>(stream.handle());
  const auto sort = [&](void* temporary, size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(
        temporary, bytes, reinterpret_cast<const uint64_t*>(keys),
        reinterpret_cast<uint64_t*>(sorted_keys), numbers, positions, size, 0, bits, handle);
  };
  size_t bytes = 0;
  CHX_RETURN_IF_ERROR(stream.Outcome("radix sort", sort(nullptr, bytes)));
  CHX_ASSIGN_OR_RETURN(void* const temporary, args.scratch.Allocate(bytes + 1));
  return stream.Outcome("radix sort", sort(temporary, bytes));
#else
  static_cast<void>(limit);
  StreamOf(args).Emulate([=] {
    std::iota(positions, positions + size, int64_t{0});
    std::stable_sort(positions, positions + size,
                     [keys](int64_t a, int64_t b) { return keys[a] < keys[b]; });
    for (int64_t i = 0; i < size; ++i) sorted_keys[i] = keys[positions[i]];
  });
  return absl::OkStatus();
#endif
}

}  // namespace chx::server::cuda
