#include "server/cuda/runtime/device.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/runtime/pinned_ranges.h"
#include "server/cuda/runtime/probe.h"
#include "server/cuda/vendor/cuda_status.h"
#include "server/cuda/vendor/nccl_communicator.h"

namespace chx::server::cuda {
namespace {

// Beyond these, the parts of a closed stream are freed.
constexpr size_t kMaxKept = 64;

// The time between two events; none while the device has not come to the second one.
absl::optional<WorkShare::Duration> Elapsed(WorkShare::Event from, WorkShare::Event to) {
  const auto end = static_cast<cudaEvent_t>(to);
  const cudaError_t state = cudaEventQuery(end);
  float milliseconds = 0;
  if (state == cudaSuccess) {
    cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(from), end);
  }
  cudaGetLastError();  // a lost device shows elsewhere, too
  if (state == cudaErrorNotReady) return absl::nullopt;
  return std::chrono::duration_cast<WorkShare::Duration>(
      std::chrono::duration<float, std::milli>(milliseconds));
}

}  // namespace

CudaDevice::CudaDevice(int index)
    : index_(index), name_(absl::StrCat("cuda:", index)), kernels_(AllKernels()), work_(Elapsed) {}

CudaDevice::~CudaDevice() {
  if (health().lost()) {
    // The libraries' calls are undefined then, also those that destroy; the process ends soon.
    for (std::unique_ptr<StreamParts>& parts : kept_) static_cast<void>(parts.release());
    return;
  }
  // The engine is done with its streams.
  cudaSetDevice(index_);
  for (const WorkShare::Event event : work_.TakeAll()) {
    cudaEventDestroy(static_cast<cudaEvent_t>(event));
  }
  kept_.clear();
  if (allocations_ != nullptr) {
    cudaStreamSynchronize(allocations_);
    cudaStreamDestroy(allocations_);
  }
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
  cudaGetLastError();
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(int index) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(index));
  CHX_RETURN_IF_ERROR(device->Init());
  return device;
}

absl::Status CudaDevice::Init() {
  CHX_RETURN_IF_ERROR(CudaStatus("cudaSetDevice", cudaSetDevice(index_)));
  // On a GPU that this plug-in has no code for, fails here and not at the first kernel.
  CHX_RETURN_IF_ERROR(CudaStatus(absl::StrCat("kernels for ", name_), ProbeKernels()));
  int has_pools = 0;
  CHX_RETURN_IF_ERROR(
      CudaStatus("cudaDeviceGetAttribute",
                 cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, index_)));
  int major = 0;
  CHX_RETURN_IF_ERROR(
      CudaStatus("cudaDeviceGetAttribute",
                 cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index_)));
  if (major >= 9) blas_workspace_ = size_t{32} << 20;
  if (has_pools == 0) return DeviceError("cuda: ", name_, " has no memory pools");
  size_t free_bytes = 0;
  CHX_RETURN_IF_ERROR(CudaStatus("cudaMemGetInfo", cudaMemGetInfo(&free_bytes, &memory_bytes_)));
  char bus_id[32] = {};
  // Without it the device works, too, but is in no communicator.
  if (cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), index_) == cudaSuccess) bus_id_ = bus_id;
  cudaGetLastError();

  cudaMemPoolProps props = {};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = index_;
  CHX_RETURN_IF_ERROR(CudaStatus("cudaMemPoolCreate", cudaMemPoolCreate(&pool_, &props)));
  // The pool keeps what is freed. Else any session's synchronization would unmap it.
  uint64_t threshold = UINT64_MAX;
  CHX_RETURN_IF_ERROR(
      CudaStatus("cudaMemPoolSetAttribute",
                 cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold)));
  OpenToPeers();
  CHX_RETURN_IF_ERROR(
      CudaStatus("cudaDeviceGetStreamPriorityRange",
                 cudaDeviceGetStreamPriorityRange(&least_priority_, &greatest_priority_)));
  // The first session finds the libraries open.
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<StreamParts> parts, StreamParts::New(StreamPriority(0)));
  parts->WarmUp();
  KeepParts(std::move(parts));
  return CudaStatus(
      "cudaStreamCreate",
      cudaStreamCreateWithPriority(&allocations_, cudaStreamNonBlocking, greatest_priority_));
}

void CudaDevice::OpenToPeers() {
  int count = 0;
  cudaGetDeviceCount(&count);
  for (int peer = 0; peer < count; ++peer) {
    int reaches = 0;
    if (peer == index_ || cudaDeviceCanAccessPeer(&reaches, peer, index_) != cudaSuccess ||
        reaches == 0) {
      continue;
    }
    cudaMemAccessDesc access = {};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = peer;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    // Without it the driver copies by way of the host.
    cudaMemPoolSetAccess(pool_, &access, 1);
  }
  cudaGetLastError();
}

absl::Status CudaDevice::Check(absl::string_view what, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  const absl::Status status = CudaStatus(what, error);
  // Errors that last are returned by the next call too.
  const cudaError_t after = cudaStreamQuery(allocations_);
  cudaGetLastError();
  if (after != cudaSuccess && after != cudaErrorNotReady) health().Lose(status);
  return status;
}

void CudaDevice::TrimPool() {
  cudaStreamSynchronize(allocations_);
  cudaMemPoolTrimTo(pool_, 0);
  cudaGetLastError();
}

int CudaDevice::StreamPriority(int priority) const {
  const int above_least = least_priority_ - 1 - priority;
  return std::clamp(above_least, std::min(greatest_priority_ + 1, least_priority_),
                    least_priority_);
}

absl::StatusOr<std::unique_ptr<StreamParts>> CudaDevice::TakeParts(int priority) {
  {
    MutexLock lock(&mutex_);
    const auto kept = std::find_if(kept_.rbegin(), kept_.rend(), [priority](const auto& parts) {
      return parts->priority() == priority;
    });
    if (kept != kept_.rend()) {
      std::unique_ptr<StreamParts> parts = std::move(*kept);
      kept_.erase(std::next(kept).base());
      return parts;
    }
  }
  return StreamParts::New(priority);
}

absl::StatusOr<std::unique_ptr<Communicator>> CudaDevice::NewCommunicator(
    absl::string_view id, int size, absl::Span<const DeviceRank> ranks, GoesOn goes_on) {
  for (const DeviceRank& rank : ranks) {
    if (dynamic_cast<CudaStream*>(rank.stream) == nullptr) {
      return absl::UnimplementedError("cuda: not all ranks are on GPUs");
    }
  }
  return NcclCommunicator::New(id, size, ranks, goes_on);
}

absl::StatusOr<std::unique_ptr<Stream>> CudaDevice::NewStream() {
  CHX_RETURN_IF_ERROR(Check("cudaSetDevice", cudaSetDevice(index_)));
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<StreamParts> parts, TakeParts(StreamPriority(0)));
  return std::unique_ptr<Stream>(std::make_unique<CudaStream>(this, std::move(parts)));
}

void CudaDevice::KeepParts(std::unique_ptr<StreamParts> parts) {
  MutexLock lock(&mutex_);
  if (kept_.size() < kMaxKept) kept_.push_back(std::move(parts));
}

absl::StatusOr<void*> CudaDevice::AllocateSlab(size_t bytes) {
  CHX_RETURN_IF_ERROR(Check("cudaSetDevice", cudaSetDevice(index_)));
  const std::string what = absl::StrCat("allocation of ", bytes, " bytes on ", name_);
  void* slab = nullptr;
  const size_t rounded = bytes > 0 ? bytes : 1;
  CHX_RETURN_IF_ERROR(Check(what, cudaMallocFromPoolAsync(&slab, rounded, pool_, allocations_)));
  absl::Status status = Check("cudaMemsetAsync", cudaMemsetAsync(slab, 0, rounded, allocations_));
  // Other streams use the slab without waiting for this one.
  if (status.ok()) status = Check(what, cudaStreamSynchronize(allocations_));
  if (!status.ok()) {
    FreeSlab(slab, bytes);
    return status;
  }
  return slab;
}

void CudaDevice::FreeSlab(void* slab, size_t) {
  cudaSetDevice(index_);
  // Fails only after a lasting error, which the streams report.
  cudaFreeAsync(slab, allocations_);
  cudaGetLastError();
}

void CudaDevice::Pin(char* memory, size_t bytes) {
  cudaSetDevice(index_);
  PinnedRanges::Global().Add(memory, bytes);
}

void CudaDevice::Unpin(char* memory) {
  cudaSetDevice(index_);
  PinnedRanges::Global().Remove(memory);
}

}  // namespace chx::server::cuda
