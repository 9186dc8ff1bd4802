#include "server/programs/plan.h"

#include <algorithm>
#include <chrono>

#include "absl/container/flat_hash_set.h"
#include "ops/error.h"
#include "server/programs/common_calls.h"

namespace chx::server {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kLargeArena = int64_t{16} << 20;  // bytes worth giving back others for

// In each run, most likely: clients send new arguments, and release results late.
bool IsElsewhere(const TraceObject& object) {
  return object.kind == TraceObject::Kind::kArgument || object.kind == TraceObject::Kind::kResult;
}

}  // namespace

ArgumentSpec ArgumentSpec::Of(const Variable& argument) {
  ArgumentSpec of;
  of.spec = argument.array.spec;
  of.spec.offset = 0;
  for (const Ref<ArrayNode>& node : argument.nodes) {
    of.graphs.emplace_back(node->id, node->grad_required);
  }
  return of;
}

bool ArgumentSpec::Fits(const Variable& argument) const {
  const ArraySpec& other = argument.array.spec;
  if (other.dtype != spec.dtype || other.device != spec.device || other.shape != spec.shape ||
      other.strides != spec.strides || argument.nodes.size() != graphs.size() ||
      argument.array.buffer->lease()) {
    return false;
  }
  for (size_t i = 0; i < graphs.size(); ++i) {
    const ArrayNode& node = *argument.nodes[i];
    if (node.creator || std::make_pair(node.id, node.grad_required) != graphs[i]) return false;
  }
  return true;
}

Plan::Plan(Trace trace, absl::Span<const Variable* const> arguments, const Devices& devices,
           bool checks_first)
    : shared_(ShareCommonCalls(&trace)),
      calls_(std::move(trace.calls)),
      results_(std::move(trace.results)),
      gradients_(std::move(trace.gradients)) {
  for (const Variable* argument : arguments) arguments_.push_back(ArgumentSpec::Of(*argument));
  for (TraceObject& object : trace.objects) {
    objects_.emplace_back();
    objects_.back().traced = std::move(object);
  }
  // From where an argument begins, as in each run that may be elsewhere in its buffer.
  const auto rebase = [&](int object, int64_t* offset) {
    if (object < 0 || objects_[object].traced.kind != Kind::kArgument) return;
    *offset -= arguments[objects_[object].traced.index]->array.spec.offset;
  };
  for (TraceCall& call : calls_) {
    for (TraceTensor& tensor : call.inputs) rebase(tensor.object, &tensor.offset);
    for (TraceTensor& tensor : call.outputs) rebase(tensor.object, &tensor.offset);
  }
  for (TraceArray& result : results_) rebase(result.object, &result.spec.offset);
  for (const TraceGradient& gradient : gradients_) {
    if (!gradient.any_before && gradient.changes) repeatable_ = false;
  }
  DropUnused();
  if (checks_first) CheckFirst();
  Fuse(devices);
  LayOut();
  FindPlaces();
  FindSlots(trace.slots);
  FindSequences(devices);
  for (const Step& step : steps_) {
    const auto calls = absl::MakeConstSpan(calls_).subspan(step.calls.first, step.calls.count);
    if (std::any_of(calls.begin(), calls.end(),
                    [this](const auto& c) { return WritesOutside(c); })) {
      break;
    }
    ++first_write_;
  }
}

// Null: the kernel was left out.
void Plan::FindSlots(absl::Span<const TraceSlot> slots) {
  for (const TraceSlot& slot : slots) {
    slots_.push_back(nullptr);
    for (TraceCall& call : calls_) {
      const bool is_it =
          call.operation == slot.operation && slot.attribute < call.kernel.op->attrs.size() &&
          call.kernel.op->attrs.size() == call.kernel.attrs.size() && call.is_operator;
      if (is_it) slots_.back() = &call.kernel.attrs[slot.attribute];
    }
  }
}

void Plan::FindSequences(const Devices& devices) {
  absl::flat_hash_set<const TraceCall*> varying;  // their attributes differ in each run
  for (const TraceCall& call : calls_) {
    const bool varies = std::any_of(slots_.begin(), slots_.end(), [&](const AttrValue* slot) {
      return slot >= call.kernel.attrs.begin() && slot < call.kernel.attrs.end();
    });
    if (varies) varying.insert(&call);
  }
  Sequences::Part part;
  const auto end = [&](size_t step) {
    part.end = step;
    if (part.kernels.size() >= Sequences::kLeastKernels) sequences_.Add(std::move(part));
    part = {};
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    const TraceCall& call = calls_[steps_[i].calls.first];
    const PreparedKernel& kernel = call.kernel;
    bool fits = steps_[i].fused == nullptr && !varying.contains(&call) &&
                !MayFailByValues(kernel) && devices.at(kernel.device).has_sequences();
    call.ForEachTensor([&](const TraceTensor& tensor) {
      fits = fits && !IsElsewhere(objects_[tensor.object].traced);
    });
    if (!part.kernels.empty() && (!fits || kernel.device != part.device)) end(i);
    if (!fits) continue;
    if (part.kernels.empty()) part.begin = i;
    part.device = kernel.device;
    part.kernels.push_back(kernel.op->id);
  }
  end(steps_.size());
}

// Of temporaries only: what is written elsewhere can be seen.
void Plan::DropUnused() {
  std::vector<bool> needed(objects_.size());
  for (size_t i = 0; i < objects_.size(); ++i) {
    needed[i] = objects_[i].traced.kind != Kind::kTemporary;
  }
  std::vector<bool> kept(calls_.size());
  for (size_t i = calls_.size(); i-- > 0;) {
    const TraceCall& call = calls_[i];
    call.ForEachWritten([&](const TraceTensor& t) { kept[i] = kept[i] || needed[t.object]; });
    if (!kept[i]) continue;
    call.ForEachTensor([&](const TraceTensor& tensor) { needed[tensor.object] = true; });
  }
  size_t next = 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (!kept[i]) {
      drops_checks_ = drops_checks_ || MayFailByValues(calls_[i].kernel);
      dropped_.push_back(calls_[i].kernel.op);
      continue;
    }
    if (next != i) calls_[next] = std::move(calls_[i]);
    ++next;
  }
  calls_.resize(next);
}

void Plan::Life::Add(size_t step, bool read) {
  if (!used) {
    first = step;
    read_first = read;
  }
  last = step;
  used = true;
}

std::vector<Plan::Life> Plan::FindLives() const {
  std::vector<Life> lives(objects_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    for (size_t j = 0; j < steps_[i].calls.count; ++j) {
      const TraceCall& call = calls_[steps_[i].calls.first + j];
      for (const TraceTensor& input : call.inputs) {
        if (input.object >= 0) lives[input.object].Add(i, true);
      }
      for (const TraceTensor& output : call.outputs) {
        if (output.object >= 0) lives[output.object].Add(i, false);
      }
    }
  }
  return lives;
}

void Plan::Fuse(const Devices& devices) {
  for (const CallRange& range : FindRuns(calls_, devices)) steps_.push_back({range, nullptr});
  const std::vector<Life> lives = FindLives();
  for (size_t i = 0; i < objects_.size(); ++i) {
    const Life& life = lives[i];
    objects_[i].in_blocks = objects_[i].traced.kind == Kind::kTemporary && life.used &&
                            life.first == life.last && !life.read_first &&
                            steps_[life.first].calls.count > 1;
  }
  for (Step& step : steps_) {
    if (step.calls.count == 1) continue;
    step.fused = std::make_unique<FusedRun>(
        absl::MakeConstSpan(calls_).subspan(step.calls.first, step.calls.count), step.calls,
        [this](int object) { return objects_[object].in_blocks; });
  }
}

// The largest first, each at the lowest place where nothing is that lives at the same time.
void Plan::LayOut() {
  const std::vector<Life> lives = FindLives();
  std::vector<size_t> order;
  for (size_t i = 0; i < objects_.size(); ++i) {
    const Object& object = objects_[i];
    if (object.traced.kind == Kind::kTemporary && lives[i].used && !object.in_blocks) {
      order.push_back(i);
    }
  }
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return objects_[a].traced.bytes > objects_[b].traced.bytes;
  });
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    Object& object = objects_[i];
    int64_t offset = 0;
    for (size_t other : placed) {
      const Object& there = objects_[other];
      if (there.traced.device != object.traced.device || !lives[i].Meets(lives[other])) continue;
      if (offset + object.traced.bytes <= there.arena_offset) break;
      const int64_t end = there.arena_offset + there.traced.bytes;
      offset = std::max(offset, (end + kAlignment - 1) / kAlignment * kAlignment);
    }
    object.arena_offset = offset;
    const auto after = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [this](int64_t at, size_t other) { return at < objects_[other].arena_offset; });
    placed.insert(after, i);
    if (arena_bytes_.size() <= object.traced.device) arena_bytes_.resize(object.traced.device + 1);
    int64_t& bytes = arena_bytes_[object.traced.device];
    bytes = std::max(bytes, offset + object.traced.bytes);
  }
  for (const Step& step : steps_) {
    const PreparedKernel& kernel = calls_[step.calls.first].kernel;
    const int64_t bytes = step.fused != nullptr ? step.fused->scratch_bytes() : kernel.scratch;
    if (bytes == 0) continue;
    if (scratch_bytes_.size() <= kernel.device) scratch_bytes_.resize(kernel.device + 1);
    scratch_bytes_[kernel.device] = std::max(scratch_bytes_[kernel.device], bytes);
  }
  if (arena_bytes_.size() < scratch_bytes_.size()) arena_bytes_.resize(scratch_bytes_.size());
  for (size_t i = 0; i < scratch_bytes_.size(); ++i) {
    arena_bytes_[i] = (arena_bytes_[i] + kAlignment - 1) / kAlignment * kAlignment;
    arena_bytes_[i] += scratch_bytes_[i];
  }
}

void Plan::FindPlaces() {
  const auto add = [this](KernelTensor& tensor, const TraceTensor& traced) {
    if (traced.object < 0) return;
    if (objects_[traced.object].in_blocks) {
      tensor.data = nullptr;
    } else {
      objects_[traced.object].places.push_back({&tensor, traced.offset});
    }
  };
  for (TraceCall& call : calls_) {
    for (size_t i = 0; i < call.inputs.size(); ++i) add(call.kernel.inputs[i], call.inputs[i]);
    for (size_t i = 0; i < call.outputs.size(); ++i) add(call.kernel.outputs[i], call.outputs[i]);
    call.ForEachTensor([&](const TraceTensor& tensor) {
      const int64_t bytes = objects_[tensor.object].traced.bytes;
      call.kernel.large_operand = std::max(call.kernel.large_operand, bytes);
    });
  }
}

ArrayNode* Plan::NodeOf(const TraceGradient& gradient,
                        absl::Span<Variable* const> arguments) const {
  return gradient.node ? gradient.node.get() : arguments[gradient.argument]->NodeOf(gradient.id);
}

bool Plan::Fits(const Executor& executor, absl::Span<Variable* const> arguments) const {
  if (arguments.size() != arguments_.size()) return false;
  // Kernels were called with memory that was apart.
  absl::flat_hash_set<const Buffer*> apart;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments_[i].Fits(*arguments[i])) return false;
    if (!apart.insert(arguments[i]->array.buffer.get()).second) return false;
  }
  for (const TraceGradient& gradient : gradients_) {
    const ArrayNode* const node = NodeOf(gradient, arguments);
    if (node == nullptr || node->handles == 0) return false;
    const Variable* const grad = node->grad.get();
    if (grad != nullptr && (!grad->nodes.empty() || grad->array.buffer->lease())) return false;
    if (gradient.any_before) continue;
    if ((grad != nullptr) != gradient.before) return false;
    if (grad == nullptr) continue;
    const ArraySpec& spec = grad->array.spec;
    if (grad->array.buffer->unique() != gradient.unique || spec.shape != gradient.spec.shape ||
        spec.dtype != gradient.spec.dtype || spec.strides != gradient.spec.strides ||
        spec.offset != gradient.spec.offset || !apart.insert(grad->array.buffer.get()).second) {
      return false;
    }
  }
  absl::flat_hash_set<const char*> shared;  // a session may have such memory twice
  for (const Object& object : objects_) {
    if (object.traced.kind != Kind::kHeld) continue;
    const Buffer& buffer = *object.traced.buffer;
    if (!apart.insert(&buffer).second) return false;
    if (!buffer.lease()) continue;
    if (!executor.Holds(buffer, object.traced.written) || !shared.insert(buffer.data()).second) {
      return false;
    }
  }
  return true;
}

Array Plan::Found(const TraceObject& object, absl::Span<Variable* const> arguments) const {
  if (object.kind == Kind::kArgument) return arguments[object.index]->array;
  Array array;
  array.spec.device = object.device;
  if (object.kind == Kind::kGradient) {
    array.buffer = NodeOf(gradients_[object.index], arguments)->grad->array.buffer;
  } else {
    array.buffer = object.buffer;
  }
  return array;
}

// What there was before the run stays where it is, until the executor's EndUses.
absl::Status Plan::KeepAll(Executor& executor, absl::Span<Variable* const> arguments) const {
  absl::InlinedVector<std::pair<Array, const TraceObject*>, 16> found;
  for (const Object& object : objects_) {
    Array array = Found(object.traced, arguments);
    if (array.valid()) found.emplace_back(std::move(array), &object.traced);
  }
  // All of them, before the first one that comes back makes others go.
  for (const auto& [array, traced] : found) executor.Touch(array);
  for (const auto& [array, traced] : found) {
    CHX_RETURN_IF_ERROR(executor.Keep(array));
    if (!array.buffer->shared() || !traced->must_not_change) continue;
    CHX_RETURN_IF_ERROR(executor.Unshare(array));
    if (array.buffer->shared()) return absl::UnavailableError("the client sees the array");
  }
  return absl::OkStatus();
}

absl::StatusOr<char*> Plan::AddressOf(size_t number, Executor& executor,
                                      absl::Span<Variable* const> arguments) {
  const Object& object = objects_[number];
  const TraceObject& traced = object.traced;
  if (traced.kind == Kind::kTemporary) {
    return arenas_[traced.device].buffer->data() + object.arena_offset;
  }
  if (traced.kind != Kind::kResult) return Found(traced, arguments).data();
  const ArraySpec bytes(Dtype::kUint8, Shape({traced.bytes}), traced.device);
  CHX_ASSIGN_OR_RETURN(Array made, executor.Allocate(bytes));
  made_[number] = std::move(made.buffer);
  return made_[number]->data();
}

absl::Status Plan::Prepare(Executor& executor, absl::Span<Variable* const> arguments) {
  CHX_RETURN_IF_ERROR(KeepAll(executor, arguments));
  arenas_.resize(arena_bytes_.size());
  // What the commands had for their temporaries, and the pools keep, does not fit an arena. Once:
  // from then on the pools keep the arena.
  const bool is_large = std::any_of(arena_bytes_.begin(), arena_bytes_.end(),
                                    [](int64_t bytes) { return bytes >= kLargeArena; });
  if (is_large && !prepared_) executor.Trim();
  prepared_ = true;
  for (size_t i = 0; i < arena_bytes_.size(); ++i) {
    if (arena_bytes_[i] == 0) continue;
    const ArraySpec bytes(Dtype::kUint8, Shape({arena_bytes_[i]}), static_cast<DeviceId>(i));
    CHX_ASSIGN_OR_RETURN(arenas_[i], executor.Allocate(bytes));
  }
  made_.resize(objects_.size());
  for (size_t i = 0; i < objects_.size(); ++i) {
    Object& object = objects_[i];
    if (object.traced.kind == Kind::kTemporary && object.places.empty()) continue;
    CHX_ASSIGN_OR_RETURN(char* const address, AddressOf(i, executor, arguments));
    if (address == object.address) continue;
    for (const Place& place : object.places) place.tensor->data = address + place.offset;
    object.address = address;
  }
  if (!sequences_.empty()) {
    addresses_.clear();
    for (const Object& object : objects_) {
      if (!IsElsewhere(object.traced)) addresses_.push_back(object.address);
    }
    sequences_.Start(executor, addresses_);
  }
  return absl::OkStatus();
}

absl::Status Plan::RunStep(Executor& executor, const Step& step) const {
  const PreparedKernel& kernel = calls_[step.calls.first].kernel;
  const bool is_fused = step.fused != nullptr;
  const int64_t bytes = is_fused ? step.fused->scratch_bytes() : kernel.scratch;
  if (bytes == 0) {
    return is_fused ? step.fused->Run(executor, nullptr) : executor.Repeat(kernel);
  }
  const int64_t room = scratch_bytes_[kernel.device];
  char* const scratch = arenas_[kernel.device].buffer->data() + arena_bytes_[kernel.device] - room;
  if (is_fused) return step.fused->Run(executor, scratch);
  return executor.Repeat(kernel, absl::MakeSpan(scratch, static_cast<size_t>(room)));
}

absl::StatusOr<size_t> Plan::RunSteps(Executor& executor, size_t step,
                                      const Sequences::Part* part) {
  if (part != nullptr) {
    const size_t count = part->end - step;
    const auto run = [&]() -> absl::Status {
      for (size_t i = step; i < step + count; ++i) {
        CHX_RETURN_IF_ERROR(RunStep(executor, steps_[i]));
      }
      return absl::OkStatus();
    };
    CHX_ASSIGN_OR_RETURN(const bool ran, sequences_.Run(executor, *part, run));
    if (ran) return count;
  }
  CHX_RETURN_IF_ERROR(RunStep(executor, steps_[step]));
  return 1;
}

// What has begun to write goes on to its end: it is short, and a command that was cancelled a
// moment later is cancelled all the same.
absl::Status Plan::BeginStep(size_t step, const Source& source) const {
  constexpr uint64_t kAfterAllThatIsCancelled = ~uint64_t{0};
  StopReason reason = StopReason::kNone;
  if (step <= first_write_) reason = source.stop->Begin(source.batch);
  if (reason == StopReason::kNone && step >= first_write_) {
    reason = source.stop->Begin(kAfterAllThatIsCancelled);
  }
  if (reason == StopReason::kNone) return absl::OkStatus();
  return source.stop->Error(calls_[steps_[step].calls.first].kernel.op->name, reason);
}

absl::Status Plan::Repeat(Executor& executor, absl::Span<const int64_t> values,
                          const Source* source, Progress* progress) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] != nullptr) SetSlot(values[i], slots_[i]);
  }
  for (size_t i = 0; i < steps_.size();) {
    Step& step = steps_[i];
    progress->command = calls_[step.calls.first].command;
    if (source != nullptr) CHX_RETURN_IF_ERROR(BeginStep(i, *source));
    progress->wrote = progress->wrote || i >= first_write_;
    if (!measures_) {
      const Sequences::Part* const part = sequences_.At(i);
      if (part != nullptr) progress->wrote = progress->wrote || part->end > first_write_;
      CHX_ASSIGN_OR_RETURN(const size_t count, RunSteps(executor, i, part));
      i += count;
      continue;
    }
    const auto began = std::chrono::steady_clock::now();
    CHX_RETURN_IF_ERROR(RunStep(executor, step));
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began;
    step.nanoseconds += took.count();
    ++i;
  }
  if (measures_) ++measured_runs_;
  return absl::OkStatus();
}

Array Plan::ArrayOf(const TraceArray& kept, absl::Span<Variable* const> arguments) const {
  Array array = Found(objects_[kept.object].traced, arguments);
  const int64_t begin = array.spec.offset;
  if (!array.valid()) array.buffer = made_[kept.object];
  array.spec = kept.spec;
  array.spec.offset += begin;
  return array;
}

void Plan::Finish(absl::Span<Variable* const> arguments, std::vector<Array>* results) {
  results->clear();
  for (const TraceArray& result : results_) results->push_back(ArrayOf(result, arguments));
  // All of them before any is replaced.
  std::vector<std::unique_ptr<Variable>> after(gradients_.size());
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (!gradients_[i].changes || gradients_[i].after.object < 0) continue;
    after[i] = std::make_unique<Variable>();
    after[i]->array = ArrayOf(gradients_[i].after, arguments);
  }
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (gradients_[i].changes) NodeOf(gradients_[i], arguments)->grad = std::move(after[i]);
  }
}

absl::Status Plan::Run(Executor& executor, absl::Span<Variable* const> arguments, int64_t times,
                       absl::Span<const int64_t> values, std::vector<Array>* results,
                       Progress* progress, const Source* source) {
  absl::Status status = Prepare(executor, arguments);
  progress->began = status.ok();
  if (calls_.empty()) times = 1;
  for (int64_t i = 0; i < times && status.ok(); ++i) {
    if (i > 0) sequences_.StartAgain();
    const size_t first = static_cast<size_t>(i) * slots_.size();
    status = Repeat(executor, values.subspan(first, slots_.size()), source, progress);
  }
  if (status.ok()) Finish(arguments, results);
  arenas_.clear();
  made_.clear();
  return status;
}

bool Plan::WritesOutside(const TraceCall& call) const {
  bool writes = false;
  call.ForEachWritten([&](const TraceTensor& tensor) {
    const Kind kind = objects_[tensor.object].traced.kind;
    writes = writes || (kind != Kind::kTemporary && kind != Kind::kResult);
  });
  return writes;
}

bool Plan::MayFailHalfway() const {
  if (first_write_ == steps_.size()) return false;
  const auto calls = absl::MakeConstSpan(calls_).subspan(steps_[first_write_].calls.first);
  return std::any_of(calls.begin(), calls.end(), [](const TraceCall& call) {
    return !call.checked && MayFailByValues(call.kernel);
  });
}

std::vector<const Buffer*> Plan::Unwritten(absl::Span<Variable* const> arguments,
                                           size_t failed) const {
  std::vector<const Buffer*> buffers;
  for (const TraceCall& call : calls_) {
    if (call.command < failed) continue;
    // One bad gradient does not cost all parameters their values: nothing is written.
    if (call.kernel.op->has_lists() && call.command > failed) continue;
    call.ForEachWritten([&](const TraceTensor& tensor) {
      const Array array = Found(objects_[tensor.object].traced, arguments);
      if (array.valid()) buffers.push_back(array.buffer.get());
    });
  }
  return buffers;
}

int64_t Plan::Bytes() const {
  auto bytes = static_cast<int64_t>(sizeof(*this));
  for (const TraceCall& call : calls_) {
    bytes += static_cast<int64_t>(sizeof(call) + 2 * (call.inputs.size() + call.outputs.size()) *
                                                     (sizeof(KernelTensor) + sizeof(TraceTensor)));
  }
  for (const Step& step : steps_) bytes += step.fused != nullptr ? step.fused->Bytes() : 0;
  return bytes + static_cast<int64_t>(objects_.size() * sizeof(Object));
}

}  // namespace chx::server
