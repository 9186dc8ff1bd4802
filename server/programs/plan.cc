#include "server/programs/plan.h"

#include <algorithm>

#include "ops/collective.h"
#include "ops/error.h"
#include "server/programs/common_calls.h"
#include "server/programs/device_fusion.h"
#include "server/programs/row_updates.h"

namespace chx::server {
namespace {

constexpr int64_t kArrayAlignment = 64;

// A collective of so much is worth another thread's while.
constexpr int64_t kBytesBeside = 64 << 10;

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
  has_collectives_ = std::any_of(calls_.begin(), calls_.end(),
                                 [](const TraceCall& call) { return call.is_collective(); });
  DropUnused();
  if (checks_first) CheckFirst();
  const auto temporary = [this](int object) {
    return objects_[object].traced.kind == Kind::kTemporary;
  };
  UpdateRowsOnly(devices, temporary, &calls_);
  FuseOnDevices(devices, temporary, &calls_);
  MoveResultsLast(devices);
  Fuse(devices);
  FindOverlaps();
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

// None: the kernel was left out. Several: it was split.
void Plan::FindSlots(absl::Span<const TraceSlot> slots) {
  for (const TraceSlot& slot : slots) {
    slots_.emplace_back();
    for (TraceCall& call : calls_) {
      const bool is_it =
          call.operation == slot.operation && slot.attribute < call.kernel.op->attrs.size() &&
          call.kernel.op->attrs.size() == call.kernel.attrs.size() && call.is_operator;
      if (is_it) slots_.back().push_back(&call.kernel.attrs[slot.attribute]);
    }
  }
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
    kept[i] = call.is_collective();  // the other ranks wait for it
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
  for (const Step& step : steps_) {
    if (step.beside_until == 0) continue;
    calls_[step.calls.first].ForEachTensor([&](const TraceTensor& tensor) {
      Life& life = lives[tensor.object];
      life.last = std::max(life.last, step.beside_until - 1);
    });
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

// A collective ends before the first step that uses what it writes, or writes what it reads, and
// before messages: a rank does one thing at a time in its group.
void Plan::FindOverlaps() {
  if (!has_collectives_) return;
  // Of objects: the first step behind this one that uses, or writes, it.
  std::vector<size_t> used(objects_.size(), steps_.size());
  std::vector<size_t> written(objects_.size(), steps_.size());
  size_t computes = steps_.size();  // the first step that is no collective
  size_t message = steps_.size();
  for (size_t i = steps_.size(); i-- > 0;) {
    const auto calls =
        absl::MakeConstSpan(calls_).subspan(steps_[i].calls.first, steps_[i].calls.count);
    if (!calls[0].is_collective()) {
      computes = i;
    } else if (calls[0].kernel.op->pattern->kind != CollectiveKind::kAll) {
      message = i;
    } else {
      size_t until = message;
      int64_t bytes = 0;
      for (const KernelTensor& input : calls[0].kernel.inputs) {
        bytes += input.size() * ItemSize(input.dtype);
      }
      for (const TraceTensor& input : calls[0].inputs) {
        if (input.object >= 0) until = std::min(until, written[input.object]);
      }
      for (const TraceTensor& output : calls[0].outputs) {
        if (output.object >= 0) until = std::min(until, used[output.object]);
      }
      if (bytes >= kBytesBeside && computes < until) steps_[i].beside_until = until;
    }
    for (const TraceCall& call : calls) {
      call.ForEachTensor([&](const TraceTensor& tensor) { used[tensor.object] = i; });
      call.ForEachWritten([&](const TraceTensor& tensor) { written[tensor.object] = i; });
    }
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
      offset = std::max(offset, (end + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment);
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
    arena_bytes_[i] = (arena_bytes_[i] + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
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

void Plan::MeetWithout(Executor& executor, size_t first_call, const absl::Status& failed) const {
  if (!has_collectives_) return;
  for (const TraceCall& call : absl::MakeConstSpan(calls_).subspan(first_call)) {
    if (call.is_collective()) executor.MeetWithout(call.kernel, failed);
  }
}

std::vector<const Buffer*> Plan::Unwritten(absl::Span<Variable* const> arguments,
                                           const Progress& failed) const {
  std::vector<const Buffer*> buffers;
  for (const TraceCall& call : absl::MakeConstSpan(calls_).subspan(failed.call)) {
    // One bad gradient does not cost all parameters their values: nothing is written.
    if (call.kernel.op->has_lists() && call.command != failed.command) continue;
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
    bytes += static_cast<int64_t>(sizeof(call) + call.fused.size() * sizeof(PreparedKernel) +
                                  2 * (call.inputs.size() + call.outputs.size()) *
                                      (sizeof(KernelTensor) + sizeof(TraceTensor)));
  }
  for (const Step& step : steps_) bytes += step.fused != nullptr ? step.fused->Bytes() : 0;
  return bytes + static_cast<int64_t>(objects_.size() * sizeof(Object));
}

std::vector<int64_t> Plan::RunBytes() const {
  std::vector<int64_t> bytes = arena_bytes_;
  for (const Object& object : objects_) {
    const TraceObject& traced = object.traced;
    const bool is_shared = traced.kind == Kind::kHeld && traced.buffer->lease();
    if (traced.kind == Kind::kTemporary || is_shared) continue;
    if (bytes.size() <= traced.device) bytes.resize(traced.device + 1);
    bytes[traced.device] += traced.bytes;
  }
  return bytes;
}

}  // namespace chx::server
