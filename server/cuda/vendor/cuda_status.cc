#include "server/cuda/vendor/cuda_status.h"

#include "ops/error.h"

namespace chx::server::cuda {

absl::Status CudaStatus(absl::string_view what, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  const std::string text = absl::StrCat("cuda: ", what, ": ", cudaGetErrorString(error), " (",
                                        cudaGetErrorName(error), ")");
  return MakeError(error == cudaErrorMemoryAllocation ? ErrorKind::kMemory : ErrorKind::kDevice,
                   text);
}

}  // namespace chx::server::cuda
