#include "server/cuda/testing/fake_cublas.h"

namespace {

using chx::server::cuda::FakeCublas;

FakeCublas fake;

struct Handle {
  bool has_stream = false;
};

Handle* From(cublasHandle_t handle) { return reinterpret_cast<Handle*>(handle); }

cublasStatus_t Take(cublasStatus_t* next) {
  const cublasStatus_t status = *next;
  *next = CUBLAS_STATUS_SUCCESS;
  return status;
}

}  // namespace

extern "C" {

FakeCublas* ChxFakeCublas() { return &fake; }

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  const cublasStatus_t status = Take(&fake.next_create);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  *handle = reinterpret_cast<cublasHandle_t>(new Handle);
  ++fake.created;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete From(handle);
  ++fake.destroyed;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t) {
  const cublasStatus_t status = Take(&fake.next_set_stream);
  From(handle)->has_stream = status == CUBLAS_STATUS_SUCCESS;
  return status;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void* workspace, size_t bytes) {
  fake.workspace = workspace;
  fake.workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t) { return "a fake status"; }
cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t handle, cublasOperation_t,
                                             cublasOperation_t, int64_t, int64_t, int64_t,
                                             const void*, const void*, cudaDataType, int64_t,
                                             long long int, const void*, cudaDataType, int64_t,
                                             long long int, const void*, void*, cudaDataType,
                                             int64_t, long long int, int64_t,
                                             cublasComputeType_t compute, cublasGemmAlgo_t) {
  fake.compute = compute;
  if (From(handle)->has_stream) ++fake.products;
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
