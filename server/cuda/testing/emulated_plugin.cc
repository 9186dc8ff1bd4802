// Stands in for libchxd_cuda.so: a daemon then serves the emulated backend as "cuda:0". With
// CHX_EMULATED_LIBRARIES in the environment it has cuDNN and cuSOLVER.
#include <cstdlib>

#include "server/cuda/testing/emulated_backend.h"

extern "C" chx::server::Backend* ChxCreateBackend(int abi, std::string* error) {
  if (abi == chx::server::kBackendAbi) {
    const bool libraries = std::getenv("CHX_EMULATED_LIBRARIES") != nullptr;
    return chx::server::cuda::NewEmulatedBackend("cuda", libraries).release();
  }
  *error = "made for another backend interface";
  return nullptr;
}
