// How windows become plans, and plans run in their place.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <variant>

#include "server/session/commands.h"
#include "server/session/recording.h"
#include "server/session/repeated_windows.h"
#include "server/session/step_commands.h"

namespace chx::server {
namespace {

// What a window may make, as a plan has all of it at once; and that as a part of what the session
// may have.
constexpr int64_t kMostResults = int64_t{256} << 20;
constexpr int64_t kShareOfMemory = 4;

std::chrono::milliseconds LongestWindow(const SessionLimits& limits) {
  std::chrono::milliseconds longest = limits.longest_window;
  if (limits.max_command_time.count() > 0) longest = std::min(longest, limits.max_command_time / 4);
  // What is slow is in the log by its name.
  if (limits.slow_command.count() > 0) longest = std::min(longest, limits.slow_command / 2);
  return longest;
}

}  // namespace

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

bool RepeatedWindows::RunPlan(Known* known, absl::Span<const Command> stream, uint64_t batch,
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
  if (!state.meter.TryCharge(node_bytes)) return false;
  std::vector<Array> results;
  Plan::Progress progress;
  const Plan::Source source{&state.stop, batch};
  absl::Status status =
      known->plan->Run(state.executor, *arguments, 1, match_.values, &results, &progress, &source);
  if (!progress.began || !status.ok()) state.meter.Release(node_bytes);
  if (!progress.began) return false;
  if (status.ok()) {
    Bind(*known, std::move(results), &state);
    return true;
  }
  // As if it had not begun: its commands say what is wrong, and which of them work all the same.
  if (!progress.wrote) return false;
  const Command& failed = stream[match_.positions[progress.command]];
  const uint32_t location = std::visit([](const auto& c) { return LocationOf(c); }, failed);
  std::vector<Handle> lost;
  for (size_t i = 0; i < match_.results.size(); ++i) {
    if (match_.released[i] == 0) lost.push_back(match_.results[i]);
  }
  const std::vector<const Buffer*> unwritten = known->plan->Unwritten(*arguments, progress);
  const RootErrorPtr error =
      context.Fail(location, lost, std::move(status), NameOf(failed, state), "");
  PoisonUnwritten(unwritten, error, &state.handles);
  return true;
}

// The results that the plan keeps come first, then the values of their graph.
void RepeatedWindows::Bind(const Known& known, std::vector<Array> results, SessionState* state) {
  const auto num_kept = std::count(known.kept.begin(), known.kept.end(), 1);
  std::vector<Array> values(std::make_move_iterator(results.begin() + num_kept),
                            std::make_move_iterator(results.end()));
  // Its charge is the graph's from here on.
  const auto graph = std::make_shared<DeferredGraph>(known.graph, std::move(values), &state->graph);
  size_t output = 0;
  for (size_t i = 0; i < known.kept.size(); ++i) {
    if (known.kept[i] == 0) continue;
    const bool in_graph = known.graph->IsInGraph(output);
    const bool is_there = match_.released[i] == 0 && match_.results[i] != 0;
    if (is_there) {
      state->handles.Bind(match_.results[i], std::move(results[output]), in_graph ? graph : nullptr,
                          output);
    }
    if (in_graph && !is_there) graph->Forget(output);
    ++output;
  }
}

size_t RepeatedWindows::Record(Known* known, absl::Span<const Command> stream, uint64_t batch,
                               CommandContext& context) {
  SessionState& state = context.state;
  const auto began = std::chrono::steady_clock::now();
  auto recording = std::make_unique<Recording>(&state, &meter_);
  const absl::Status begun = recording->Begin(match_.arguments);
  if (!begun.ok()) recording->Fail(begun);
  // From here on there is nothing that would not be given back, if the commands needed it.
  busy_ = false;
  recorded_ = known;
  recording_ = recording.get();
  late_.resize(known->kept.size());
  state.programs.Start(std::move(recording));
  state.last_uses.Find(stream);
  const int64_t most = std::min(kMostResults, state.account()->limit() / kShareOfMemory);
  int64_t bytes = 0;  // of results that are kept
  size_t result = 0;
  for (size_t i = 0; i < match_.consumed; ++i) {
    const Command& command = stream[i];
    CommandContext step{state, context.output, i};
    state.executor.EndUses();
    const StopReason reason = state.stop.Begin(batch);
    if (reason == StopReason::kEnded) break;
    if (const auto* const release = std::get_if<command::Release>(&command)) {
      RunCommand(*release, step);
      continue;
    }
    if (reason == StopReason::kCancelled) {
      CancelCommand(command, step);
    } else {
      RunCommand(command, step);
    }
    for (Handle made : std::visit([](const auto& c) { return ResultsOf(c); }, command)) {
      const size_t number = result++;
      const HandleTable::Entry* const entry = state.handles.Find(made);
      if (recording_ == nullptr || known->kept[number] == 0 || entry == nullptr) continue;
      late_[number] = entry->variable;
      if (entry->variable.array.valid()) bytes += entry->variable.array.spec.nbytes();
    }
    if (bytes > most) GiveBack();
  }
  absl::Status made = MakePlan(known, &state);
  if (bytes > most) {
    made = absl::UnimplementedError("it takes too much memory");
    known->attempts = kMaxAttempts;
  } else if (std::chrono::steady_clock::now() - began > LongestWindow(state.limits)) {
    made = absl::UnimplementedError("it takes too long");  // perhaps this time only
  }
  if (!made.ok()) ForgetPlan(known);
  late_.clear();
  recorded_ = nullptr;
  recording_ = nullptr;
  return match_.consumed;
}

absl::Status RepeatedWindows::MakePlan(Known* known, SessionState* state) {
  const std::unique_ptr<Recording> recording = state->programs.Stop();
  if (recording == nullptr || recording_ == nullptr) {
    return absl::UnimplementedError("the recording has ended");
  }
  CHX_RETURN_IF_ERROR(recording->status());
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> arguments,
                       state->handles.UseAll(match_.arguments, &inherited));
  for (const Variable* argument : arguments) {
    // The graph's leaves would be those of this window.
    if (!argument->nodes.empty()) return absl::UnimplementedError("an argument is in a graph");
  }
  if (inherited != nullptr) return inherited->status;
  std::vector<const Variable*> outputs;
  for (size_t i = 0; i < known->kept.size(); ++i) {
    if (known->kept[i] == 0) continue;
    if (!late_[i].array.valid()) return absl::UnimplementedError("it has failed");
    outputs.push_back(&late_[i]);
  }
  std::vector<Array> values;
  CHX_ASSIGN_OR_RETURN(GraphTemplate graph, GraphTemplate::Of(outputs, &values));
  std::vector<const Array*> results;
  results.reserve(outputs.size() + values.size());
  for (const Variable* output : outputs) results.push_back(&output->array);
  for (const Array& value : values) results.push_back(&value);
  CHX_ASSIGN_OR_RETURN(known->plan, recording->FinishPlan(results, known->shape.slots()));
  known->graph = std::make_shared<const GraphTemplate>(std::move(graph));
  if (known->plan->MayFailHalfway() || known->plan->DropsChecks()) {
    return absl::UnimplementedError(
        "an operator may fail by its values, after a write or unnoticed");
  }
  CHX_RETURN_IF_ERROR(NoteHeld(known, state));
  const int64_t bytes = known->plan->Bytes() + known->graph->Bytes();
  if (!Charge(bytes)) return absl::ResourceExhaustedError("there is no memory for it");
  known->charged = bytes;
  return absl::OkStatus();
}

absl::Status RepeatedWindows::NoteHeld(Known* known, SessionState* state) {
  RootErrorPtr inherited;
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
  return absl::OkStatus();
}

}  // namespace chx::server
