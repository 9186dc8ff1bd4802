#include "server/cuda/runtime/cuda_backend.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/runtime/device.h"
#include "server/cuda/vendor/blas.h"
#include "server/cuda/vendor/cuda_status.h"
#include "server/cuda/vendor/dnn_library.h"
#include "server/cuda/vendor/nccl_library.h"
#include "server/cuda/vendor/solver_library.h"

namespace chx::server::cuda {
namespace {

// Owned by the daemon. Immutable; safe from any thread.
class CudaBackend : public Backend {
 public:
  explicit CudaBackend(int device_count) : device_count_(device_count) {}

  const std::string& name() const override { return name_; }
  int device_count() const override { return device_count_; }
  absl::StatusOr<std::unique_ptr<Device>> OpenDevice(int index) override {
    if (index < 0 || index >= device_count_) {
      return DeviceError("there is no cuda:", index, "; this machine has ", device_count_);
    }
    CHX_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Open(index));
    return std::unique_ptr<Device>(std::move(device));
  }

 private:
  const std::string name_ = "cuda";
  const int device_count_;
};

// CUDA 13 runs on drivers from R580 on.
constexpr char kDriverAdvice[] =
    " (CUDA 13: R580 or newer on the host; a container needs NVIDIA's container toolkit, too: "
    "docker run --gpus=all, or runtimeClassName on Kubernetes)";

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace
}  // namespace chx::server::cuda

chx::server::Backend* ChxCreateBackend(int abi, std::string* error) {
  if (abi != chx::server::kBackendAbi) {
    *error = absl::StrCat("made for backend interface ", chx::server::kBackendAbi,
                          ", but the daemon has interface ", abi);
    return nullptr;
  }
  // Read by the first call. A kernel that is loaded when it is first used may wait for all others
  // on the device; and with few connections streams of many sessions wait for each other.
  setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  // NCCL's ranks find each other by sockets, which take whoever connects: also if they are threads
  // of one process. They are the host's own unless the operator names an interface.
  setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    cudaGetLastError();
    *error = absl::StrCat("no NVIDIA driver was found (libcuda.so.1): CUDA ",
                          chx::server::cuda::VersionText(CUDART_VERSION), " needs one",
                          chx::server::cuda::kDriverAdvice);
    return nullptr;
  }
  int count = 0;
  const absl::Status status =
      chx::server::cuda::CudaStatus("cudaGetDeviceCount", cudaGetDeviceCount(&count));
  if (!status.ok() || count == 0) {
    int runtime = 0;
    cudaRuntimeGetVersion(&runtime);
    *error = absl::StrCat(
        "no GPU can be used: ", status.ok() ? "there is none" : std::string(status.message()),
        "; the driver is for CUDA ", chx::server::cuda::VersionText(driver),
        ", this plug-in for CUDA ", chx::server::cuda::VersionText(runtime),
        chx::server::cuda::kDriverAdvice);
    return nullptr;
  }
  return new chx::server::cuda::CudaBackend(count);
}

const chx::server::KernelTable* ChxCudaKernelTable() {
  static const auto* const table = new chx::server::KernelTable(chx::server::cuda::AllKernels());
  return table;
}

void ChxCudaBlasError(std::string* error) {
  *error = std::string(chx::server::cuda::OpenBlas().status().message());
}

void ChxCudaDnnError(std::string* error) {
  *error = std::string(chx::server::cuda::OpenDnn().status().message());
}

void ChxCudaRnnError(std::string* error) {
  *error = std::string(chx::server::cuda::DescribeRnns().message());
}

void ChxCudaNcclError(std::string* error) {
  *error = std::string(chx::server::cuda::OpenNccl().status().message());
}

void ChxCudaSolverError(std::string* error) {
  *error = std::string(chx::server::cuda::OpenSolver().status().message());
}
