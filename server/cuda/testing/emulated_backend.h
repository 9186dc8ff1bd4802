// The cuda backend's kernels on the CPU: bodies, index arithmetic and launch configurations are the
// ones that run on a GPU (launch.h); memory, streams and cuBLAS are stand-ins. For tests only.
#ifndef CHX_SERVER_CUDA_TESTING_EMULATED_BACKEND_H_
#define CHX_SERVER_CUDA_TESTING_EMULATED_BACKEND_H_

#include <memory>
#include <string>

#include "server/engine/backend.h"

namespace chx::server::cuda {

// With one device, `name`:0. `libraries`: as if cuDNN and cuSOLVER were installed.
std::unique_ptr<Backend> NewEmulatedBackend(const std::string& name, bool libraries = false);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_TESTING_EMULATED_BACKEND_H_
