// Running sums on the device.
#ifndef CHX_SERVER_CUDA_KERNELS_SORTING_SCAN_H_
#define CHX_SERVER_CUDA_KERNELS_SORTING_SCAN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/engine/kernel.h"

namespace chx::server::cuda {

// Each of `size` > 0 numbers becomes the sum of those up to and including it.
absl::Status ScanSums(const KernelArgs& args, int64_t size, int64_t* sums);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNELS_SORTING_SCAN_H_
