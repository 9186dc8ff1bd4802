#ifndef CHX_SERVER_CUDA_RUNTIME_PROBE_H_
#define CHX_SERVER_CUDA_RUNTIME_PROBE_H_

#include <cuda_runtime_api.h>

namespace chx::server::cuda {

// Whether the plug-in holds code that runs on the current device.
cudaError_t ProbeKernels();

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_RUNTIME_PROBE_H_
