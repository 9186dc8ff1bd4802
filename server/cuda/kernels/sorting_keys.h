// Sorting of integer keys on the device.
#ifndef CHX_SERVER_CUDA_KERNELS_SORTING_KEYS_H_
#define CHX_SERVER_CUDA_KERNELS_SORTING_KEYS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/engine/kernel.h"

namespace chx::server::cuda {

// Sorts keys[i] in [0, limit) stably: sorted_keys[i] = keys[positions[i]]. All are dense device
// arrays of `size` elements.
absl::Status SortWithPositions(const KernelArgs& args, const int64_t* keys, int64_t size,
                               int64_t limit, int64_t* sorted_keys, int64_t* positions);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNELS_SORTING_KEYS_H_
