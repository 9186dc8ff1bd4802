#include "server/session/repeated_windows.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "proto/command_codec.h"
#include "server/session/commands.h"
#include "server/session/recording.h"
#include "server/session/step_commands.h"

namespace chx::server {
namespace {

constexpr size_t kMaxKnown = 4;
constexpr int64_t kMostHeap = 256 << 10;  // of what is captured: lists that are long
constexpr int kMaxMisses = 64;
constexpr int kMaxAttempts = 6;
constexpr int64_t kSuccesses = 16;     // that make up for an attempt
constexpr size_t kShortestWait = 256;  // commands
constexpr int kLongestWait = 8;        // as a power of two of it
// One that takes longer gains nothing: its commands are stopped, and make way, one by one.
constexpr std::chrono::milliseconds kLongestWindow(20);
// What a window may make, as what it releases is released behind it; and that as a part of what the
// session may have.
constexpr int64_t kMostBytes = int64_t{256} << 20;
constexpr int64_t kShareOfMemory = 16;

bool IsStep(const Command& command) { return RoleOf(command) == WindowRole::kStep; }

bool WritesInPlace(const Command& command) {
  const auto* const apply = std::get_if<command::ApplyOp>(&command);
  return apply != nullptr && apply->results.empty();
}

int64_t BytesOfResults(const Command& command, SessionState* state) {
  int64_t bytes = 0;
  for (Handle result : std::visit([](const auto& c) { return ResultsOf(c); }, command)) {
    RootErrorPtr error;
    const auto entry = state->handles.UseValue(result, &error);
    if (entry.ok() && error == nullptr) bytes += (*entry)->variable.array.spec.nbytes();
  }
  return bytes;
}

// The steps from `begin` on, until one that is none.
std::vector<const Command*> StepsFrom(const std::vector<Command>& captured, size_t begin,
                                      size_t most) {
  std::vector<const Command*> steps;
  for (size_t i = begin; i < begin + most && IsStep(captured[i]); ++i) {
    steps.push_back(&captured[i]);
  }
  return steps;
}

// Where a window begins best: so that the longest run of steps is one; else where nothing that a
// step has made is used by a later window; and then where a client's loop is likely to begin.
size_t BestBegin(const std::vector<Command>& captured, size_t period) {
  absl::flat_hash_map<Handle, size_t> makers;
  std::vector<int> crossing(period);
  for (size_t i = 0; i < captured.size(); ++i) {
    const auto visit = [&](const auto& c) {
      ForEachUse(c, [&](Handle handle) {
        const auto maker = makers.find(handle);
        if (i < period || i >= 2 * period || maker == makers.end()) return;
        const size_t first = std::max(maker->second + 1, i + 1 - std::min(i + 1, period));
        for (size_t j = first; j <= i; ++j) ++crossing[j % period];
      });
      for (Handle result : ResultsOf(c)) makers[result] = i;
    };
    std::visit(visit, captured[i]);
  }
  size_t best = 0;
  std::tuple<size_t, int, int> best_score;
  for (size_t begin = 0; begin < period; ++begin) {
    const Command& before = captured[(begin + period - 1) % period];
    const size_t steps = StepsFrom(captured, begin, period).size();
    const bool computes = std::holds_alternative<command::ApplyOp>(captured[begin]) &&
                          !WritesInPlace(captured[begin]);
    const bool after_update =
        WritesInPlace(before) || std::holds_alternative<command::SetGrad>(before);
    const std::tuple<size_t, int, int> score(steps, -crossing[begin],
                                             (computes ? 2 : 0) + (after_update ? 1 : 0));
    if (begin == 0 || score > best_score) {
      best = begin;
      best_score = score;
    }
  }
  return best;
}

}  // namespace

void RepeatedWindows::ForgetPlan(Known* known) {
  known->plan = nullptr;
  known->graph = nullptr;
  known->held.clear();
  meter_->Release(std::exchange(known->charged, 0));
}

void RepeatedWindows::Drop(std::list<Known>::iterator known) {
  ForgetPlan(&*known);
  meter_->Release(known->shape.Bytes());
  known_.erase(known);
}

void RepeatedWindows::Tidy(const SessionState& state) {
  for (auto known = known_.begin(); known != known_.end();) {
    const auto next = std::next(known);
    const std::vector<Handle>& held = known->shape.held();
    const bool whole = std::all_of(held.begin(), held.end(), [&state](Handle handle) {
      return state.handles.contains(handle);
    });
    if (!whole) Drop(known);
    known = next;
  }
}

void RepeatedWindows::Clear() {
  while (!known_.empty()) Drop(known_.begin());
  StopCapturing();
}

void RepeatedWindows::StopCapturing() {
  period_ = 0;
  std::vector<Command>().swap(captured_);
  captured_bytes_ = 0;
  meter_->Release(std::exchange(captured_charge_, 0));
}

// After what was not to be: longer each time.
void RepeatedWindows::Wait() {
  waits_ = kShortestWait << std::min(failures_, kLongestWait);
  ++failures_;
}

void RepeatedWindows::Note(const Command& command, const SessionState& state) {
  if (!enabled_) return;
  const WindowRole role = RoleOf(command);
  if (role == WindowRole::kRelease) return Tidy(state);
  if (role == WindowRole::kReset) Clear();
  if (period_ > 0) {
    if (role == WindowRole::kStep) {
      captured_bytes_ += static_cast<int64_t>(HeapBytes(command));
      if (captured_bytes_ > kMostHeap) {
        StopCapturing();
        return Wait();
      }
      captured_.push_back(command);
    } else {
      captured_.emplace_back(command::Barrier());
    }
    if (captured_.size() < 3 * period_) return;
    if (!Learn()) Wait();
    StopCapturing();
    return;
  }
  if (waits_ > 0) {
    --waits_;
    return;
  }
  period_ = search_.Add(command);
  if (period_ == 0) return;
  const auto bytes = static_cast<int64_t>(3 * period_ * sizeof(Command)) + 2 * kMostHeap;
  if (meter_->TryCharge(bytes)) {
    captured_charge_ = bytes;
    captured_.reserve(3 * period_);
  } else {
    period_ = 0;
    Wait();
  }
}

bool RepeatedWindows::Learn() {
  const size_t begin = BestBegin(captured_, period_);
  const std::vector<const Command*> first = StepsFrom(captured_, begin, period_);
  const std::vector<const Command*> second = StepsFrom(captured_, begin + period_, period_);
  if (first.size() < WindowSearch::kMinPeriod || first.size() != second.size()) return false;
  absl::optional<WindowShape> shape = WindowShape::Of(first, second);
  if (!shape.has_value() || !meter_->TryCharge(shape->Bytes())) return false;
  if (known_.size() == kMaxKnown) Drop(std::prev(known_.end()));
  Known& known = known_.emplace_front();
  known.kept.resize(shape->num_results());
  known.shape = *std::move(shape);
  return true;
}

size_t RepeatedWindows::Run(absl::Span<const Command> stream, bool more, uint64_t batch,
                            CommandContext& context) {
  if (known_.empty() || !IsStep(stream[0]) || context.state.programs.recording() != nullptr) {
    return 0;
  }
  for (auto known = known_.begin(); known != known_.end();) {
    const auto next = std::next(known);
    if (known->shape.MayBegin(stream[0])) {
      const WindowShape::Found found = known->shape.Match(stream, &match_);
      if (found == WindowShape::Found::kTooShort && more && stream.size() < kMaxPending) {
        return kMore;
      }
      size_t done = 0;
      if (found == WindowShape::Found::kYes) {
        done = RunWindow(&*known, stream, batch, context);
      }
      if (done > 0) {
        known->misses = 0;
        known_.splice(known_.begin(), known_, known);
        Tidy(context.state);
        return done;
      }
      if (found != WindowShape::Found::kTooShort) ++known->misses;
      if (known->misses > kMaxMisses || known->attempts > kMaxAttempts) {
        Drop(known);
        Wait();
      }
    }
    known = next;
  }
  return 0;
}

bool RepeatedWindows::HeldIsThere(const Known& known, SessionState* state) const {
  for (size_t i = 0; i < known.held.size(); ++i) {
    const HandleTable::Entry* const entry = state->handles.Find(known.shape.held()[i]);
    if (entry == nullptr || entry->error != nullptr) return false;
    const Variable& now = entry->variable;
    const Held& held = known.held[i];
    if (now.array.buffer->serial() != held.buffer || now.nodes != held.nodes) return false;
    for (size_t j = 0; j < held.nodes.size(); ++j) {
      if (held.nodes[j]->grad_required != held.grad_required[j]) return false;
    }
    const ArraySpec& spec = now.array.spec;
    if (spec.dtype != held.spec.dtype || spec.shape != held.spec.shape ||
        spec.strides != held.spec.strides || spec.offset != held.spec.offset) {
      return false;
    }
  }
  return true;
}

size_t RepeatedWindows::RunWindow(Known* known, absl::Span<const Command> stream, uint64_t batch,
                                  CommandContext& context) {
  SessionState& state = context.state;
  // Else the release says what is wrong, before the commands behind it.
  const bool valid = std::all_of(match_.others.begin(), match_.others.end(),
                                 [&](Handle handle) { return state.handles.contains(handle); });
  if (!valid) return 0;
  bool keeps_all = true;
  for (size_t i = 0; i < match_.results.size(); ++i) {
    if (match_.results[i] == 0 || match_.released[i] != 0 || known->kept[i] != 0) continue;
    known->kept[i] = 1;
    keeps_all = false;
  }
  if (!keeps_all || (known->plan != nullptr && !HeldIsThere(*known, &state))) ForgetPlan(known);
  if (state.stop.Begin(batch) != StopReason::kNone) return 0;
  std::vector<Handle> made;
  for (Handle result : match_.results) {
    if (result != 0) made.push_back(result);
  }
  if (!state.handles.Reserve(made.size()) || !state.handles.CheckNew(made).ok()) return 0;
  if (known->plan == nullptr) {
    if (++known->attempts > kMaxAttempts) return 0;
    return Record(known, stream, batch, context);
  }
  if (!RunPlan(known, stream, context)) return 0;
  state.counters.repeated_windows.Add();
  if (++known->successes % kSuccesses == 0 && known->attempts > 1) --known->attempts;
  if (period_ > 0) {  // what is captured has a gap
    StopCapturing();
    Wait();
  }
  size_t begin = 0;
  for (size_t end : match_.others_ends) {
    const auto others = absl::MakeConstSpan(match_.others).subspan(begin, end - begin);
    begin = end;
    if (others.empty()) continue;
    RunCommand(command::Release{{others.begin(), others.end()}}, context);
  }
  return match_.consumed;
}

std::vector<Handle> RepeatedWindows::KeptHandles(const Known& known) const {
  std::vector<Handle> handles;
  for (size_t i = 0; i < known.kept.size(); ++i) {
    if (known.kept[i] != 0) handles.push_back(match_.results[i]);
  }
  return handles;
}

bool RepeatedWindows::RunPlan(Known* known, absl::Span<const Command> stream,
                              CommandContext& context) {
  SessionState& state = context.state;
  RootErrorPtr inherited;
  absl::StatusOr<std::vector<Variable*>> arguments =
      state.handles.UseAll(match_.arguments, &inherited);
  if (!arguments.ok() || inherited != nullptr || !known->plan->Fits(state.executor, *arguments)) {
    ForgetPlan(known);
    return false;
  }
  const int64_t node_bytes = known->graph->NodeBytes();
  if (!meter_->TryCharge(node_bytes)) return false;
  std::vector<Array> results;
  Plan::Progress progress;
  absl::Status status =
      known->plan->Run(state.executor, *arguments, 1, match_.values, &results, &progress);
  if (!progress.began || !status.ok()) meter_->Release(node_bytes);
  if (!progress.began) return false;
  if (status.ok()) {
    Bind(*known, std::move(results), &state);
    return true;
  }
  // As if it had not begun: its commands say what is wrong, and which of them work all the same.
  if (!known->plan->HasWritten(progress.step)) return false;
  const Command& failed = stream[match_.positions[progress.command]];
  const uint32_t location = std::visit([](const auto& c) { return LocationOf(c); }, failed);
  std::vector<Handle> lost;
  for (size_t i = 0; i < match_.results.size(); ++i) {
    if (match_.released[i] == 0) lost.push_back(match_.results[i]);
  }
  const std::vector<const Buffer*> unwritten = known->plan->Unwritten(*arguments, progress.command);
  const RootErrorPtr error =
      context.Fail(location, lost, std::move(status), NameOf(failed, state), "");
  PoisonUnwritten(unwritten, error, &state.handles);
  return true;
}

// The results that the plan keeps come first, then the values of their graph.
void RepeatedWindows::Bind(const Known& known, std::vector<Array> results, SessionState* state) {
  const std::vector<Handle> kept = KeptHandles(known);
  std::vector<Array> values(
      std::make_move_iterator(results.begin() + static_cast<ptrdiff_t>(kept.size())),
      std::make_move_iterator(results.end()));
  // Its charge is the graph's from here on.
  const auto graph = std::make_shared<DeferredGraph>(known.graph, std::move(values), &state->graph);
  graph->handles.resize(kept.size());
  size_t output = 0;
  for (size_t i = 0; i < known.kept.size(); ++i) {
    if (known.kept[i] == 0) continue;
    const bool in_graph = known.graph->IsInGraph(output);
    if (match_.released[i] == 0 && kept[output] != 0) {
      graph->handles[output] = in_graph ? kept[output] : 0;
      state->handles.Bind(kept[output], std::move(results[output]), in_graph ? graph : nullptr);
    }
    ++output;
  }
  graph->DropUnused();
}

bool RepeatedWindows::IsKept(const Known& known, Handle handle) const {
  const auto it = std::find(match_.results.begin(), match_.results.end(), handle);
  return it != match_.results.end() && known.kept[static_cast<size_t>(it - match_.results.begin())];
}

size_t RepeatedWindows::Record(Known* known, absl::Span<const Command> stream, uint64_t batch,
                               CommandContext& context) {
  SessionState& state = context.state;
  const auto began = std::chrono::steady_clock::now();
  auto recording = std::make_unique<Recording>(0, &state, /*keep_commands=*/false);
  const absl::Status begun = recording->Begin(match_.arguments);
  if (!begun.ok()) recording->Fail(begun);
  state.programs.Start(std::move(recording));
  // Of what the window releases the plan may keep some: that is released behind it. Unless it is
  // too much.
  command::Release later;
  const auto release = [&] {
    if (!later.handles.empty()) RunCommand(later, context);
    later.handles.clear();
  };
  const int64_t most = std::min(kMostBytes, state.account()->limit() / kShareOfMemory);
  int64_t bytes = 0;
  // Nothing is the last use of an array that is kept.
  CommandContext step_context{state, context.output, ~size_t{0} - 1};
  for (const Command& command : stream.subspan(0, match_.consumed)) {
    if (const auto* released = std::get_if<command::Release>(&command)) {
      command::Release now;
      for (Handle handle : released->handles) {
        (IsKept(*known, handle) && bytes <= most ? later : now).handles.push_back(handle);
      }
      if (!now.handles.empty()) RunCommand(now, context);
      continue;
    }
    state.executor.EndUses();
    const StopReason reason = state.stop.Begin(batch);
    if (reason == StopReason::kEnded) break;
    if (reason == StopReason::kCancelled) {
      CancelCommand(command, step_context);
    } else {
      RunCommand(command, step_context);
    }
    bytes += BytesOfResults(command, &state);
    if (bytes > most) release();
  }
  absl::Status made = MakePlan(known, &state);
  std::chrono::milliseconds longest = kLongestWindow;
  const std::chrono::milliseconds limit = state.limits.max_command_time;
  if (limit.count() > 0) longest = std::min(longest, limit / 4);
  if (bytes > most || std::chrono::steady_clock::now() - began > longest) {
    made = absl::UnimplementedError("it takes too much memory or time");
    known->attempts = kMaxAttempts;
  }
  if (!made.ok()) ForgetPlan(known);
  release();
  return match_.consumed;
}

absl::Status RepeatedWindows::MakePlan(Known* known, SessionState* state) {
  const std::unique_ptr<Recording> recording = state->programs.Stop();
  if (recording == nullptr) return absl::UnimplementedError("the recording has ended");
  CHX_RETURN_IF_ERROR(recording->status());
  const std::vector<Handle> kept = KeptHandles(*known);
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> arguments,
                       state->handles.UseAll(match_.arguments, &inherited));
  for (const Variable* argument : arguments) {
    // The graph's leaves would be those of this window.
    if (!argument->nodes.empty()) return absl::UnimplementedError("an argument is in a graph");
  }
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> outputs,
                       state->handles.UseAll(kept, &inherited));
  if (inherited != nullptr) return inherited->status;
  std::vector<Array> values;
  CHX_ASSIGN_OR_RETURN(
      GraphTemplate graph,
      GraphTemplate::Of(std::vector<const Variable*>(outputs.begin(), outputs.end()), &values));
  CHX_ASSIGN_OR_RETURN(known->plan, recording->FinishPlan(kept, values, known->shape.slots()));
  known->graph = std::make_shared<const GraphTemplate>(std::move(graph));
  for (Handle handle : known->shape.held()) {
    CHX_ASSIGN_OR_RETURN(const HandleTable::Entry* const entry,
                         state->handles.Use(handle, &inherited));
    if (inherited != nullptr) return inherited->status;
    const Variable& held = entry->variable;
    if (held.array.buffer->lease()) {
      return absl::UnimplementedError("an array is shared with other sessions");
    }
    Held& noted = known->held.emplace_back();
    noted.buffer = held.array.buffer->serial();
    noted.spec = held.array.spec;
    noted.nodes = held.nodes;
    for (const Ref<ArrayNode>& node : held.nodes)
      noted.grad_required.push_back(node->grad_required);
  }
  if (known->plan->MayFailHalfway() || known->plan->DropsChecks()) {
    return absl::UnimplementedError(
        "an operator may fail by its values, after a write or unnoticed");
  }
  const int64_t bytes = known->plan->Bytes() + known->graph->Bytes();
  if (!meter_->TryCharge(bytes)) return meter_->Exhausted(bytes);
  known->charged = bytes;
  return absl::OkStatus();
}

}  // namespace chx::server
