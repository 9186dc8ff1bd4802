#include "server/engine/started_collectives.h"

#include <new>

#include "ops/error.h"
#include "ops/registry.h"
#include "server/engine/stop_token.h"

namespace chx::server {
namespace {

constexpr int64_t kHostAlignment = 64;

class NoScratch final : public ScratchAllocator {
 public:
  absl::StatusOr<void*> Allocate(size_t /*bytes*/) override {
    return MemoryError("expects a kernel that needs no scratch memory");
  }
};

int64_t TensorBytes(const KernelTensor& tensor) { return tensor.size() * ItemSize(tensor.dtype); }

int64_t RoomFor(const KernelTensor& tensor) {
  return (TensorBytes(tensor) + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
}

}  // namespace

absl::Status StoppedOr(const OpDef& op, const absl::Status& failed) {
  CHX_RETURN_IF_ERROR(CheckNotStopped(op.name));
  return failed;
}

absl::Status ThreadKernels::operator()(absl::string_view op, absl::Span<const KernelTensor> inputs,
                                       const KernelTensor& output) const {
  const OpDef& kernel_op = *OpRegistry::Global().Find(op);
  NoScratch scratch;
  return kernels_->Find(kernel_op)({kernel_op, *stream_, scratch, inputs, {&output, 1}, {}});
}

absl::Status StartedOnHost::Start(Collectives* collectives, const CollectiveCall& call) {
  CHX_ASSIGN_OR_RETURN(started_, collectives->Start(call, kernels_));
  return absl::OkStatus();
}

absl::Status StartedOnHost::Wait() {
  const absl::Status status = started_->Wait();
  return status.ok() ? status : StoppedOr(op_, status);
}

StartedOnDevice::~StartedOnDevice() {
  started_ = nullptr;
  // Its memory is used again in the order of the session's stream.
  Join().IgnoreError();
}

absl::Status StartedOnDevice::Start(Collectives* collectives, CollectiveCall call) {
  CHX_ASSIGN_OR_RETURN(written_, session_.NewMark());
  outputs_ = call.outputs;
  call.stream = exchange_.get();
  call.passage = this;
  CHX_ASSIGN_OR_RETURN(started_, collectives->Start(call, kernels_));
  return absl::OkStatus();
}

absl::Status StartedOnDevice::Wait() {
  session_.Flush();  // as Executor::MeetRanks
  const absl::Status status = started_->Wait();
  const absl::Status joined = Join();
  return status.ok() ? joined : StoppedOr(op_, status);
}

absl::Status StartedOnDevice::Join() {
  if (done_ == nullptr) return absl::OkStatus();
  const absl::Status status = session_.After(*done_);
  done_ = nullptr;
  return status;
}

absl::Status StartedOnDevice::Begin() { return exchange_->After(*written_); }

absl::Status StartedOnDevice::End() {
  absl::StatusOr<std::unique_ptr<StreamMark>> done = exchange_->NewMark();
  if (!done.ok()) {
    exchange_->Synchronize().IgnoreError();  // the arrays' memory may be used again
    return done.status();
  }
  done_ = *std::move(done);
  return absl::OkStatus();
}

int64_t StartedOnDevice::HostBytes(const CollectiveCall& call) {
  int64_t bytes = 0;
  for (const KernelTensor& tensor : call.inputs) bytes += RoomFor(tensor);
  for (const KernelTensor& tensor : call.outputs) bytes += RoomFor(tensor);
  return bytes;
}

absl::Status StartedOnDevice::ToHost(CollectiveCall* call) {
  const int64_t bytes = HostBytes(*call);
  CHX_ASSIGN_OR_RETURN(charge_, MemoryCharge::Of(account_, bytes, MemoryUse::kArrays));
  memory_.reset(new (std::nothrow) char[static_cast<size_t>(bytes + kHostAlignment)]);  // NOLINT
  if (memory_ == nullptr) return MemoryError("[", op_.name, "] the host has no memory left");
  char* next = memory_.get();
  next += -reinterpret_cast<uintptr_t>(next) % kHostAlignment;
  const auto place = [&next](const KernelTensor& tensor) {
    KernelTensor placed = tensor;
    placed.data = next;
    next += RoomFor(tensor);
    return placed;
  };
  for (const KernelTensor& input : call->inputs) {
    host_inputs_.push_back(place(input));
    CHX_RETURN_IF_ERROR(exchange_->CopyOut(host_inputs_.back().data, input.data,
                                           static_cast<size_t>(TensorBytes(input))));
  }
  for (const KernelTensor& output : call->outputs) host_outputs_.push_back(place(output));
  call->inputs = host_inputs_;
  call->outputs = host_outputs_;
  return absl::OkStatus();
}

absl::Status StartedOnDevice::FromHost() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    CHX_RETURN_IF_ERROR(exchange_->CopyIn(outputs_[i].data, host_outputs_[i].data,
                                          static_cast<size_t>(TensorBytes(outputs_[i]))));
  }
  memory_ = nullptr;
  charge_ = MemoryCharge();
  return absl::OkStatus();
}

}  // namespace chx::server
