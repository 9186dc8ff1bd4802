// The executor's part about collectives: arrays as the other ranks of a group need them.
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "ops/registry.h"
#include "server/engine/collectives.h"
#include "server/engine/executor.h"
#include "server/engine/pending_reduction.h"
#include "server/engine/stop_token.h"

namespace chx::server {
namespace {

KernelTensor HostTensorOf(const Array& array) {
  KernelTensor tensor;
  tensor.data = array.data();
  tensor.dtype = array.spec.dtype;
  tensor.shape = array.spec.shape;
  tensor.strides = array.spec.strides;
  return tensor;
}

absl::InlinedVector<KernelTensor, 2> HostTensorsOf(const RunOutputs& arrays) {
  absl::InlinedVector<KernelTensor, 2> tensors;
  for (const Array& array : arrays) tensors.push_back(HostTensorOf(array));
  return tensors;
}

absl::Status NoGroupsError(absl::string_view op) {
  return MakeError(ErrorKind::kContext, absl::StrCat("[", op, "] expects a process group, ",
                                                     "got a session that can be in none"));
}

class NoScratch final : public ScratchAllocator {
 public:
  absl::StatusOr<void*> Allocate(size_t /*bytes*/) override {
    return MemoryError("expects a kernel that needs no scratch memory");
  }
};

}  // namespace

absl::Status HostKernelCalls::operator()(absl::string_view op,
                                         absl::Span<const KernelTensor> inputs,
                                         const KernelTensor& output) const {
  const OpDef& kernel_op = *OpRegistry::Global().Find(op);
  NoScratch scratch;
  return kernels_->Find(kernel_op)({kernel_op, *stream_, scratch, inputs, {&output, 1}, {}});
}

PendingReduction::~PendingReduction() {
  started_ = nullptr;
  for (const Array& array : inputs_) array.buffer->LetGo();
  for (const Array& array : outputs_) array.buffer->LetGo();
}

void PendingReduction::AddInput(Array array) {
  array.buffer->Hold();
  in_.push_back(HostTensorOf(array));
  inputs_.push_back(std::move(array));
}

void PendingReduction::AddOutput(Array array) {
  array.buffer->Hold();
  out_.push_back(HostTensorOf(array));
  outputs_.push_back(std::move(array));
}

absl::StatusOr<DeviceId> Executor::HostDevice() const {
  for (int i = 0; i < devices_->size(); ++i) {
    if (devices_->at(i).is_host()) return static_cast<DeviceId>(i);
  }
  return DeviceError("this daemon has no device in the host's memory");
}

// In C order, where no lock of several sessions is needed to read it: a rank waits for others with
// none.
absl::StatusOr<Array> Executor::ForRanks(const OpDef& op, const Array& input, Dtype dtype,
                                         DeviceId host) {
  SharedUse use;
  CHX_RETURN_IF_ERROR(HoldOne(op.name, input, &use));
  CHX_RETURN_IF_ERROR(Use(input));
  Array array = input;
  if (array.spec.dtype != dtype) {
    CHX_ASSIGN_OR_RETURN(array, Cast(array, dtype));
  } else if (array.buffer->lease() || !array.spec.is_contiguous()) {
    CHX_ASSIGN_OR_RETURN(array, Copy(array));
  }
  if (array.spec.device == host) return array;
  RunOutputs moved;
  CHX_RETURN_IF_ERROR(RunTransfer(op, array, ArraySpec(dtype, array.spec.shape, host), &moved));
  return std::move(moved[0]);
}

absl::Status Executor::PrepareCollective(const ArrayCall& call, const InferResult& inferred,
                                         DeviceId host, RunOutputs* inputs, RunOutputs* outputs) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    CHX_ASSIGN_OR_RETURN(
        Array array, ForRanks(call.op, *call.inputs[i].array(), inferred.input_dtypes[i], host));
    inputs->push_back(std::move(array));
  }
  for (ArraySpec spec : inferred.outputs) {
    spec.device = host;
    CHX_ASSIGN_OR_RETURN(Array array, Allocate(spec));
    outputs->push_back(std::move(array));
  }
  return absl::OkStatus();
}

absl::Status Executor::MeetRanks(const CollectiveCall& rank, DeviceId host) {
  const OpDef& op = rank.op;
  if (collectives_ == nullptr) return NoGroupsError(op.name);
  if (held_ != nullptr) {
    return ChainerxError("[", op.name, "] cannot wait for other ranks while its command uses ",
                         "memory that sessions share");
  }
  const auto kernels = [&](absl::string_view name, absl::Span<const KernelTensor> operands,
                           const KernelTensor& result) -> absl::Status {
    CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(host));
    const OpDef& kernel_op = *OpRegistry::Global().Find(name);
    const Kernel kernel = state->kernels->Find(kernel_op);
    return CallKernel(op, NewCall(kernel_op, kernel, host, operands, {&result, 1}, {}), 0);
  };
  absl::Status status = collectives_->Run(rank, kernels);
  if (!rank.failed.ok()) status = rank.failed;
  if (!status.ok()) {
    const absl::Status stopped = CheckNotStopped(op.name);
    if (!stopped.ok()) status = stopped;
  }
  return status;
}

absl::Status Executor::RunCollective(const ArrayCall& call, const InferResult& inferred,
                                     RunOutputs* outputs) {
  const OpDef& op = call.op;
  CHX_ASSIGN_OR_RETURN(const DeviceId host, HostDevice());
  RunOutputs inputs;
  CollectiveCall rank{op, call.attrs, {}, {}, {}, origin_, {}};
  rank.failed = PrepareCollective(call, inferred, host, &inputs, outputs);
  absl::InlinedVector<KernelTensor, 2> in;
  absl::InlinedVector<KernelTensor, 2> out;
  if (rank.failed.ok()) {
    in = HostTensorsOf(inputs);
    out = HostTensorsOf(*outputs);
  }
  rank.inputs = in;
  rank.outputs = out;
  absl::Status status = MeetRanks(rank, host);
  if (status.ok() && observer_ != nullptr) {
    absl::InlinedVector<const Array*, 4> arrays;
    for (const Array& array : inputs) arrays.push_back(&array);
    for (const Array& array : *outputs) arrays.push_back(&array);
    observer_->Ran(NewCall(op, nullptr, host, in, out, call.attrs), arrays, 0);
  }
  for (size_t i = 0; status.ok() && i < outputs->size(); ++i) {
    const ArraySpec& spec = inferred.outputs[i];
    if (spec.device == host) continue;
    RunOutputs moved;
    status = RunTransfer(op, (*outputs)[i], spec, &moved);
    if (status.ok()) (*outputs)[i] = std::move(moved[0]);
  }
  if (!status.ok()) outputs->clear();
  return status;
}

absl::Status Executor::RepeatCollective(const PreparedKernel& call) {
  return MeetRanks({*call.op, call.attrs, call.inputs, call.outputs, {}, call.origin, {}},
                   call.device);
}

void Executor::MeetWithout(const PreparedKernel& call, const absl::Status& failed) {
  MeetRanks({*call.op, call.attrs, {}, {}, failed, call.origin, {}}, call.device).IgnoreError();
}

absl::StatusOr<std::unique_ptr<PendingReduction>> Executor::StartReduction(
    absl::Span<const Array> arrays, absl::optional<Dtype> dtype, absl::Span<const AttrValue> attrs,
    bool may_be_written) {
  static const OpDef& op = *OpRegistry::Global().Find("all_reduce");
  if (collectives_ == nullptr) return NoGroupsError(op.name);
  if (observer_ != nullptr) observer_->Started();
  CHX_ASSIGN_OR_RETURN(const DeviceId host, HostDevice());
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(host));
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, devices_->at(host).NewStream());
  std::unique_ptr<PendingReduction> pending(
      new PendingReduction(attrs, HostKernelCalls(state->kernels, std::move(stream))));
  for (const Array& array : arrays) {
    EndUses();
    const Dtype exchanged = dtype.value_or(array.spec.dtype);
    CHX_ASSIGN_OR_RETURN(Array input, ForRanks(op, array, exchanged, host));
    if (may_be_written && input.buffer == array.buffer) {
      CHX_ASSIGN_OR_RETURN(input, Copy(input));
    }
    pending->AddInput(std::move(input));
    CHX_ASSIGN_OR_RETURN(Array output, Allocate(ArraySpec(exchanged, array.spec.shape, host)));
    pending->AddOutput(std::move(output));
    pending->wanted_.emplace_back(array.spec.dtype, array.spec.shape, array.spec.device);
  }
  const CollectiveCall rank{op, pending->attrs_, pending->in_, pending->out_, {}, origin_, {}};
  CHX_ASSIGN_OR_RETURN(pending->started_, collectives_->Start(rank, pending->kernels_));
  return pending;
}

absl::StatusOr<std::vector<Array>> Executor::FinishReduction(
    std::unique_ptr<PendingReduction> pending) {
  static const OpDef& op = *OpRegistry::Global().Find("all_reduce");
  absl::Status status = pending->started_->Wait();
  if (!status.ok()) {
    CHX_RETURN_IF_ERROR(CheckNotStopped(op.name));
    return status;
  }
  std::vector<Array> results;
  for (size_t i = 0; i < pending->outputs_.size(); ++i) {
    const ArraySpec& wanted = pending->wanted_[i];
    EndUses();
    Array result = pending->outputs_[i];
    if (result.spec.device != wanted.device) {
      RunOutputs moved;
      const ArraySpec there(result.spec.dtype, wanted.shape, wanted.device);
      CHX_RETURN_IF_ERROR(RunTransfer(op, result, there, &moved));
      result = std::move(moved[0]);
    }
    if (result.spec.dtype != wanted.dtype) {
      CHX_ASSIGN_OR_RETURN(result, Cast(result, wanted.dtype));
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace chx::server
