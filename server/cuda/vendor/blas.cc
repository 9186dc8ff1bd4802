#include "server/cuda/vendor/blas.h"

#include <cstdlib>

#include "ops/error.h"
#include "server/cuda/vendor/library.h"

namespace chx::server::cuda {
namespace {

bool LoadAll(void* library, BlasLibrary* blas) {
  return LoadFunction(library, "cublasCreate_v2", &blas->create) &&
         LoadFunction(library, "cublasDestroy_v2", &blas->destroy) &&
         LoadFunction(library, "cublasSetStream_v2", &blas->set_stream) &&
         LoadFunction(library, "cublasSetMathMode", &blas->set_math_mode) &&
         LoadFunction(library, "cublasSetWorkspace_v2", &blas->set_workspace) &&
         LoadFunction(library, "cublasGetStatusString", &blas->status_string) &&
         LoadFunction(library, "cublasGemmStridedBatchedEx_64", &blas->gemm);
}

}  // namespace

cudaDataType_t BlasType(Dtype dtype) {
  return dtype == Dtype::kFloat64    ? CUDA_R_64F
         : dtype == Dtype::kFloat16  ? CUDA_R_16F
         : dtype == Dtype::kBfloat16 ? CUDA_R_16BF
                                     : CUDA_R_32F;
}

cublasComputeType_t ComputeType(const GemmCall& call) {
  if (call.dtype == Dtype::kFloat64) return CUBLAS_COMPUTE_64F;
  const bool tf32 = call.tf32 && call.dtype == Dtype::kFloat32;
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

absl::StatusOr<const BlasLibrary*> OpenBlas() {
  static const auto* const result = [] {
    // Handles would have a workspace each, outside of every quota; ours is the session's.
    setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0", /*overwrite=*/0);
    return new absl::StatusOr<const BlasLibrary*>(
        OpenFunctions({"cuBLAS 12 or 13",
                       "float matrices cannot be multiplied",
                       "CHXD_CUBLAS",
                       {"libcublas.so.13", "libcublas.so.12"}},
                      LoadAll));
  }();
  return *result;
}

Blas::~Blas() {
  if (handle_ != nullptr) library_->destroy(handle_);
}

absl::Status BlasStatus(const char* what, cublasStatus_t status, const char* text) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return DeviceError("cuda: ", what, ": ", text);
}

absl::Status BlasHandleStatus(const char* what, cublasStatus_t status, const char* text) {
  if (status == CUBLAS_STATUS_ALLOC_FAILED || status == CUBLAS_STATUS_NOT_INITIALIZED) {
    return MemoryError("cuda: ", what, ": ", text, "; the device may have no memory left");
  }
  return BlasStatus(what, status, text);
}

absl::Status Blas::Check(const char* what, cublasStatus_t status) const {
  return BlasStatus(what, status, library_->status_string(status));
}

absl::Status Blas::Open(cudaStream_t stream) {
  if (handle_ != nullptr) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(library_, OpenBlas());
  cublasHandle_t handle = nullptr;
  const cublasStatus_t made = library_->create(&handle);
  CHX_RETURN_IF_ERROR(BlasHandleStatus("cublasCreate", made, library_->status_string(made)));
  // TF32 is each call's own.
  absl::Status set =
      Check("cublasSetMathMode", library_->set_math_mode(handle, CUBLAS_DEFAULT_MATH));
  if (set.ok()) set = Check("cublasSetStream", library_->set_stream(handle, stream));
  if (!set.ok()) {
    library_->destroy(handle);
    return set;
  }
  handle_ = handle;
  return absl::OkStatus();
}

absl::Status Blas::Gemm(absl::Span<char> workspace, const GemmCall& call) {
  CHX_RETURN_IF_ERROR(Check("cublasSetWorkspace",
                            library_->set_workspace(handle_, workspace.data(), workspace.size())));
  const bool wide = call.dtype == Dtype::kFloat64;
  const double scales64[2] = {1, call.accumulate ? 1.0 : 0.0};
  const float scales32[2] = {1, call.accumulate ? 1.0f : 0.0f};
  const void* const alpha = wide ? static_cast<const void*>(&scales64[0]) : &scales32[0];
  const void* const beta = wide ? static_cast<const void*>(&scales64[1]) : &scales32[1];
  const cudaDataType_t type = BlasType(call.dtype);
  return Check("cublasGemmStridedBatchedEx",
               library_->gemm(handle_, call.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                              call.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, call.m, call.n, call.k,
                              alpha, call.a, type, call.lda, call.a_stride, call.b, type, call.ldb,
                              call.b_stride, beta, call.c, type, call.ldc, call.c_stride,
                              call.count, ComputeType(call), CUBLAS_GEMM_DEFAULT));
}

}  // namespace chx::server::cuda
