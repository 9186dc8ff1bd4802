// Memory of a GPU that large uploads pass through.
#ifndef CHX_SERVER_CUDA_RUNTIME_UPLOAD_RING_H_
#define CHX_SERVER_CUDA_RUNTIME_UPLOAD_RING_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace chx::server::cuda {

class CudaDevice;

// An array's memory may still be in use by kernels of the session that are queued, so a copy from
// the host to it has to wait for them, and whoever waits for the copy waits for them, too. A copy
// to a part of the ring does not: it is on a stream of its own, beside the kernels. Then the
// session's stream copies it on, which takes a twentieth of the time.
class UploadRing {
 public:
  static constexpr int kParts = 16;
  static constexpr size_t kPartBytes = size_t{2} << 20;
  struct Part {
    char* data = nullptr;
    cudaEvent_t filled = nullptr;  // by the host
    cudaEvent_t free = nullptr;    // what it was filled with last has been copied on
  };

  // Outside of the session's limit. The device outlives it.
  static absl::StatusOr<std::unique_ptr<UploadRing>> New(CudaDevice* device);
  // After all work on it.
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  cudaStream_t stream() const { return stream_; }
  Part& Next();

 private:
  explicit UploadRing(CudaDevice* device) : device_(device) {}
  absl::Status Open();

  CudaDevice* const device_;
  cudaStream_t stream_ = nullptr;
  char* memory_ = nullptr;
  Part parts_[kParts];
  int next_ = 0;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_RUNTIME_UPLOAD_RING_H_
