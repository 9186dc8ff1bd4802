#include "server/cuda/testing/fake_cublas.h"

#include <cstdint>

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

// As the libraries want it.
bool IsAligned(const void* workspace) { return reinterpret_cast<uintptr_t>(workspace) % 256 == 0; }

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
  if (!IsAligned(workspace)) return CUBLAS_STATUS_INVALID_VALUE;
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

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new Handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<Handle*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "a fake status"; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t) {
  *product = new cublasLtMatmulDescOpaque_t();
  fake.compute = compute;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete product;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t) {
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) {
    fake.bias = *static_cast<const void* const*>(value);
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType, uint64_t,
                                          uint64_t, int64_t) {
  *layout = new cublasLtMatrixLayoutOpaque_t();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t*, int* count) {
  ++fake.choices;
  *count = fake.has_algorithms ? 1 : 0;
  return fake.has_algorithms ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,
                              cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t,
                              const void*, const void*, cublasLtMatrixLayout_t, void*,
                              cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void* workspace,
                              size_t bytes, cudaStream_t) {
  const cublasStatus_t status = Take(&fake.next_product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (!IsAligned(workspace)) return CUBLAS_STATUS_INVALID_VALUE;
  ++fake.biased_products;
  fake.workspace = workspace;
  fake.workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
