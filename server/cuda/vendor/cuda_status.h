// CUDA's error codes as Status.
#ifndef CHX_SERVER_CUDA_VENDOR_CUDA_STATUS_H_
#define CHX_SERVER_CUDA_VENDOR_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace chx::server::cuda {

// OK, or an error with `what` failed and CUDA's own text: kMemory if memory is full. Clears the
// runtime's error, which would otherwise be reported for the next launch too.
absl::Status CudaStatus(absl::string_view what, cudaError_t error);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_CUDA_STATUS_H_
