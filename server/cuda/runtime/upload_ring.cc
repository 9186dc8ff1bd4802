#include "server/cuda/runtime/upload_ring.h"

#include "ops/error.h"
#include "server/cuda/runtime/device.h"

namespace chx::server::cuda {

absl::StatusOr<std::unique_ptr<UploadRing>> UploadRing::New(CudaDevice* device) {
  std::unique_ptr<UploadRing> ring(new UploadRing(device));
  CHX_RETURN_IF_ERROR(ring->Open());
  return ring;
}

absl::Status UploadRing::Open() {
  CHX_ASSIGN_OR_RETURN(void* const memory, device_->AllocateSlab(kParts * kPartBytes));
  memory_ = static_cast<char*>(memory);
  CHX_RETURN_IF_ERROR(device_->Check("cudaStreamCreate",
                                     cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)));
  for (int i = 0; i < kParts; ++i) {
    parts_[i].data = memory_ + i * kPartBytes;
    for (cudaEvent_t* const event : {&parts_[i].filled, &parts_[i].free}) {
      CHX_RETURN_IF_ERROR(device_->Check("cudaEventCreate",
                                         cudaEventCreateWithFlags(event, cudaEventDisableTiming)));
    }
  }
  return absl::OkStatus();
}

UploadRing::~UploadRing() {
  for (const Part& part : parts_) {
    for (const cudaEvent_t event : {part.filled, part.free}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
  if (memory_ != nullptr) device_->FreeSlab(memory_, kParts * kPartBytes);
  cudaGetLastError();
}

UploadRing::Part& UploadRing::Next() {
  Part& part = parts_[next_];
  next_ = (next_ + 1) % kParts;
  return part;
}

}  // namespace chx::server::cuda
