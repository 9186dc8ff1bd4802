// How plans run.
#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "ops/error.h"
#include "server/programs/plan.h"

namespace chx::server {
namespace {

constexpr int64_t kLargeArena = int64_t{16} << 20;  // bytes worth giving back others for

}  // namespace

// Collectives that go on beside the steps of one time.
class Plan::Beside {
 public:
  Beside(Plan* plan, Executor* executor, Progress* progress)
      : plan_(*plan), executor_(*executor), progress_(*progress) {}
  // Other ranks have what they were promised.
  ~Beside() {
    for (const Going& going : going_) going.collective->Wait().IgnoreError();
  }

  // False: it has not begun, and runs as other steps do.
  absl::StatusOr<bool> Start(const Step& step) {
    constexpr size_t kMost = 64;
    if (going_.size() == kMost) return false;
    absl::StatusOr<std::unique_ptr<StartedCollective>> started =
        executor_.StartRepeat(plan_.calls_[step.calls.first].kernel);
    // The first one of a group starts a thread.
    if (KindOf(started.status()) == ErrorKind::kMemory) return false;
    CHX_RETURN_IF_ERROR(started.status());
    going_.push_back({&step, *std::move(started)});
    return true;
  }
  // For those that end before this step.
  absl::Status WaitFor(size_t step) {
    for (size_t i = 0; i < going_.size();) {
      if (going_[i].step->beside_until > step) {
        ++i;
        continue;
      }
      const Going ends = std::move(going_[i]);
      going_.erase(going_.begin() + static_cast<int64_t>(i));
      const absl::Status status = ends.collective->Wait();
      if (status.ok()) continue;
      progress_.call = ends.step->calls.first;
      progress_.command = plan_.calls_[progress_.call].command;
      return status;
    }
    return absl::OkStatus();
  }

 private:
  struct Going {
    const Step* step;
    std::unique_ptr<StartedCollective> collective;
  };

  Plan& plan_;
  Executor& executor_;
  Progress& progress_;
  std::vector<Going> going_;
};

bool Plan::Fits(const Executor& executor, absl::Span<Variable* const> arguments) const {
  if (arguments.size() != arguments_.size()) return false;
  // Who waits for other sessions holds nothing that they may have.
  if (has_collectives_ && executor.shares()) return false;
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
  addresses_.clear();
  for (size_t i : steady_) addresses_.push_back(objects_[i].address);
  for (const Array& arena : arenas_) {  // kernels have scratch memory there
    addresses_.push_back(arena.valid() ? arena.buffer->data() : nullptr);
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

absl::StatusOr<size_t> Plan::RunSteps(Executor& executor, size_t step, Sequences* sequences) {
  if (const Sequences::Part* const part = sequences->At(step)) {
    const size_t count = part->end - step;
    const auto run = [&]() -> absl::Status {
      for (size_t i = step; i < step + count; ++i) {
        CHX_RETURN_IF_ERROR(RunStep(executor, steps_[i]));
      }
      return absl::OkStatus();
    };
    CHX_ASSIGN_OR_RETURN(const bool ran, sequences->Run(executor, *part, run));
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
    for (AttrValue* attribute : slots_[i]) SetSlot(values[i], attribute);
  }
  Sequences* const sequences = StartSequences(executor, values);
  Beside beside(this, &executor, progress);
  progress->met = 0;
  for (size_t i = 0; i < steps_.size();) {
    Step& step = steps_[i];
    progress->call = step.calls.first;
    progress->command = calls_[progress->call].command;
    if (source != nullptr) CHX_RETURN_IF_ERROR(BeginStep(i, *source));
    CHX_RETURN_IF_ERROR(beside.WaitFor(i));
    progress->wrote = progress->wrote || i >= first_write_;
    bool goes_on = false;
    if (step.beside_until > 0 && !measures_) {
      CHX_ASSIGN_OR_RETURN(goes_on, beside.Start(step));
    }
    if (calls_[progress->call].is_collective()) progress->met = progress->call + 1;
    if (goes_on) {
      ++i;
      continue;
    }
    if (!measures_) {
      const Sequences::Part* const part = sequences->At(i);
      if (part != nullptr) progress->wrote = progress->wrote || part->end > first_write_;
      CHX_ASSIGN_OR_RETURN(const size_t count, RunSteps(executor, i, sequences));
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
  return beside.WaitFor(steps_.size());
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
    const size_t first = static_cast<size_t>(i) * slots_.size();
    status = Repeat(executor, values.subspan(first, slots_.size()), source, progress);
    if (status.ok()) ++progress->times;
  }
  if (status.ok()) {
    Finish(arguments, results);
  } else if (progress->began) {
    MeetWithout(executor, progress->met, status);
  }
  arenas_.clear();
  made_.clear();
  return status;
}

}  // namespace chx::server
