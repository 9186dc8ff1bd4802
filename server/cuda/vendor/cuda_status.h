// CUDA's error codes as Status.
#ifndef CHX_SERVER_CUDA_VENDOR_CUDA_STATUS_H_
#define CHX_SERVER_CUDA_VENDOR_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace chx::server::cuda {

// OK, or an error that says what failed and CUDA's own text. A full memory gives kMemory. Takes the
// error back from the runtime, which would report it for the next launch too.
absl::Status CudaStatus(absl::string_view what, cudaError_t error);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_CUDA_STATUS_H_
