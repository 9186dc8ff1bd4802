#include "server/cuda/runtime/probe.h"

namespace chx::server::cuda {
namespace {

__global__ void Nothing() {}

}  // namespace

cudaError_t ProbeKernels() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, Nothing);
}

}  // namespace chx::server::cuda
