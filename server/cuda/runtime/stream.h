// A session's work on one GPU.
#ifndef CHX_SERVER_CUDA_RUNTIME_STREAM_H_
#define CHX_SERVER_CUDA_RUNTIME_STREAM_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "server/cuda/loops/kernel_stream.h"
#include "server/cuda/loops/late_check.h"
#include "server/cuda/runtime/upload_ring.h"
#include "server/cuda/runtime/work_share.h"
#include "server/cuda/vendor/blas.h"
#include "server/cuda/vendor/blas_lt.h"
#include "server/cuda/vendor/dnn_library.h"
#include "server/cuda/vendor/solver_library.h"

namespace chx::server::cuda {

class CudaDevice;
class CudaStream;

// The CUDA objects of a stream. CUDA waits for the whole device when they are created or destroyed,
// which would delay other sessions. So the device keeps them for the next session.
class StreamParts {
 public:
  // `priority`: as CUDA's, lower goes first.
  static absl::StatusOr<std::unique_ptr<StreamParts>> New(int priority);
  int priority() const { return priority_; }
  // Opens the libraries that there are, which takes long for the first time.
  void WarmUp();
  ~StreamParts();
  StreamParts(const StreamParts&) = delete;
  StreamParts& operator=(const StreamParts&) = delete;

 private:
  friend class CudaStream;
  // Slots of pinned memory, which copies use in turn.
  static constexpr int kSlots = 16;
  static constexpr size_t kSlotBytes = size_t{256} << 10;
  struct Slot {
    char* data = nullptr;
    cudaEvent_t done = nullptr;  // of the last copy that used the slot
  };

  explicit StreamParts(int priority) : priority_(priority) {}
  absl::Status Open();

  const int priority_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t copied_ = nullptr;  // of CopyDirectly
  char* pinned_ = nullptr;
  Finding* finding_ = nullptr;  // in pinned memory, after the slots
  Slot slots_[kSlots];
  int next_ = 0;
  Blas blas_;
  BlasLt blas_lt_;
  CudaDnn dnn_;
  CudaSolver solver_;
};

// Owned by the session's executor; used by one thread at a time. After an error that CUDA cannot
// recover from (an invalid access, say) the device is lost (DeviceHealth), and every call reports
// it.
class CudaStream : public KernelStream {
 public:
  CudaStream(CudaDevice* device, std::unique_ptr<StreamParts> parts);
  ~CudaStream() override;

  Device& device() override;
  // Large values in pinned memory are copied from there, which is waited for, but not for the
  // kernels before it. Others are copied to other pinned memory first; waits only if all of that is
  // under way.
  absl::Status CopyIn(void* dst, const void* src, size_t bytes) override;
  absl::Status CopyOut(void* dst, const void* src, size_t bytes) override;
  absl::Status Zero(void* dst, size_t bytes) override;
  absl::StatusOr<bool> CopyFrom(Stream& from, void* dst, const void* src, size_t bytes) override;
  absl::StatusOr<std::unique_ptr<StreamMark>> NewMark() override;
  absl::Status After(const StreamMark& mark) override;
  absl::Status Synchronize() override;
  absl::Status BeginKernel() override;
  absl::Status EndKernel() override;
  absl::StatusOr<std::unique_ptr<Sequence>> Capture(
      absl::FunctionRef<absl::Status()> queue) override;
  void Flush() override;
  absl::optional<LateError> TakeLateError() override { return TakeFinding(parts_->finding_); }
  absl::Status SetShare(TurnGroup* group, Worked worked) override;

  void* handle() override;
  absl::Status Launched() override;
  absl::StatusOr<bool> IsDone() override;
  absl::Status Pause() override;
  absl::Status Outcome(absl::string_view what, int error) override;
  Finding* finding() override { return parts_->finding_; }
  bool MakeRoom() override;
  absl::Status Gemm(const KernelArgs& args, const GemmCall& call) override;
  absl::StatusOr<bool> GemmWithBias(const KernelArgs& args, const GemmCall& call) override;
  Dnn* dnn() override;
  Solver* solver() override;

 private:
  friend class CudaSequence;
  // Makes the device the thread's current one; an error if it is lost.
  absl::Status Enter();
  absl::Status Check(absl::string_view what, cudaError_t error);
  absl::StatusOr<StreamParts::Slot*> NextSlot();
  // From pinned memory, through an UploadRing.
  absl::Status CopyAhead(char* to, const char* from, size_t bytes);
  absl::Status QueueAhead(char* to, const char* from, size_t bytes);
  // Of the session, for cuBLAS; smaller if there is no room.
  absl::StatusOr<absl::Span<char>> BlasWorkspace(const KernelArgs& args) const;
  // From or to pinned memory, and waits.
  absl::Status CopyDirectly(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind);
  // A call that cannot be in a sequence.
  absl::Status CheckNoCapture(absl::string_view what) const;
  absl::Status Launch(cudaGraphExec_t graph);
  // Marks the end of what the stream has been given, for the device's WorkShare.
  absl::Status ClosePiece();
  // A new mark at the end of the stream.
  absl::StatusOr<cudaEvent_t> Mark();
  // Waits until `done` returns something else than cudaErrorNotReady. If the command is to stop, it
  // returns an error at once while the work goes on, so its memory must not be freed yet.
  template <typename Done>
  absl::Status Await(absl::string_view what, const Done& done);

  CudaDevice* const device_;
  std::unique_ptr<StreamParts> parts_;
  absl::optional<WorkShare::Client> client_;
  std::unique_ptr<UploadRing> ring_;  // null: not yet, or there was no memory for it
  bool captures_ = false;
};

class CudaMark final : public StreamMark {
 public:
  CudaMark(CudaDevice* device, cudaEvent_t event) : device_(*device), event_(event) {}
  ~CudaMark() override;
  bool IsReached() const override;
  cudaEvent_t event() const { return event_; }

 private:
  CudaDevice& device_;
  const cudaEvent_t event_;
};

// A CUDA graph of kernels.
class CudaSequence : public Sequence {
 public:
  CudaSequence(CudaStream* stream, cudaGraphExec_t graph) : stream_(stream), graph_(graph) {}
  ~CudaSequence() override;

  absl::Status Repeat() override;

 private:
  CudaStream* const stream_;
  const cudaGraphExec_t graph_;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_RUNTIME_STREAM_H_
