// The "cuda" backend, with one device per visible GPU: the functions that libchxd_cuda.so exports.
#ifndef CHX_SERVER_CUDA_RUNTIME_CUDA_BACKEND_H_
#define CHX_SERVER_CUDA_RUNTIME_CUDA_BACKEND_H_

#include <string>

#include "server/engine/backend.h"

extern "C" {

// kBackendEntryPoint; null with *error set where there is no driver or no GPU, or for another abi.
chx::server::Backend* ChxCreateBackend(int abi, std::string* error);
// The kernels of every device of the backend. Needs no GPU; for tests.
const chx::server::KernelTable* ChxCudaKernelTable();
// Empty if cuBLAS, cuDNN, NCCL or cuSOLVER can be opened, else what is missing. Need no GPU; for
// tests.
void ChxCudaBlasError(std::string* error);
void ChxCudaDnnError(std::string* error);
void ChxCudaNcclError(std::string* error);
void ChxCudaSolverError(std::string* error);
// Empty if cuDNN accepts the descriptors of recurrent networks (DescribeRnns), else the error.
void ChxCudaRnnError(std::string* error);

}  // extern "C"

#endif  // CHX_SERVER_CUDA_RUNTIME_CUDA_BACKEND_H_
