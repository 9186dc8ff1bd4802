// The executor's part about collectives: arrays as the other ranks of a group need them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/collective.h"
#include "ops/error.h"
#include "ops/registry.h"
#include "server/engine/collectives.h"
#include "server/engine/executor.h"
#include "server/engine/pending_reduction.h"
#include "server/engine/started_collectives.h"

namespace chx::server {
namespace {

KernelTensor RankTensorOf(const Array& array) {
  KernelTensor tensor;
  tensor.data = array.data();
  tensor.dtype = array.spec.dtype;
  tensor.shape = array.spec.shape;
  tensor.strides = array.spec.strides;
  return tensor;
}

absl::InlinedVector<KernelTensor, 2> RankTensorsOf(const RunOutputs& arrays) {
  absl::InlinedVector<KernelTensor, 2> tensors;
  for (const Array& array : arrays) tensors.push_back(RankTensorOf(array));
  return tensors;
}

absl::Status NoGroupsError(absl::string_view op) {
  return MakeError(ErrorKind::kContext, absl::StrCat("[", op, "] expects a process group, ",
                                                     "got a session that can be in none"));
}

const OpDef& AllReduce() {
  static const OpDef& op = *OpRegistry::Global().Find("all_reduce");
  return op;
}

}  // namespace

PendingReduction::~PendingReduction() {
  started_ = nullptr;
  for (const Array& array : inputs_) array.buffer->LetGo();
  for (const Array& array : outputs_) array.buffer->LetGo();
}

void PendingReduction::AddInput(Array array) {
  array.buffer->Hold();
  in_.push_back(RankTensorOf(array));
  inputs_.push_back(std::move(array));
}

void PendingReduction::AddOutput(Array array) {
  array.buffer->Hold();
  out_.push_back(RankTensorOf(array));
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
                                         DeviceId where) {
  SharedUse use;
  CHX_RETURN_IF_ERROR(HoldOne(op.name, input, &use));
  CHX_RETURN_IF_ERROR(Use(input));
  Array array = input;
  if (array.spec.dtype != dtype) {
    CHX_ASSIGN_OR_RETURN(array, Cast(array, dtype));
  } else if (array.buffer->lease() || !array.spec.is_contiguous()) {
    CHX_ASSIGN_OR_RETURN(array, Copy(array));
  }
  if (array.spec.device == where) return array;
  RunOutputs moved;
  CHX_RETURN_IF_ERROR(RunTransfer(op, array, ArraySpec(dtype, array.spec.shape, where), &moved));
  return std::move(moved[0]);
}

absl::Status Executor::PrepareCollective(const ArrayCall& call, const InferResult& inferred,
                                         DeviceId where, RunOutputs* inputs, RunOutputs* outputs) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    CHX_ASSIGN_OR_RETURN(
        Array array, ForRanks(call.op, *call.inputs[i].array(), inferred.input_dtypes[i], where));
    inputs->push_back(std::move(array));
  }
  for (ArraySpec spec : inferred.outputs) {
    spec.device = where;
    CHX_ASSIGN_OR_RETURN(Array array, Allocate(spec));
    outputs->push_back(std::move(array));
  }
  return absl::OkStatus();
}

absl::Status Executor::MeetRanks(const CollectiveCall& rank, DeviceId host) {
  const OpDef& op = rank.op;
  if (collectives_ == nullptr) return NoGroupsError(op.name);
  // The time in which ranks and their devices wait for each other is nobody's turn.
  if (rank.stream != nullptr) rank.stream->Flush();
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
  return status.ok() ? status : StoppedOr(op, status);
}

absl::optional<DeviceId> Executor::ConnectedDevice(absl::Span<const ArraySpec* const> specs) const {
  if (specs.empty()) return absl::nullopt;
  const DeviceId device = specs[0]->device;
  const bool all = std::all_of(specs.begin(), specs.end(),
                               [device](const ArraySpec* spec) { return spec->device == device; });
  if (!all || device >= devices_->size() || devices_->at(device).hardware_id().empty()) {
    return absl::nullopt;
  }
  return device;
}

absl::optional<DeviceId> Executor::RanksDevice(const ArrayCall& call,
                                               const InferResult& inferred) const {
  if (call.op.pattern->kind != CollectiveKind::kAll || call.inputs.empty()) return absl::nullopt;
  absl::InlinedVector<const ArraySpec*, 8> specs;
  for (const ArrayOperand& input : call.inputs) specs.push_back(&input.array()->spec);
  for (const ArraySpec& spec : inferred.outputs) specs.push_back(&spec);
  return ConnectedDevice(specs);
}

// The arrays of a collective that runs.
class Executor::RankArrays final : public HostPassage {
 public:
  RankArrays(Executor* executor, const ArrayCall& call, const InferResult& inferred, DeviceId host,
             RunOutputs* outputs)
      : executor_(*executor), call_(call), inferred_(inferred), host_(host), outputs_(*outputs) {}

  // In the memory of that device, for *rank.
  absl::Status Prepare(DeviceId where, CollectiveCall* rank) {
    inputs_.clear();
    outputs_.clear();
    CHX_RETURN_IF_ERROR(executor_.PrepareCollective(call_, inferred_, where, &inputs_, &outputs_));
    in_ = RankTensorsOf(inputs_);
    out_ = RankTensorsOf(outputs_);
    rank->inputs = in_;
    rank->outputs = out_;
    return absl::OkStatus();
  }
  absl::Status ToHost(CollectiveCall* rank) override { return Prepare(host_, rank); }
  absl::Status FromHost() override {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const ArraySpec& spec = inferred_.outputs[i];
      if (spec.device == host_) continue;
      RunOutputs moved;
      CHX_RETURN_IF_ERROR(executor_.RunTransfer(call_.op, outputs_[i], spec, &moved));
      outputs_[i] = std::move(moved[0]);
    }
    return absl::OkStatus();
  }
  // Of arrays in the host's memory.
  void Tell(KernelObserver* observer) const {
    absl::InlinedVector<const Array*, 4> arrays;
    for (const Array& array : inputs_) arrays.push_back(&array);
    for (const Array& array : outputs_) arrays.push_back(&array);
    observer->Ran(executor_.NewCall(call_.op, nullptr, host_, in_, out_, call_.attrs), arrays, 0);
  }

 private:
  Executor& executor_;
  const ArrayCall& call_;
  const InferResult& inferred_;
  const DeviceId host_;
  RunOutputs inputs_;
  RunOutputs& outputs_;
  absl::InlinedVector<KernelTensor, 2> in_;
  absl::InlinedVector<KernelTensor, 2> out_;
};

absl::Status Executor::RunCollective(const ArrayCall& call, const InferResult& inferred,
                                     RunOutputs* outputs) {
  CHX_ASSIGN_OR_RETURN(const DeviceId host, HostDevice());
  const DeviceId where = RanksDevice(call, inferred).value_or(host);
  RankArrays arrays(this, call, inferred, host, outputs);
  CollectiveCall rank{call.op, call.attrs, {}, {}, {}, origin_, {}};
  rank.failed = arrays.Prepare(where, &rank);
  if (rank.failed.ok() && where != host) {
    rank.stream = states_[where].stream.get();
    rank.passage = &arrays;
  }
  absl::Status status = MeetRanks(rank, host);
  if (status.ok() && where == host) {
    if (observer_ != nullptr) arrays.Tell(observer_);
    status = arrays.FromHost();
  } else if (status.ok() && observer_ != nullptr) {
    observer_->Transferred();  // to the other ranks' devices
  }
  if (!status.ok()) outputs->clear();
  return status;
}

absl::Status Executor::RepeatCollective(const PreparedKernel& call) {
  return MeetRanks({*call.op, call.attrs, call.inputs, call.outputs, {}, call.origin, {}},
                   call.device);
}

absl::StatusOr<std::unique_ptr<StartedCollective>> Executor::StartRepeat(
    const PreparedKernel& call) {
  return StartCollective({*call.op, call.attrs, call.inputs, call.outputs, {}, call.origin, {}},
                         call.device);
}

absl::StatusOr<std::unique_ptr<StartedCollective>> Executor::StartCollective(
    const CollectiveCall& call, DeviceId host) {
  if (collectives_ == nullptr) return NoGroupsError(call.op.name);
  CHX_ASSIGN_OR_RETURN(ThreadKernels kernels, NewThreadKernels(host));
  auto started = std::make_unique<StartedOnHost>(call.op, std::move(kernels));
  CHX_RETURN_IF_ERROR(started->Start(collectives_, call));
  return started;
}

absl::StatusOr<ThreadKernels> Executor::NewThreadKernels(DeviceId host) {
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(host));
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, devices_->at(host).NewStream());
  return ThreadKernels(state->kernels, std::move(stream));
}

std::shared_ptr<Stream> Executor::ExchangeStream(int64_t group, DeviceId device) {
  Exchange* unused = nullptr;
  for (Exchange& exchange : exchanges_) {
    if (exchange.device != device) continue;
    if (exchange.group == group) return exchange.stream;
    if (exchange.stream.use_count() == 1) unused = &exchange;
  }
  if (unused != nullptr) {
    unused->group = group;
    return unused->stream;
  }
  constexpr size_t kMost = 4;  // each has pinned memory
  if (exchanges_.size() >= kMost) return nullptr;
  absl::StatusOr<std::unique_ptr<Stream>> stream = devices_->at(device).NewStream();
  if (!stream.ok()) return nullptr;
  exchanges_.push_back({group, device, *std::move(stream)});
  return exchanges_.back().stream;
}

void Executor::ForgetGroup(int64_t group) {
  exchanges_.erase(
      std::remove_if(exchanges_.begin(), exchanges_.end(),
                     [group](const Exchange& exchange) { return exchange.group == group; }),
      exchanges_.end());
}

absl::StatusOr<std::unique_ptr<StartedCollective>> Executor::StartOnDevice(
    const CollectiveCall& call, DeviceId device, DeviceId host, std::shared_ptr<Stream> exchange) {
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(device));
  CHX_ASSIGN_OR_RETURN(ThreadKernels kernels, NewThreadKernels(host));
  // The other thread cannot give back what pools keep, if the call should pass through the host.
  if (!MemoryCharge::Of(account_, StartedOnDevice::HostBytes(call), MemoryUse::kArrays).ok()) {
    Trim();
  }
  auto started = std::make_unique<StartedOnDevice>(call.op, std::move(kernels), account_,
                                                   state->stream.get(), std::move(exchange));
  CHX_RETURN_IF_ERROR(started->Start(collectives_, call));
  return started;
}

void Executor::MeetWithout(const PreparedKernel& call, const absl::Status& failed) {
  MeetRanks({*call.op, call.attrs, {}, {}, failed, call.origin, {}}, call.device).IgnoreError();
}

absl::Status Executor::ReduceNow(absl::Span<const Array> arrays, absl::optional<Dtype> dtype,
                                 PendingReduction* pending) {
  std::vector<Array> inputs;
  std::vector<ArrayOperand> operands;
  for (const Array& array : arrays) {
    EndUses();
    inputs.push_back(array);
    if (dtype.has_value() && array.spec.dtype != *dtype) {
      CHX_RETURN_IF_ERROR(Use(array));
      CHX_ASSIGN_OR_RETURN(inputs.back(), Cast(array, *dtype));
    }
  }
  operands.reserve(inputs.size());
  for (const Array& input : inputs) operands.emplace_back(&input);
  RunOutputs outputs;
  CHX_RETURN_IF_ERROR(Run({AllReduce(), operands, pending->attrs_}, &outputs));
  for (Array& output : outputs) pending->AddOutput(std::move(output));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PendingReduction>> Executor::StartReduction(
    absl::Span<const Array> arrays, absl::optional<Dtype> dtype, absl::Span<const AttrValue> attrs,
    bool beyond) {
  std::unique_ptr<PendingReduction> pending(new PendingReduction(attrs));
  for (const Array& array : arrays) {
    pending->wanted_.emplace_back(array.spec.dtype, array.spec.shape, array.spec.device);
  }
  if (observer_ != nullptr && observer_->RunsNow(beyond)) {
    CHX_RETURN_IF_ERROR(ReduceNow(arrays, dtype, pending.get()));
    return pending;
  }
  const OpDef& op = AllReduce();
  if (collectives_ == nullptr) return NoGroupsError(op.name);
  CHX_ASSIGN_OR_RETURN(const DeviceId host, HostDevice());
  CHX_ASSIGN_OR_RETURN(const GroupAttr group, GroupAttr::From(op.name, attrs[0]));
  DeviceId where = host;
  std::shared_ptr<Stream> exchange;
  std::vector<const ArraySpec*> specs;
  for (const Array& array : arrays) specs.push_back(&array.spec);
  if (const absl::optional<DeviceId> device = ConnectedDevice(specs)) {
    exchange = ExchangeStream(group.id, *device);
    if (exchange != nullptr) where = *device;
  }
  for (const Array& array : arrays) {
    EndUses();
    const Dtype exchanged = dtype.value_or(array.spec.dtype);
    CHX_ASSIGN_OR_RETURN(Array input, ForRanks(op, array, exchanged, where));
    if (beyond && input.buffer == array.buffer) {
      CHX_ASSIGN_OR_RETURN(input, Copy(input));
    }
    const bool is_private = input.buffer != array.buffer;
    pending->AddInput(input);
    // Devices may reduce in place; on the host, ranks read what others have yet to write.
    if (is_private && exchange != nullptr) {
      pending->AddOutput(std::move(input));
      continue;
    }
    CHX_ASSIGN_OR_RETURN(Array output, Allocate(ArraySpec(exchanged, array.spec.shape, where)));
    pending->AddOutput(std::move(output));
  }
  const CollectiveCall rank{op, pending->attrs_, pending->in_, pending->out_, {}, origin_, {}};
  if (exchange == nullptr) {
    CHX_ASSIGN_OR_RETURN(pending->started_, StartCollective(rank, host));
  } else {
    CHX_ASSIGN_OR_RETURN(pending->started_, StartOnDevice(rank, where, host, std::move(exchange)));
  }
  return pending;
}

absl::StatusOr<std::vector<Array>> Executor::FinishReduction(
    std::unique_ptr<PendingReduction> pending) {
  if (pending->started_ != nullptr) CHX_RETURN_IF_ERROR(pending->started_->Wait());
  std::vector<Array> results;
  for (size_t i = 0; i < pending->outputs_.size(); ++i) {
    const ArraySpec& wanted = pending->wanted_[i];
    EndUses();
    Array result = pending->outputs_[i];
    if (result.spec.device != wanted.device) {
      RunOutputs moved;
      const ArraySpec there(result.spec.dtype, wanted.shape, wanted.device);
      CHX_RETURN_IF_ERROR(RunTransfer(AllReduce(), result, there, &moved));
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
