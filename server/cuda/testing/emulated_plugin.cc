// Stands in for libchxd_cuda.so: a daemon then serves the emulated backend as "cuda:0".
#include "server/cuda/testing/emulated_backend.h"

extern "C" chx::Backend* ChxCreateBackend(int abi, std::string* error) {
  if (abi == chx::kBackendAbi) return chx::cuda::NewEmulatedBackend("cuda").release();
  *error = "made for another backend interface";
  return nullptr;
}
