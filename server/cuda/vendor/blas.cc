#include "server/cuda/vendor/blas.h"

#include "ops/error.h"
#include "server/cuda/vendor/library.h"

namespace chx::server::cuda {
namespace {

bool LoadAll(void* library, BlasLibrary* blas) {
  return LoadFunction(library, "cublasCreate_v2", &blas->create) &&
         LoadFunction(library, "cublasDestroy_v2", &blas->destroy) &&
         LoadFunction(library, "cublasSetStream_v2", &blas->set_stream) &&
         LoadFunction(library, "cublasSetMathMode", &blas->set_math_mode) &&
         LoadFunction(library, "cublasGetStatusString", &blas->status_string) &&
         LoadFunction(library, "cublasGemmStridedBatchedEx_64", &blas->gemm);
}

cudaDataType_t DataType(Dtype dtype) {
  return dtype == Dtype::kFloat64 ? CUDA_R_64F : dtype == Dtype::kFloat16 ? CUDA_R_16F : CUDA_R_32F;
}

}  // namespace

absl::StatusOr<const BlasLibrary*> OpenBlas() {
  static const auto* const result =
      new absl::StatusOr<const BlasLibrary*>(OpenFunctions({"cuBLAS 12 or 13",
                                                            "float matrices cannot be multiplied",
                                                            "CHXD_CUBLAS",
                                                            {"libcublas.so.13", "libcublas.so.12"}},
                                                           LoadAll));
  return *result;
}

Blas::~Blas() {
  if (handle_ != nullptr) library_->destroy(handle_);
}

absl::Status Blas::Check(const char* what, cublasStatus_t status) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return DeviceError("cuda: ", what, ": ", library_->status_string(status));
}

absl::Status Blas::Open(cudaStream_t stream) {
  CHX_ASSIGN_OR_RETURN(library_, OpenBlas());
  cublasHandle_t handle = nullptr;
  CHX_RETURN_IF_ERROR(Check("cublasCreate", library_->create(&handle)));
  handle_ = handle;
  // No TF32: a float32 product is as exact as its dtype.
  CHX_RETURN_IF_ERROR(
      Check("cublasSetMathMode", library_->set_math_mode(handle, CUBLAS_DEFAULT_MATH)));
  return Check("cublasSetStream", library_->set_stream(handle, stream));
}

absl::Status Blas::Gemm(cudaStream_t stream, const GemmCall& call) {
  if (handle_ == nullptr) CHX_RETURN_IF_ERROR(Open(stream));
  const bool wide = call.dtype == Dtype::kFloat64;
  const double scales64[2] = {1, call.accumulate ? 1.0 : 0.0};
  const float scales32[2] = {1, call.accumulate ? 1.0f : 0.0f};
  const void* const alpha = wide ? static_cast<const void*>(&scales64[0]) : &scales32[0];
  const void* const beta = wide ? static_cast<const void*>(&scales64[1]) : &scales32[1];
  const cudaDataType_t type = DataType(call.dtype);
  return Check(
      "cublasGemmStridedBatchedEx",
      library_->gemm(handle_, call.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                     call.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, call.m, call.n, call.k, alpha,
                     call.a, type, call.lda, call.a_stride, call.b, type, call.ldb, call.b_stride,
                     beta, call.c, type, call.ldc, call.c_stride, call.count,
                     wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

}  // namespace chx::server::cuda
