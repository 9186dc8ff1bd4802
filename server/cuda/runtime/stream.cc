#include "server/cuda/runtime/stream.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "ops/error.h"
#include "server/cuda/runtime/device.h"
#include "server/cuda/runtime/pinned_ranges.h"
#include "server/cuda/vendor/cuda_status.h"
#include "server/cuda/vendor/library.h"
#include "server/engine/stop_token.h"

namespace chx::server::cuda {
namespace {

// Enough for each of cuBLAS's functions to work, some of them slowly.
constexpr size_t kLeastWorkspace = size_t{16} << 10;
constexpr size_t kWorkspaceAlignment = 256;       // which scratch memory need not have
constexpr double kMaxProduct = int64_t{1} << 39;  // multiplications of one call of cuBLAS
// To wait for the copy of a smaller value takes longer than to copy it aside.
constexpr size_t kLeastDirectIn = size_t{1} << 20;
constexpr size_t kLeastDirectOut = size_t{64} << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<StreamParts>> StreamParts::New(int priority) {
  std::unique_ptr<StreamParts> parts(new StreamParts(priority));
  CHX_RETURN_IF_ERROR(parts->Open());
  return parts;
}

absl::Status StreamParts::Open() {
  CHX_RETURN_IF_ERROR(
      CudaStatus("cudaStreamCreate",
                 cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority_)));
  dnn_.set_stream(stream_);
  solver_.set_stream(stream_);
  CHX_RETURN_IF_ERROR(
      CudaStatus("cudaEventCreate", cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming)));
  void* memory = nullptr;
  CHX_RETURN_IF_ERROR(CudaStatus(
      "cudaHostAlloc",
      cudaHostAlloc(&memory, kSlots * kSlotBytes + sizeof(Finding), cudaHostAllocMapped)));
  pinned_ = static_cast<char*>(memory);
  finding_ = new (pinned_ + kSlots * kSlotBytes) Finding();
  for (int i = 0; i < kSlots; ++i) {
    slots_[i].data = pinned_ + i * kSlotBytes;
    CHX_RETURN_IF_ERROR(CudaStatus(
        "cudaEventCreate", cudaEventCreateWithFlags(&slots_[i].done, cudaEventDisableTiming)));
  }
  return absl::OkStatus();
}

void StreamParts::WarmUp() {
  // What fails here fails again, and is reported, when it is needed.
  blas_.Open(stream_).IgnoreError();
  blas_lt_.Open().IgnoreError();
  dnn_.Open().IgnoreError();
}

StreamParts::~StreamParts() {
  for (Slot& slot : slots_) {
    if (slot.done != nullptr) cudaEventDestroy(slot.done);
  }
  if (copied_ != nullptr) cudaEventDestroy(copied_);
  if (pinned_ != nullptr) cudaFreeHost(pinned_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
  cudaGetLastError();
}

CudaStream::CudaStream(CudaDevice* device, std::unique_ptr<StreamParts> parts)
    : device_(device), parts_(std::move(parts)) {
  client_.emplace(nullptr, nullptr);
}

CudaStream::~CudaStream() {
  const bool done = Synchronize().ok();
  device_->work().Forget(&*client_);
  if (done) {
    TakeLateError();  // nobody asks for it any more
    device_->KeepParts(std::move(parts_));
  } else if (device_->health().lost()) {
    // The libraries' calls are undefined then, also those that destroy.
    static_cast<void>(parts_.release());
    static_cast<void>(ring_.release());
  }
}

Device& CudaStream::device() { return *device_; }

absl::Status CudaStream::Check(absl::string_view what, cudaError_t error) {
  return device_->Check(what, error);
}

absl::Status CudaStream::Enter() {
  if (device_->health().lost()) return device_->health().status();
  return Check("cudaSetDevice", cudaSetDevice(device_->index()));
}

void* CudaStream::handle() {
  // A failure shows at the launch.
  static_cast<void>(cudaSetDevice(device_->index()));
  return parts_->stream_;
}

absl::Status CudaStream::Launched() { return Check("launch", cudaGetLastError()); }

absl::StatusOr<bool> CudaStream::IsDone() {
  CHX_RETURN_IF_ERROR(Enter());
  const cudaError_t state = cudaStreamQuery(parts_->stream_);
  if (state != cudaErrorNotReady) {
    CHX_RETURN_IF_ERROR(Check("cudaStreamQuery", state));
    return true;
  }
  cudaGetLastError();  // else the next launch would report it
  return false;
}

bool CudaStream::MakeRoom() {
  device_->Relieve();
  device_->TrimPool();
  return true;
}

absl::Status CudaStream::Outcome(absl::string_view what, int error) {
  return Check(what, static_cast<cudaError_t>(error));
}

absl::Status CudaStream::CheckNoCapture(absl::string_view what) const {
  if (!captures_) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("cuda: no ", what, " within a graph"));
}

template <typename Done>
absl::Status CudaStream::Await(absl::string_view what, const Done& done) {
  CHX_RETURN_IF_ERROR(CheckNoCapture(what));
  // Most waits are short, and sleeping takes longer.
  constexpr auto kBusy = std::chrono::milliseconds(1);
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t state = done();
    if (state != cudaErrorNotReady) return Check(what, state);
    cudaGetLastError();  // else the next launch would report it
    CHX_RETURN_IF_ERROR(CheckNotStopped(what));
    if (std::chrono::steady_clock::now() - begin > kBusy) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else {
      std::this_thread::yield();
    }
  }
}

absl::Status CudaStream::SetShare(TurnGroup* group, Worked worked) {
  client_.emplace(group, std::move(worked));
  const int priority = device_->StreamPriority(group == nullptr ? 0 : group->priority.load());
  if (priority == parts_->priority()) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<StreamParts> parts, device_->TakeParts(priority));
  device_->KeepParts(std::exchange(parts_, std::move(parts)));
  return absl::OkStatus();
}

absl::StatusOr<cudaEvent_t> CudaStream::Mark() {
  auto event = static_cast<cudaEvent_t>(device_->work().TakeSpare());
  if (event == nullptr) {
    CHX_RETURN_IF_ERROR(Check("cudaEventCreate", cudaEventCreateWithFlags(&event, 0)));
  }
  CHX_RETURN_IF_ERROR(Check("cudaEventRecord", cudaEventRecord(event, parts_->stream_)));
  return event;
}

absl::Status CudaStream::BeginKernel() {
  if (captures_ || client_->is_open()) return absl::OkStatus();
  CHX_RETURN_IF_ERROR(Enter());
  const auto is_turn = [this] {
    const bool begins = device_->work().TryBegin(&*client_, TurnClock::now());
    return begins ? cudaSuccess : cudaErrorNotReady;
  };
  absl::Status status = Await("turn", is_turn);
  if (status.ok()) {
    absl::StatusOr<cudaEvent_t> begin = Mark();
    if (begin.ok()) {
      device_->work().Open(&*client_, *begin);
      return absl::OkStatus();
    }
    status = begin.status();
  }
  device_->work().GiveUp(&*client_);
  return status;
}

absl::Status CudaStream::EndKernel() {
  if (captures_) return absl::OkStatus();
  return client_->is_open() && client_->AddKernel() ? ClosePiece() : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Sequence>> CudaStream::Capture(
    absl::FunctionRef<absl::Status()> queue) {
  CHX_RETURN_IF_ERROR(Enter());
  const auto none = [this](absl::string_view what, cudaError_t error) -> absl::Status {
    if (error == cudaSuccess) return absl::OkStatus();
    const absl::Status status = Check(what, error);  // the device may be lost
    if (device_->health().lost()) return status;
    return absl::UnimplementedError(status.message());
  };
  CHX_RETURN_IF_ERROR(
      none("cudaStreamBeginCapture",
           cudaStreamBeginCapture(parts_->stream_, cudaStreamCaptureModeThreadLocal)));
  captures_ = true;
  const absl::Status queued = queue();
  captures_ = false;
  cudaGraph_t graph = nullptr;
  const absl::Status ended =
      none("cudaStreamEndCapture", cudaStreamEndCapture(parts_->stream_, &graph));
  cudaGraphExec_t ready = nullptr;
  absl::Status made = queued.ok() ? ended : queued;
  if (made.ok()) made = none("cudaGraphInstantiate", cudaGraphInstantiate(&ready, graph, 0));
  if (graph != nullptr) cudaGraphDestroy(graph);
  CHX_RETURN_IF_ERROR(made);
  auto sequence = std::make_unique<CudaSequence>(this, ready);
  CHX_RETURN_IF_ERROR(sequence->Repeat());
  return std::unique_ptr<Sequence>(std::move(sequence));
}

CudaSequence::~CudaSequence() {
  if (stream_->device_->health().lost()) return;
  cudaGraphExecDestroy(graph_);
  cudaGetLastError();
}

absl::Status CudaSequence::Repeat() { return stream_->Launch(graph_); }

absl::Status CudaStream::Launch(cudaGraphExec_t graph) {
  CHX_RETURN_IF_ERROR(Enter());
  CHX_RETURN_IF_ERROR(BeginKernel());
  CHX_RETURN_IF_ERROR(Check("cudaGraphLaunch", cudaGraphLaunch(graph, parts_->stream_)));
  return EndKernel();
}

// Errors show when the device is asked for something.
void CudaStream::Flush() { ClosePiece().IgnoreError(); }

absl::Status CudaStream::ClosePiece() {
  if (!client_->is_open()) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const cudaEvent_t end, Mark());
  device_->work().Close(&*client_, end);
  return absl::OkStatus();
}

absl::Status CudaStream::Pause() {
  CHX_RETURN_IF_ERROR(Synchronize());
  return BeginKernel();  // others may go first
}

absl::StatusOr<absl::Span<char>> CudaStream::BlasWorkspace(const KernelArgs& args) const {
  size_t bytes = device_->blas_workspace();
  absl::StatusOr<void*> memory = args.scratch.Allocate(bytes + kWorkspaceAlignment);
  if (!memory.ok()) {
    bytes = kLeastWorkspace;
    CHX_ASSIGN_OR_RETURN(memory, args.scratch.Allocate(bytes + kWorkspaceAlignment));
  }
  size_t room = bytes + kWorkspaceAlignment;
  void* const aligned = std::align(kWorkspaceAlignment, bytes, *memory, room);
  return absl::Span<char>(static_cast<char*>(aligned), bytes);
}

absl::StatusOr<bool> CudaStream::GemmWithBias(const KernelArgs& args, const GemmCall& call) {
  const double work = static_cast<double>(call.m) * static_cast<double>(call.n) * call.k;
  // cuBLASLt adds no bias of 64 bits.
  if (call.dtype == Dtype::kFloat64 || work > kMaxProduct) return false;
  if (reinterpret_cast<uintptr_t>(call.bias) % 16 != 0) return false;
  CHX_RETURN_IF_ERROR(Enter());
  if (!OpenBlasLt().ok()) return false;
  const absl::Status opened = WithRoom(*this, [this] { return parts_->blas_lt_.Open(); });
  if (KindOf(opened) == ErrorKind::kMemory) return false;
  CHX_RETURN_IF_ERROR(opened);
  GemmCall product = call;
  product.tf32 = settings().tf32;
  // Before there is a workspace, which the other way would need once more.
  CHX_ASSIGN_OR_RETURN(const bool known,
                       parts_->blas_lt_.Knows(product, device_->blas_workspace()));
  if (!known) return false;
  CHX_ASSIGN_OR_RETURN(const absl::Span<char> workspace, BlasWorkspace(args));
  CHX_ASSIGN_OR_RETURN(const bool done,
                       parts_->blas_lt_.Multiply(parts_->stream_, workspace, product));
  if (done) CHX_RETURN_IF_ERROR(Launched());
  return done;
}

// Large products are computed in parts, as by other kernels: some matrices, or some columns of one.
absl::Status CudaStream::Gemm(const KernelArgs& args, const GemmCall& call) {
  const double column = static_cast<double>(call.m) * static_cast<double>(call.k);
  const double matrix = column * static_cast<double>(call.n);
  int64_t count = std::max<int64_t>(1, call.count);
  int64_t columns = std::max<int64_t>(1, call.n);
  if (matrix * static_cast<double>(count) > kMaxProduct) {
    count = static_cast<int64_t>(std::clamp(kMaxProduct / matrix, 1.0, static_cast<double>(count)));
    columns =
        static_cast<int64_t>(std::clamp(kMaxProduct / column, 1.0, static_cast<double>(columns)));
  }
  const int64_t item = ItemSize(call.dtype);
  CHX_RETURN_IF_ERROR(Enter());
  CHX_RETURN_IF_ERROR(WithRoom(*this, [this] { return parts_->blas_.Open(parts_->stream_); }));
  CHX_ASSIGN_OR_RETURN(const absl::Span<char> workspace, BlasWorkspace(args));
  for (int64_t i = 0; i < call.count; i += count) {
    for (int64_t j = 0; j < call.n; j += columns) {
      if (i + j > 0) CHX_RETURN_IF_ERROR(Pause());
      GemmCall part = call;
      part.tf32 = settings().tf32;
      part.count = std::min(count, call.count - i);
      part.n = std::min(columns, call.n - j);
      const int64_t b_column = call.transpose_b ? j : j * call.ldb;
      part.a = static_cast<const char*>(call.a) + i * call.a_stride * item;
      part.b = static_cast<const char*>(call.b) + (i * call.b_stride + b_column) * item;
      part.c = static_cast<char*>(call.c) + (i * call.c_stride + j * call.ldc) * item;
      CHX_RETURN_IF_ERROR(parts_->blas_.Gemm(workspace, part));
    }
  }
  return Launched();
}

Dnn* CudaStream::dnn() { return settings().use_cudnn && OpenDnn().ok() ? &parts_->dnn_ : nullptr; }

Solver* CudaStream::solver() { return OpenSolver().ok() ? &parts_->solver_ : nullptr; }

absl::StatusOr<StreamParts::Slot*> CudaStream::NextSlot() {
  StreamParts::Slot* const slot = &parts_->slots_[parts_->next_];
  parts_->next_ = (parts_->next_ + 1) % StreamParts::kSlots;
  CHX_RETURN_IF_ERROR(Await("copy", [slot] { return cudaEventQuery(slot->done); }));
  return slot;
}

absl::Status CudaStream::CopyDirectly(void* dst, const void* src, size_t bytes,
                                      cudaMemcpyKind kind) {
  const cudaEvent_t done = parts_->copied_;
  CHX_RETURN_IF_ERROR(
      Check("cudaMemcpyAsync", cudaMemcpyAsync(dst, src, bytes, kind, parts_->stream_)));
  CHX_RETURN_IF_ERROR(Check("cudaEventRecord", cudaEventRecord(done, parts_->stream_)));
  const absl::Status status = Await("copy", [done] { return cudaEventQuery(done); });
  // The memory may be freed after this; a stream has little work under way.
  if (!status.ok() && !device_->health().lost()) cudaEventSynchronize(done);
  return status;
}

absl::Status CudaStream::QueueAhead(char* to, const char* from, size_t bytes) {
  for (size_t done = 0; done < bytes; done += UploadRing::kPartBytes) {
    const size_t size = std::min(bytes - done, UploadRing::kPartBytes);
    const UploadRing::Part& part = ring_->Next();
    CHX_RETURN_IF_ERROR(Await("copy", [&part] { return cudaEventQuery(part.free); }));
    CHX_RETURN_IF_ERROR(Check(
        "copy to the device",
        cudaMemcpyAsync(part.data, from + done, size, cudaMemcpyHostToDevice, ring_->stream())));
    CHX_RETURN_IF_ERROR(Check("cudaEventRecord", cudaEventRecord(part.filled, ring_->stream())));
    CHX_RETURN_IF_ERROR(
        Check("cudaStreamWaitEvent", cudaStreamWaitEvent(parts_->stream_, part.filled, 0)));
    CHX_RETURN_IF_ERROR(Check(
        "copy within the device",
        cudaMemcpyAsync(to + done, part.data, size, cudaMemcpyDeviceToDevice, parts_->stream_)));
    CHX_RETURN_IF_ERROR(Check("cudaEventRecord", cudaEventRecord(part.free, parts_->stream_)));
  }
  return Await("copy", [this] { return cudaStreamQuery(ring_->stream()); });
}

absl::Status CudaStream::CopyAhead(char* to, const char* from, size_t bytes) {
  const absl::Status status = QueueAhead(to, from, bytes);
  // The source may be freed after this.
  if (!status.ok() && !device_->health().lost()) cudaStreamSynchronize(ring_->stream());
  return status;
}

absl::Status CudaStream::CopyIn(void* dst, const void* src, size_t bytes) {
  CHX_RETURN_IF_ERROR(CheckNoCapture("copy"));
  CHX_RETURN_IF_ERROR(Enter());
  char* to = static_cast<char*>(dst);
  const char* from = static_cast<const char*>(src);
  if (bytes >= kLeastDirectIn && PinnedRanges::Global().Contains(src, bytes)) {
    if (ring_ == nullptr) {
      absl::StatusOr<std::unique_ptr<UploadRing>> ring = UploadRing::New(device_);
      if (!ring.ok()) return CopyDirectly(dst, src, bytes, cudaMemcpyHostToDevice);
      ring_ = std::move(*ring);
    }
    return CopyAhead(to, from, bytes);
  }
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
  CHX_RETURN_IF_ERROR(ClosePiece());
  if (bytes >= kLeastDirectOut && PinnedRanges::Global().Contains(dst, bytes)) {
    return CopyDirectly(dst, src, bytes, cudaMemcpyDeviceToHost);
  }
  char* const to = static_cast<char*>(dst);
  const char* const from = static_cast<const char*>(src);
  struct Part {
    StreamParts::Slot* slot;
    size_t offset;
    size_t bytes;
  };
  // At most half of the slots: so the next slot is not one whose copy has just begun.
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
    CHX_RETURN_IF_ERROR(
        Await("copy from the device", [&part] { return cudaEventQuery(part.slot->done); }));
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
  CHX_RETURN_IF_ERROR(ClosePiece());
  CHX_RETURN_IF_ERROR(Await("synchronize", [this] { return cudaStreamQuery(parts_->stream_); }));
  device_->work().Notice();
  return absl::OkStatus();
}

}  // namespace chx::server::cuda
