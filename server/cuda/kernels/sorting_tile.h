// Sorting of short rows, each by one block.
#ifndef CHX_SERVER_CUDA_KERNELS_SORTING_TILE_H_
#define CHX_SERVER_CUDA_KERNELS_SORTING_TILE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/cuda/kernels/sorting_order.h"
#include "server/engine/kernel.h"

namespace chx::server::cuda {

inline constexpr int64_t kMaxTile = 4096;  // elements of a row

// Stable. Needs no scratch memory.
absl::Status SortTiles(const KernelArgs& args, const SortCall& call);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNELS_SORTING_TILE_H_
