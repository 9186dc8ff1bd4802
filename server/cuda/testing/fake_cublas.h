// What a test sees of fake_cublas.cc, a library in cuBLAS's place.
#ifndef CHX_SERVER_CUDA_TESTING_FAKE_CUBLAS_H_
#define CHX_SERVER_CUDA_TESTING_FAKE_CUBLAS_H_

#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstddef>

namespace chx::server::cuda {

struct FakeCublas {
  // What the next call returns; then they succeed again.
  cublasStatus_t next_create = CUBLAS_STATUS_SUCCESS;
  cublasStatus_t next_set_stream = CUBLAS_STATUS_SUCCESS;

  int created = 0;
  int destroyed = 0;
  int products = 0;                                  // by handles that have a stream
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;  // of the last one
  void* workspace = nullptr;
  size_t workspace_bytes = 0;

  // Of cuBLASLt, whose functions are in the same library.
  bool has_algorithms = true;
  cublasStatus_t next_product = CUBLAS_STATUS_SUCCESS;
  int choices = 0;
  int biased_products = 0;
  const void* bias = nullptr;  // of the last one
};

}  // namespace chx::server::cuda

// "ChxFakeCublas" of the library.
using ChxFakeCublasFunction = chx::server::cuda::FakeCublas*();

#endif  // CHX_SERVER_CUDA_TESTING_FAKE_CUBLAS_H_
