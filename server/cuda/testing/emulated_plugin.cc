// libchxd_emulated.so: lets a daemon serve the emulated backend, for end-to-end tests.
#include "server/cuda/testing/emulated_backend.h"

extern "C" chx::Backend* ChxCreateBackend(int abi, std::string* error) {
  if (abi == chx::kBackendAbi) return chx::cuda::NewEmulatedBackend().release();
  *error = "made for another backend interface";
  return nullptr;
}
