// cuBLAS, opened when the first product of float matrices needs it (library.h).
#ifndef CHX_SERVER_CUDA_VENDOR_BLAS_H_
#define CHX_SERVER_CUDA_VENDOR_BLAS_H_

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/cuda/vendor/gemm.h"

namespace chx::server::cuda {

// The functions that we call. Immutable; safe from any thread.
struct BlasLibrary {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasGetStatusString) status_string = nullptr;
  decltype(&cublasGemmStridedBatchedEx_64) gemm = nullptr;
};

// The outcome of the first call is kept.
absl::StatusOr<const BlasLibrary*> OpenBlas();

// The outcome of a call of cuBLAS or cuBLASLt, with the library's text of it; and of one that makes
// a handle, for which the device may have no memory left.
absl::Status BlasStatus(const char* what, cublasStatus_t status, const char* text);
absl::Status BlasHandleStatus(const char* what, cublasStatus_t status, const char* text);

// A float dtype as the library calls it, and in what it computes.
cudaDataType_t BlasType(Dtype dtype);
cublasComputeType_t ComputeType(const GemmCall& call);

// A handle for one stream. Used by one thread at a time, as the stream.
class Blas {
 public:
  Blas() = default;
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // Of the stream's device, which is current. Before all other calls; again, it does nothing.
  absl::Status Open(cudaStream_t stream);
  // `workspace` is not used after the call, in the stream's order; 256 bytes aligned, of 16 KiB at
  // least.
  absl::Status Gemm(absl::Span<char> workspace, const GemmCall& call);

 private:
  absl::Status Check(const char* what, cublasStatus_t status) const;

  const BlasLibrary* library_ = nullptr;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_BLAS_H_
