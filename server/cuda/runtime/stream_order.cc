// How streams follow one another.
#include <memory>

#include "ops/error.h"
#include "server/cuda/runtime/device.h"
#include "server/cuda/runtime/stream.h"

namespace chx::server::cuda {

CudaMark::~CudaMark() {
  if (!device_.health().lost()) cudaEventDestroy(event_);
}

bool CudaMark::IsReached() const {
  if (device_.health().lost()) return true;
  const cudaError_t state = cudaEventQuery(event_);
  cudaGetLastError();  // else the next launch would report it
  return state != cudaErrorNotReady;
}

absl::StatusOr<std::unique_ptr<StreamMark>> CudaStream::NewMark() {
  CHX_RETURN_IF_ERROR(CheckNoCapture("mark"));
  CHX_RETURN_IF_ERROR(Enter());
  cudaEvent_t event = nullptr;
  CHX_RETURN_IF_ERROR(
      Check("cudaEventCreate", cudaEventCreateWithFlags(&event, cudaEventDisableTiming)));
  auto mark = std::make_unique<CudaMark>(device_, event);
  CHX_RETURN_IF_ERROR(Check("cudaEventRecord", cudaEventRecord(event, parts_->stream_)));
  return mark;
}

absl::Status CudaStream::After(const StreamMark& mark) {
  CHX_RETURN_IF_ERROR(CheckNoCapture("mark"));
  CHX_RETURN_IF_ERROR(Enter());
  const cudaEvent_t event = static_cast<const CudaMark&>(mark).event();
  return Check("cudaStreamWaitEvent", cudaStreamWaitEvent(parts_->stream_, event, 0));
}

absl::StatusOr<bool> CudaStream::CopyFrom(Stream& from, void* dst, const void* src, size_t bytes) {
  CHX_RETURN_IF_ERROR(CheckNoCapture("copy"));
  auto* const source = dynamic_cast<CudaStream*>(&from);
  if (source == nullptr) return false;
  if (bytes == 0) return true;
  CHX_ASSIGN_OR_RETURN(const std::unique_ptr<StreamMark> written, source->NewMark());
  CHX_RETURN_IF_ERROR(After(*written));
  CHX_RETURN_IF_ERROR(Check("copy between devices",
                            cudaMemcpyPeerAsync(dst, device_->index(), src,
                                                source->device_->index(), bytes, parts_->stream_)));
  // The source's memory may be used for something else by what comes next there.
  CHX_ASSIGN_OR_RETURN(const std::unique_ptr<StreamMark> read, NewMark());
  CHX_RETURN_IF_ERROR(source->After(*read));
  return true;
}

}  // namespace chx::server::cuda
