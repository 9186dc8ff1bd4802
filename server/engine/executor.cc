#include "server/engine/executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/registry.h"
#include "server/engine/stop_token.h"
#include "server/engine/work.h"

namespace chx::server {
namespace {

// In place: a tensor is some hundred bytes.
void SetTensor(const Array& array, KernelTensor* tensor) {
  tensor->data = array.data();
  tensor->dtype = array.spec.dtype;
  tensor->shape = array.spec.shape;
  tensor->strides = array.spec.strides;
}

KernelTensor TensorOf(const Array& array) {
  KernelTensor tensor;
  SetTensor(array, &tensor);
  return tensor;
}

// Repeats the array over `shape` by strides of 0.
void BroadcastTo(const Shape& shape, KernelTensor* tensor) {
  if (tensor->shape == shape) return;
  Strides strides(shape.size(), 0);
  const int missing = shape.size() - tensor->shape.size();
  for (int i = 0; i < tensor->shape.size(); ++i) {
    if (tensor->shape[i] != 1) strides[missing + i] = tensor->strides[i];
  }
  tensor->shape = shape;
  tensor->strides = strides;
}

bool SameView(const Array& a, const Array& b) {
  return a.buffer == b.buffer && a.spec.offset == b.spec.offset && a.spec.dtype == b.spec.dtype &&
         a.spec.shape == b.spec.shape && a.spec.strides == b.spec.strides;
}

// What the kernel says, unless it has been told to stop: its results are not finished then, and no
// error of its own means anything.
absl::Status Outcome(const OpDef& op, absl::Status status) {
  const StopToken* const stop = CurrentStopToken();
  return stop != nullptr && stop->noticed() ? stop->Error(op.name) : status;
}

bool ElementsOverlap(const ArraySpec& spec) {
  if (spec.size() == 0) return false;
  for (int i = 0; i < spec.ndim(); ++i) {
    if (spec.shape[i] > 1 && spec.strides[i] == 0) return true;
  }
  return false;
}

// An upload that will be used like this again, or is used again and again, is copied once. Before
// any address is taken.
absl::Status UnshareInputs(const OpDef& kernel_op, absl::Span<const ArrayOperand> inputs,
                           MemoryPool* pool) {
  for (const ArrayOperand& input : inputs) {
    if (!input.is_array() || !input.array()->buffer->shared()) continue;
    const bool must = MustNotChange(kernel_op, input.array()->spec.dtype);
    if (!must && !input.array()->buffer->IsUsedOften()) continue;
    const absl::Status moved = pool->Unshare(input.array()->buffer);
    if (must) CHX_RETURN_IF_ERROR(moved);  // else it is as good where it is, only slower
  }
  return absl::OkStatus();
}

// Those that are looked at anyway.
int64_t LargeOperand(absl::Span<const ArrayOperand> inputs, const RunOutputs& outputs) {
  int64_t bytes = outputs.empty() ? 0 : outputs[0].buffer->bytes();
  if (!inputs.empty() && inputs[0].is_array()) {
    bytes = std::max(bytes, inputs[0].array()->buffer->bytes());
  }
  return bytes;
}

// The memory of an input that nobody uses afterwards, for an output of that spec; null if there is
// none.
Ref<Buffer> FindReusable(absl::Span<const ArrayOperand> inputs, const InferResult& inferred,
                         const ArraySpec& spec) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].last_use) continue;
    const Array& array = *inputs[i].array();
    if (array.buffer->unique() && !array.buffer->lease() && array.spec.offset == 0 &&
        array.spec.dtype == spec.dtype && inferred.input_dtypes[i] == spec.dtype &&
        array.spec.shape == spec.shape && array.spec.is_contiguous()) {
      return array.buffer;
    }
  }
  return nullptr;
}

}  // namespace

Executor::Executor(const Devices* devices, MemoryAccountPtr account, bool share,
                   std::vector<DeviceCounters>* counters)
    : devices_(devices),
      account_(std::move(account)),
      share_(share),
      counters_(counters),
      states_(devices->size()) {}

Executor::~Executor() {
  scratch_.clear();
  left_.clear();
}

absl::StatusOr<Executor::DeviceState*> Executor::StateOf(DeviceId device) {
  if (device >= states_.size()) {
    return DeviceError("[device] expects a number below ", states_.size(), ", got ", device);
  }
  DeviceState& state = states_[device];
  if (devices_->at(device).health().lost()) return LostError(device);
  if (state.stream == nullptr) {
    CHX_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, devices_->at(device).NewStream());
    stream->set_settings(settings_);
    state.counters = counters_ == nullptr ? nullptr : &(*counters_)[device];
    Stream::Worked worked;
    if (DeviceCounters* const counters = state.counters) {
      worked = [counters](auto time) { counters->busy_nanoseconds.Add(time.count()); };
    }
    CHX_RETURN_IF_ERROR(stream->SetShare(turn_group_, std::move(worked)));
    state.stream = std::move(stream);
    state.pool = std::make_unique<MemoryPool>(&devices_->slot(device), state.stream.get(),
                                              PoolBooks{account_.get(), &clock_, state.counters},
                                              share_ ? &segments_ : nullptr);
    state.kernels = &devices_->at(device).kernels();
    state.health = &devices_->at(device).health();
  }
  return &state;
}

absl::Status Executor::LostError(DeviceId device) const {
  Device& lost = devices_->at(device);
  return DeviceError("the device ", lost.name(),
                     " is lost, and what was on it: ", lost.health().status().message(),
                     "; it does not work again before the daemon is restarted");
}

void Executor::Flush() {
  for (const DeviceState& state : states_) {
    if (state.stream != nullptr) state.stream->Flush();
  }
}

void Executor::Configure(const Settings& settings) {
  settings_ = settings;
  ++configured_;
  for (const DeviceState& state : states_) {
    if (state.stream != nullptr) state.stream->set_settings(settings);
  }
}

bool Executor::HasKernel(const OpDef& op, DeviceId device) const {
  return device < states_.size() && devices_->at(device).kernels().Find(op) != nullptr;
}

absl::Status Executor::RunPart(const ArrayCall& call, RunOutputs* outputs) {
  outputs->clear();
  const OpDef& op = call.op;
  DeviceId device = call.device;
  absl::InlinedVector<SpecOperand, 4> specs;
  bool spilled = false;
  for (const ArrayOperand& input : call.inputs) {
    specs.push_back(input.As<SpecOperand>([](const Array* array) { return &array->spec; }));
    if (!input.is_array()) continue;
    device = input.array()->spec.device;
    // All of them, before the first one that comes back makes others go.
    input.array()->buffer->Touch(clock_.now);
    spilled = spilled || input.array()->buffer->spilled();
  }
  const OpCall<SpecOperand> to_infer{op, specs, call.attrs, device};
  InferResult inferred;
  CHX_RETURN_IF_ERROR(InferOp(to_infer, &inferred));
  CHX_RETURN_IF_ERROR(CheckNotStopped(op.name));
  CHX_RETURN_IF_ERROR(CheckWork(to_infer, inferred));
  // Views need no elements, and a copy to another device reads them where they are.
  if (spilled && op.kind != OpKind::kView && op.kind != OpKind::kTransfer) {
    for (const ArrayOperand& input : call.inputs) {
      if (input.is_array()) CHX_RETURN_IF_ERROR(Outcome(op, Use(*input.array())));
    }
  }
  // Which holds nothing while it waits for other sessions.
  if (op.kind == OpKind::kCollective) return RunCollective(call, inferred, outputs);
  SharedUse use;
  CHX_RETURN_IF_ERROR(HoldOperands(call, &use));
  if (op.in_place) return RunInPlace(call, inferred);
  switch (op.kind) {
    case OpKind::kKernel:
    case OpKind::kComposition:
      return RunKernel({op, call.inputs, call.attrs, device}, op, inferred, nullptr, outputs);
    case OpKind::kView:
      return RunView(op, *call.inputs[0].array(), inferred, outputs);
    case OpKind::kTransfer:
      return RunTransfer(op, *call.inputs[0].array(), inferred.outputs[0], outputs);
    case OpKind::kCollective:
      break;
  }
  return ChainerxError("[", op.name, "] is of no known kind");
}

// What the kernel gets as one input: the array itself, a cast or copy of it, or a scalar.
absl::Status Executor::PrepareInput(const OpDef& kernel_op, const ArrayOperand& input, Dtype dtype,
                                    const Array* in_place_target,
                                    absl::InlinedVector<Array, 2>* temporaries,
                                    KernelTensor* tensor) {
  const Array* const array = input.array();
  if (array == nullptr) {
    tensor->present = input.is_scalar();
    tensor->is_scalar = input.is_scalar();
    tensor->scalar = input.scalar();
    tensor->dtype = dtype;
    return absl::OkStatus();
  }
  const bool casts = array->spec.dtype != dtype;
  // What the kernel writes is read as it is, if it is read at the same places.
  const bool is_target = in_place_target != nullptr && SameView(*array, *in_place_target);
  const bool may_change = (in_place_target != nullptr && array->Overlaps(*in_place_target)) ||
                          (array->buffer->shared() && MustNotChange(kernel_op, array->spec.dtype));
  if (!casts && (is_target || !may_change)) {
    SetTensor(*array, tensor);
    return absl::OkStatus();
  }
  CHX_ASSIGN_OR_RETURN(Array temporary, casts ? Cast(*array, dtype) : Copy(*array));
  temporaries->push_back(std::move(temporary));
  SetTensor(temporaries->back(), tensor);
  return absl::OkStatus();
}

absl::Status Executor::RunKernel(const ArrayCall& call, const OpDef& kernel_op,
                                 const InferResult& inferred, const Array* in_place_target,
                                 RunOutputs* outputs) {
  const absl::Span<const ArrayOperand> inputs = call.inputs;
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(call.device));
  const Kernel kernel = state->kernels->Find(kernel_op);
  if (kernel == nullptr) {
    return MakeError(ErrorKind::kNotImplemented,
                     absl::StrCat("[", call.op.name, "] has no kernel on this device"));
  }
  CHX_RETURN_IF_ERROR(UnshareInputs(kernel_op, inputs, state->pool.get()));
  absl::InlinedVector<KernelTensor, 4> in(inputs.size());
  absl::InlinedVector<Array, 2> temporaries;  // casts and copies; alive until the kernel is queued
  for (size_t i = 0; i < inputs.size(); ++i) {
    CHX_RETURN_IF_ERROR(PrepareInput(kernel_op, inputs[i], inferred.input_dtypes[i],
                                     in_place_target, &temporaries, &in[i]));
  }
  absl::InlinedVector<KernelTensor, 2> out;
  if (in_place_target != nullptr) {
    out.push_back(TensorOf(*in_place_target));
  } else {
    for (const ArraySpec& spec : inferred.outputs) {
      Array array;
      array.spec = spec;
      if (kernel_op.elementwise && !apart_) array.buffer = FindReusable(inputs, inferred, spec);
      if (!array.valid()) {
        absl::StatusOr<Ref<Buffer>> made = NewBuffer(*state, spec.nbytes());
        if (made.ok()) {
          array.buffer = *std::move(made);
        } else {
          if (kernel_op.elementwise && apart_) array.buffer = FindReusable(inputs, inferred, spec);
          if (!array.valid()) return made.status();
        }
      }
      outputs->push_back(std::move(array));
      out.emplace_back();
      SetTensor(outputs->back(), &out.back());
    }
  }
  if (kernel_op.elementwise) {
    for (KernelTensor& tensor : in) {
      if (tensor.data != nullptr) BroadcastTo(out[0].shape, &tensor);
    }
  }
  const KernelCall kernel_call = NewCall(kernel_op, kernel, call.device, in, out, call.attrs);
  const absl::Status status = CallKernel(call.op, kernel_call, LargeOperand(inputs, *outputs));
  if (observer_ != nullptr && status.ok()) {
    absl::InlinedVector<const Array*, 8> arrays;
    for (const ArrayOperand& input : inputs) {
      if (input.is_array()) arrays.push_back(input.array());
    }
    for (const Array& array : temporaries) arrays.push_back(&array);
    for (const Array& array : *outputs) arrays.push_back(&array);
    observer_->Ran(kernel_call, arrays, scratch_bytes_);
  }
  if (!status.ok()) outputs->clear();
  return status;
}

KernelCall Executor::NewCall(const OpDef& op, Kernel kernel, DeviceId device,
                             absl::Span<const KernelTensor> inputs,
                             absl::Span<const KernelTensor> outputs,
                             absl::Span<const AttrValue> attrs) const {
  return {op,      kernel, device,  inputs,
          outputs, attrs,  origin_, devices_->at(device).has_late_errors()};
}

absl::Status Executor::CallKernel(const OpDef& op, const KernelCall& call, int64_t large_operand) {
  DeviceState& state = states_[call.device];
  if (state.health->lost()) return LostError(call.device);
  current_ = &state;
  scratch_bytes_ = 0;
  absl::Status status;
  {
    const KernelTimer timer(state.counters, call.op.id, large_operand);
    state.stream->set_origin(call.origin);
    status = state.stream->BeginKernel();
    if (status.ok()) {
      status = call.kernel({call.op, *state.stream, *this, call.inputs, call.outputs, call.attrs});
    }
    if (status.ok()) status = state.stream->EndKernel();
    status = Outcome(op, std::move(status));
  }
  scratch_.clear();
  return status;
}

absl::Status Executor::Repeat(const PreparedKernel& call, absl::Span<char> scratch) {
  if (call.op->kind == OpKind::kCollective) return RepeatCollective(call);
  CHX_RETURN_IF_ERROR(CheckNotStopped(call.op->name));
  scratch_room_ = scratch;
  const absl::Status status =
      CallKernel(*call.op,
                 {*call.op, call.kernel, call.device, call.inputs, call.outputs, call.attrs,
                  call.origin, call.finds_errors_late},
                 call.large_operand);
  scratch_room_ = {};
  return status;
}

absl::StatusOr<std::unique_ptr<Sequence>> Executor::Capture(DeviceId device,
                                                            absl::FunctionRef<absl::Status()> run) {
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(device));
  captures_ = true;
  absl::StatusOr<std::unique_ptr<Sequence>> sequence = state->stream->Capture(run);
  captures_ = false;
  return sequence;
}

absl::Status Executor::Repeat(DeviceId device, Sequence* sequence, absl::Span<const OpId> kernels) {
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(device));
  const OpDef& first = OpRegistry::Global().at(kernels[0]);
  CHX_RETURN_IF_ERROR(CheckNotStopped(first.name));
  CHX_RETURN_IF_ERROR(Outcome(first, sequence->Repeat()));
  if (DeviceCounters* const counters = state->counters) {
    for (OpId op : kernels) counters->groups[counters->group_of[op]].kernels.Add();
  }
  return absl::OkStatus();
}

absl::Status Executor::RepeatBlocks(
    const PreparedKernel& first, int64_t n, int64_t grain,
    absl::FunctionRef<absl::Status(Stream&, int64_t, int64_t)> run) {
  CHX_RETURN_IF_ERROR(CheckNotStopped(first.op->name));
  const DeviceState& state = states_[first.device];
  Stream& stream = *state.stream;
  const KernelTimer timer(state.counters, first.op->id, first.large_operand);
  return Outcome(*first.op, stream.RunBlocks(n, grain, [&](int64_t begin, int64_t end) {
    return run(stream, begin, end);
  }));
}

absl::Status Executor::RunView(const OpDef& op, const Array& input, const InferResult& inferred,
                               RunOutputs* outputs) {
  Array base = input;
  if (inferred.copy_first) {
    CHX_ASSIGN_OR_RETURN(base, Copy(input));
  }
  for (const ArraySpec& spec : inferred.outputs) {
    const ByteRange range = BytesTouched(spec);
    if (range.begin < 0 || range.end > base.buffer->bytes()) {
      outputs->clear();
      return ChainerxError("[", op.name, "] would reach outside of its array's memory");
    }
    outputs->push_back({base.buffer, spec});
  }
  return absl::OkStatus();
}

absl::Status Executor::RunInPlace(const ArrayCall& call, const InferResult& inferred) {
  const OpDef& op = call.op;
  if (op.has_lists()) return RunLists(call, inferred);
  const Array& target = *call.inputs[0].array();
  if (ElementsOverlap(target.spec)) {
    return ValueError("[", op.name, "] expects a target whose elements are distinct in memory, ",
                      "got a broadcast array");
  }
  // A base operator's kernel computes in the target's dtype, to which inference casts the inputs.
  const OpDef& kernel_op = op.in_place_of.empty() ? op : *OpRegistry::Global().Find(op.in_place_of);
  RunOutputs none;
  return RunKernel({op, call.inputs, call.attrs, target.spec.device}, kernel_op, inferred, &target,
                   &none);
}

absl::Status Executor::CheckApart(const OpDef& op, absl::Span<const Array* const> arrays) {
  const size_t length = arrays.size() / op.inputs.size();
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!op.IsWritten(i, arrays.size())) continue;
    bool apart = !ElementsOverlap(arrays[i]->spec);
    for (size_t j = i % length; j < arrays.size(); j += length) {
      apart = apart && (j == i || !arrays[i]->Overlaps(*arrays[j]));
    }
    if (!apart) {
      return ValueError("[", op.name, "] expects arrays that share no memory, got ",
                        op.inputs[i / length].name, "[", i % length, "], which does");
    }
  }
  return absl::OkStatus();
}

// Arrays that are not as the kernel wants them are copied, and what it writes is copied back.
absl::Status Executor::RunLists(const ArrayCall& call, const InferResult& inferred) {
  const OpDef& op = call.op;
  const absl::Span<const ArrayOperand> inputs = call.inputs;
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(inputs[0].array()->spec.device));
  const Kernel kernel = state->kernels->Find(op);
  if (kernel == nullptr) {
    return MakeError(ErrorKind::kNotImplemented,
                     absl::StrCat("[", op.name, "] has no kernel on this device"));
  }
  absl::InlinedVector<KernelTensor, 8> tensors;
  std::vector<Array> temporaries;
  std::vector<std::pair<size_t, size_t>> written_back;  // operand, position in temporaries
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Array& array = *inputs[i].array();
    const bool cast = array.spec.dtype != inferred.input_dtypes[i];
    if (!cast && array.spec.is_contiguous()) {
      tensors.push_back(TensorOf(array));
      continue;
    }
    if (op.IsWritten(i, inputs.size())) written_back.emplace_back(i, temporaries.size());
    CHX_ASSIGN_OR_RETURN(Array copy, cast ? Cast(array, inferred.input_dtypes[i]) : Copy(array));
    temporaries.push_back(std::move(copy));
    tensors.push_back(TensorOf(temporaries.back()));
  }
  // What is copied back must not undo what is written to the same memory at another position.
  for (const auto& back : written_back) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i == back.first || !op.IsWritten(i, inputs.size()) ||
          !inputs[i].array()->Overlaps(*inputs[back.first].array())) {
        continue;
      }
      return ValueError("[", op.name, "] expects arrays that share no memory, got ",
                        inputs[back.first].array()->spec.ToString(), ", which does");
    }
  }
  const KernelCall kernel_call =
      NewCall(op, kernel, inputs[0].array()->spec.device, tensors, {}, call.attrs);
  CHX_RETURN_IF_ERROR(CallKernel(op, kernel_call, KernelTimer::kLargeBytes));
  if (observer_ != nullptr) {
    absl::InlinedVector<const Array*, 8> arrays;
    for (const ArrayOperand& input : inputs) arrays.push_back(input.array());
    for (const Array& array : temporaries) arrays.push_back(&array);
    observer_->Ran(kernel_call, arrays, scratch_bytes_);
  }
  static const OpDef* const copyto = OpRegistry::Global().Find("copyto");
  for (const auto& back : written_back) {
    const ArrayOperand operands[] = {ArrayOperand(inputs[back.first].array()),
                                     ArrayOperand(&temporaries[back.second])};
    RunOutputs none;
    CHX_RETURN_IF_ERROR(RunPart({*copyto, operands, {}}, &none));
  }
  return absl::OkStatus();
}

absl::Status Executor::RunUnary(absl::string_view name, const Array& input, const Array& output,
                                absl::Span<const AttrValue> attrs) {
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(input.spec.device));
  const OpDef& op = *OpRegistry::Global().Find(name);
  output.buffer->Touch(clock_.now);
  CHX_RETURN_IF_ERROR(Use(input));
  CHX_RETURN_IF_ERROR(Use(output));
  const KernelTensor in = TensorOf(input);
  const KernelTensor out = TensorOf(output);
  const KernelCall call =
      NewCall(op, state->kernels->Find(op), input.spec.device, {&in, 1}, {&out, 1}, attrs);
  // Called while another kernel is prepared, never while one runs: the scratch is this one's.
  const absl::Status status = CallKernel(op, call, output.buffer->bytes());
  if (observer_ != nullptr && status.ok()) {
    const Array* const arrays[] = {&input, &output};
    observer_->Ran(call, arrays, scratch_bytes_);
  }
  return status;
}

}  // namespace chx::server
