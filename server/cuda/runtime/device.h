// One GPU as a device: its memory and the parts that streams are made of.
#ifndef CHX_SERVER_CUDA_RUNTIME_DEVICE_H_
#define CHX_SERVER_CUDA_RUNTIME_DEVICE_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "server/cuda/runtime/stream.h"
#include "server/cuda/vendor/nccl_library.h"
#include "server/engine/backend.h"
#include "server/engine/kernel.h"

namespace chx::server::cuda {

// Made by the backend's OpenDevice, owned by the engine, outlives its streams. Thread-safe.
class CudaDevice : public Device {
 public:
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int index);
  ~CudaDevice() override;

  const std::string& name() const override { return name_; }
  size_t memory_bytes() const override { return memory_bytes_; }
  const KernelTable& kernels() const override { return kernels_; }
  bool has_sequences() const override { return true; }
  bool has_late_errors() const override { return true; }
  std::string hardware_id() const override { return bus_id_; }
  absl::Status OpenCommunicators() override { return OpenNccl().status(); }
  absl::StatusOr<std::string> NewCommunicatorId() override { return NewNcclId(); }
  absl::StatusOr<std::unique_ptr<Communicator>> NewCommunicator(absl::string_view id, int size,
                                                                absl::Span<const DeviceRank> ranks,
                                                                GoesOn goes_on) override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;
  // From a memory pool of our own; waits until the slab is filled with zeros.
  absl::StatusOr<void*> AllocateSlab(size_t bytes) override;
  void FreeSlab(void* slab, size_t bytes) override;
  void Pin(char* memory, size_t bytes) override;
  void Unpin(char* memory) override;

  int index() const { return index_; }
  // The error of a CUDA call; one that lasts is the device's loss.
  absl::Status Check(absl::string_view what, cudaError_t error);
  // Gives freed slabs back to the driver, for what allocates without the pool.
  void TrimPool();
  // What NVIDIA recommends for products of matrices.
  size_t blas_workspace() const { return blas_workspace_; }
  // Keeps them for the next stream. All their work is done.
  void KeepParts(std::unique_ptr<StreamParts> parts);
  // Kept ones, or new ones.
  absl::StatusOr<std::unique_ptr<StreamParts>> TakeParts(int priority);
  // CUDA's for a tenant's, of which higher ones go first.
  int StreamPriority(int priority) const;
  WorkShare& work() { return work_; }

 private:
  explicit CudaDevice(int index);
  absl::Status Init();
  // Lets the GPUs that can reach this one's memory do so, for copies between them.
  void OpenToPeers();

  const int index_;
  const std::string name_;
  const KernelTable kernels_;
  size_t memory_bytes_ = 0;
  std::string bus_id_;
  int least_priority_ = 0;  // of streams; the greatest, which fills have, is lower
  int greatest_priority_ = 0;
  size_t blas_workspace_ = size_t{4} << 20;
  cudaMemPool_t pool_ = nullptr;
  // Orders allocations, fills and frees, before what other streams have queued.
  cudaStream_t allocations_ = nullptr;
  Mutex mutex_;
  std::vector<std::unique_ptr<StreamParts>> kept_ ABSL_GUARDED_BY(mutex_);
  WorkShare work_;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_RUNTIME_DEVICE_H_
