#include "server/cuda/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/error.h"
#include "server/cuda/cuda_status.h"
#include "server/cuda/device.h"

namespace chx::cuda {

absl::StatusOr<std::unique_ptr<StreamParts>> StreamParts::New() {
  std::unique_ptr<StreamParts> parts(new StreamParts);
  CHX_RETURN_IF_ERROR(parts->Open());
  return parts;
}

absl::Status StreamParts::Open() {
  CHX_RETURN_IF_ERROR(
      CudaStatus("cudaStreamCreate", cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)));
  dnn_.set_stream(stream_);
  solver_.set_stream(stream_);
  void* memory = nullptr;
  CHX_RETURN_IF_ERROR(CudaStatus(
      "cudaHostAlloc", cudaHostAlloc(&memory, kSlots * kSlotBytes, cudaHostAllocDefault)));
  pinned_ = static_cast<char*>(memory);
  for (int i = 0; i < kSlots; ++i) {
    slots_[i].data = pinned_ + i * kSlotBytes;
    CHX_RETURN_IF_ERROR(CudaStatus(
        "cudaEventCreate", cudaEventCreateWithFlags(&slots_[i].done, cudaEventDisableTiming)));
  }
  return absl::OkStatus();
}

StreamParts::~StreamParts() {
  for (Slot& slot : slots_) {
    if (slot.done != nullptr) cudaEventDestroy(slot.done);
  }
  if (pinned_ != nullptr) cudaFreeHost(pinned_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
  cudaGetLastError();
}

CudaStream::CudaStream(CudaDevice* device, std::unique_ptr<StreamParts> parts)
    : device_(device), parts_(std::move(parts)) {}

CudaStream::~CudaStream() {
  if (Synchronize().ok()) device_->KeepParts(std::move(parts_));
}

Device& CudaStream::device() { return *device_; }

absl::Status CudaStream::Check(absl::string_view what, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  const absl::Status status = CudaStatus(what, error);
  // Errors that last are returned by whatever comes next.
  const cudaError_t after = cudaStreamQuery(parts_->stream_);
  if (after != cudaSuccess && after != cudaErrorNotReady) broken_ = status;
  cudaGetLastError();
  return status;
}

absl::Status CudaStream::Enter() {
  if (!broken_.ok()) return broken_;
  return Check("cudaSetDevice", cudaSetDevice(device_->index()));
}

void* CudaStream::handle() {
  // A failure shows at the launch.
  static_cast<void>(cudaSetDevice(device_->index()));
  return parts_->stream_;
}

absl::Status CudaStream::Launched() {
  const cudaError_t error = cudaGetLastError();
  return broken_.ok() ? Check("launch", error) : broken_;
}

absl::Status CudaStream::Gemm(const GemmCall& call) {
  CHX_RETURN_IF_ERROR(Enter());
  CHX_RETURN_IF_ERROR(parts_->blas_.Gemm(parts_->stream_, call));
  return Launched();
}

Dnn* CudaStream::dnn() { return settings().use_cudnn && OpenDnn().ok() ? &parts_->dnn_ : nullptr; }

Solver* CudaStream::solver() { return OpenSolver().ok() ? &parts_->solver_ : nullptr; }

absl::StatusOr<StreamParts::Slot*> CudaStream::NextSlot() {
  StreamParts::Slot* const slot = &parts_->slots_[parts_->next_];
  parts_->next_ = (parts_->next_ + 1) % StreamParts::kSlots;
  CHX_RETURN_IF_ERROR(Check("copy", cudaEventSynchronize(slot->done)));
  return slot;
}

absl::Status CudaStream::CopyIn(void* dst, const void* src, size_t bytes) {
  CHX_RETURN_IF_ERROR(Enter());
  char* to = static_cast<char*>(dst);
  const char* from = static_cast<const char*>(src);
  while (bytes > 0) {
    const size_t part = std::min(bytes, StreamParts::kSlotBytes);
    CHX_ASSIGN_OR_RETURN(StreamParts::Slot* const slot, NextSlot());
    std::memcpy(slot->data, from, part);
    CHX_RETURN_IF_ERROR(
        Check("copy to the device",
              cudaMemcpyAsync(to, slot->data, part, cudaMemcpyHostToDevice, parts_->stream_)));
    CHX_RETURN_IF_ERROR(Check("cudaEventRecord", cudaEventRecord(slot->done, parts_->stream_)));
    to += part;
    from += part;
    bytes -= part;
  }
  return absl::OkStatus();
}

absl::Status CudaStream::CopyOut(void* dst, const void* src, size_t bytes) {
  CHX_RETURN_IF_ERROR(Enter());
  char* const to = static_cast<char*>(dst);
  const char* const from = static_cast<const char*>(src);
  struct Part {
    StreamParts::Slot* slot;
    size_t offset;
    size_t bytes;
  };
  // Half of the slots under way: the others' last copies must not be waited for.
  constexpr int kAhead = StreamParts::kSlots / 2;
  Part parts[kAhead];
  int first = 0;
  int count = 0;
  size_t offset = 0;
  while (offset < bytes || count > 0) {
    if (offset < bytes && count < kAhead) {
      Part& part = parts[(first + count++) % kAhead];
      CHX_ASSIGN_OR_RETURN(part.slot, NextSlot());
      part.offset = offset;
      part.bytes = std::min(bytes - offset, StreamParts::kSlotBytes);
      offset += part.bytes;
      CHX_RETURN_IF_ERROR(Check("copy from the device",
                                cudaMemcpyAsync(part.slot->data, from + part.offset, part.bytes,
                                                cudaMemcpyDeviceToHost, parts_->stream_)));
      CHX_RETURN_IF_ERROR(
          Check("cudaEventRecord", cudaEventRecord(part.slot->done, parts_->stream_)));
      continue;
    }
    const Part& part = parts[first];
    CHX_RETURN_IF_ERROR(Check("copy from the device", cudaEventSynchronize(part.slot->done)));
    std::memcpy(to + part.offset, part.slot->data, part.bytes);
    first = (first + 1) % kAhead;
    --count;
  }
  return absl::OkStatus();
}

absl::Status CudaStream::Zero(void* dst, size_t bytes) {
  CHX_RETURN_IF_ERROR(Enter());
  if (bytes == 0) return absl::OkStatus();
  return Check("cudaMemsetAsync", cudaMemsetAsync(dst, 0, bytes, parts_->stream_));
}

absl::Status CudaStream::Synchronize() {
  CHX_RETURN_IF_ERROR(Enter());
  return Check("cudaStreamSynchronize", cudaStreamSynchronize(parts_->stream_));
}

}  // namespace chx::cuda
