#include "server/session/recording.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "proto/command_codec.h"
#include "server/session/commands.h"
#include "server/session/step_commands.h"

namespace chx::server {
namespace {

absl::Status CannotRecord(absl::string_view what, absl::string_view how) {
  return MakeError(ErrorKind::kNotImplemented,
                   absl::StrCat("[jit] cannot record ", what, ": ", how));
}

// A function that fails. Where its memory is too much for the session, the error is of that kind.
absl::Status CannotRecord(const RootError& failure) {
  const absl::Status status = CannotRecord(
      "a function that fails", absl::StrCat(failure.op, ": ", failure.status.message()));
  if (KindOf(failure.status) != ErrorKind::kMemory) return status;
  return MakeError(ErrorKind::kMemory, status.message());
}

}  // namespace

Recording::Recording(uint64_t number, SessionState* state, bool keep_commands)
    : number_(number),
      state_(*state),
      meter_(state->meter),
      keeps_(keep_commands),
      of_window_(false),
      recorder_(state->executor.last_buffer(), /*may_wait=*/true),
      program_(std::make_unique<Program>()) {}

Recording::Recording(SessionState* state, MemoryMeter* meter)
    : number_(0),
      state_(*state),
      meter_(*meter),
      keeps_(false),
      of_window_(true),
      recorder_(state->executor.last_buffer(), /*may_wait=*/false),
      program_(std::make_unique<Program>()) {}

absl::Status Recording::CheckLeaf(const Variable& variable) const {
  for (const Ref<ArrayNode>& node : variable.nodes) {
    if (!node->creator) continue;
    return CannotRecord(absl::StrCat("the use of ", variable.array.spec.ToString(),
                                     ", which was computed from arrays that require gradients"),
                        "compute it in the function, or pass x.as_grad_stopped()");
  }
  return absl::OkStatus();
}

absl::Status Recording::Begin(absl::Span<const Handle> arguments) {
  program_->arguments.assign(arguments.begin(), arguments.end());
  argument_handles_.insert(arguments.begin(), arguments.end());
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> variables,
                       state_.handles.UseAll(arguments, &inherited));
  if (inherited != nullptr) return inherited->status;
  for (const Variable* variable : variables) {
    CHX_RETURN_IF_ERROR(CheckLeaf(*variable));
    recorder_.AddArgument(*variable);
    arguments_.push_back(*variable);
  }
  state_.handles.ForEach([this](Handle /*handle*/, const HandleTable::Entry& entry) {
    for (const Ref<ArrayNode>& node : entry.variable.nodes) {
      if (node->creator == nullptr) recorder_.WatchGradient(node.get());
    }
  });
  state_.executor.set_observer(&recorder_, /*apart=*/of_window_);
  return absl::OkStatus();
}

void Recording::Fail(absl::Status why) {
  if (status_.ok()) status_ = std::move(why);
}

// The program has the array, whatever becomes of the client's handle.
void Recording::Hold(Handle handle, bool constant) {
  if (held_.contains(handle)) return;
  state_.handles.Reserve(1);
  const HandleTable::Entry* const entry = state_.handles.Find(handle);
  if (entry == nullptr) return;  // the command itself says so
  if (entry->error != nullptr) return Fail(entry->error->status);
  absl::Status leaf = CheckLeaf(entry->variable);
  if (!leaf.ok()) return Fail(std::move(leaf));
  if (!recorder_.Holds(entry->variable.array)) recorder_.AddHeld(entry->variable.array, constant);
  if (!keeps_) return;
  const Handle own = state_.programs.NewHandle(state_.handles);
  absl::Status room = state_.handles.CheckNew({&own, 1});
  if (!room.ok()) return Fail(std::move(room));
  state_.handles.Bind(own, Variable(entry->variable));
  held_.insert(handle);
  program_->held.push_back({handle, own});
}

// What has made it is run again with the other commands, for nothing.
void Recording::Adopt(Handle handle) {
  const HandleTable::Entry* const entry = state_.handles.Find(handle);
  if (entry == nullptr || entry->error != nullptr) return;  // the command itself says so
  if (!entry->variable.nodes.empty()) {
    return Fail(CannotRecord("an array that is kept", "it is in a graph"));
  }
  recorder_.Adopt(entry->variable.array);
  if (keeps_) Hold(handle, false);
}

void Recording::KeepCommand(const Command& command) {
  const size_t before = program_->records.size();
  if (const auto* release = std::get_if<command::Release>(&command)) {
    Handles made;
    for (Handle handle : release->handles) {
      if (made_.contains(handle)) made.push_back(handle);
    }
    CommandWriter(&program_->records).Release(made);
    num_commands_ += made.empty() ? 0 : 1;
  } else if (const auto* apply = std::get_if<command::ApplyOp>(&command)) {
    command::ApplyOp own = *apply;
    const OpDef* const op = OpOf(own, state_);
    own.op = static_cast<uint16_t>(op == nullptr ? 0 : op->id + 1);
    CommandWriter(&program_->records).Write(own);
    ++num_commands_;
  } else {
    CommandWriter(&program_->records).Write(command);
    ++num_commands_;
  }
  const auto bytes = static_cast<int64_t>(program_->records.size() - before);
  const bool too_many = program_->records.size() > Programs::kMaxRecordsBytes;
  if (too_many) Fail(CannotRecord("so many commands", "make several functions of it"));
  if (too_many || !Charge(2 * bytes + kProgramCommandBytes)) program_->records.resize(before);
}

// If there is no memory for it, nothing is noted from now on.
bool Recording::Charge(int64_t bytes) {
  if (meter_.TryCharge(bytes)) {
    program_->charged += bytes;
    return true;
  }
  Fail(MemoryError("[jit] ", meter_.Exhausted(bytes).message()));
  recorder_.Decline("there is no memory for it");
  return false;
}

const ArrayNode* Recording::NodeOf(Handle handle, BackpropId id) const {
  const HandleTable::Entry* const entry = state_.handles.Find(handle);
  return entry == nullptr ? nullptr : entry->variable.NodeOf(id);
}

// As it is now: the client may define it anew.
void Recording::NoteMode(uint16_t number) {
  const RecordMode* const mode = state_.definitions.FindMode(number);
  if (!keeps_ || number == 0 || mode == nullptr) return;
  auto& modes = program_->modes;
  const bool known = std::any_of(modes.begin(), modes.end(),
                                 [&](const auto& entry) { return entry.first == number; });
  if (!known) modes.emplace_back(number, *mode);
}

// What the command has to do with gradients that there were before.
template <typename C>
void Recording::NoteGradients(const C& c) {
  if constexpr (kPass<C>) {
    // A pass starts from the gradients that its outputs have.
    for (Handle output : c.outputs) {
      const ArrayNode* const node = NodeOf(output, c.backprop_id);
      if (node != nullptr) recorder_.UseGradient(node);
    }
  } else if constexpr (IsOneOf<C, command::SetGrad, command::GetGrad, command::RequireGrad>()) {
    const ArrayNode* const node = NodeOf(c.handle, c.backprop_id);
    if constexpr (std::is_same_v<C, command::SetGrad>) {
      if (node != nullptr) recorder_.ReplaceGradient(node);
    } else if constexpr (std::is_same_v<C, command::GetGrad>) {
      if (node != nullptr) recorder_.UseGradient(node);
    } else if (!made_.contains(c.handle) && (node == nullptr || !node->grad_required)) {
      Fail(CannotRecord("require_grad() of an array that there was before",
                        "call it before the function"));
    }
  }
}

void Recording::Before(const Command& command) {
  began_ = std::chrono::steady_clock::now();
  if (!status_.ok()) return;
  const auto before = [&](const auto& c) {
    using C = std::decay_t<decltype(c)>;
    if constexpr (kApart<C> || kConstant<C>) {
      return;
    } else if constexpr (!kKept<C>) {
      Fail(CannotRecord(absl::StrCat("the command ", C::kName),
                        "values are read, and functions of the client called, outside"));
    } else if (IsAnswered(c)) {
      Fail(CannotRecord("a backward pass that may call functions of the client",
                        "compute these gradients outside"));
    } else {
      ForEachUse(c, [this](Handle handle) {
        if (!argument_handles_.contains(handle) && !made_.contains(handle)) Hold(handle, false);
      });
      for (Handle handle : ResultsOf(c)) made_.insert(handle);
      if constexpr (std::is_same_v<C, command::HoldArray>) {
        if (made_.erase(c.handle) > 0) Adopt(c.handle);
      }
      NoteMode(ModeOf(c));
      const OpDef* op = nullptr;
      if constexpr (std::is_same_v<C, command::ApplyOp>) {
        op = OpOf(c, state_);
        num_attributes_.push_back(c.attrs.size());
        if (op == nullptr) op = &FunctionOp();  // the command says so
      }
      recorder_.BeginCommand(num_commands_, op);
      NoteGradients(c);
      if (keeps_) {
        KeepCommand(command);
      } else {
        ++num_commands_;
      }
    }
  };
  std::visit(before, command);
}

void Recording::After(const Command& command, const RootError* failure) {
  ran_ += std::chrono::steady_clock::now() - began_;
  const int64_t grown = recorder_.Bytes() - recorded_;
  if (grown > 0 && Charge(grown)) recorded_ += grown;
  if (failure != nullptr) Fail(CannotRecord(*failure));
  const auto after = [this](const auto& c) {
    using C = std::decay_t<decltype(c)>;
    if constexpr (std::is_same_v<C, command::UploadPart>) {
      if (c.begin == 0) Hold(c.result, true);
    } else if constexpr (kConstant<C>) {
      Hold(c.result, true);
    }
    if constexpr (std::is_same_v<C, command::ApplyOp>) {
      for (Handle result : c.results) {
        const HandleTable::Entry* const entry = state_.handles.Find(result);
        if (entry != nullptr && !entry->variable.nodes.empty()) recorder_.NoteGraph();
      }
    }
  };
  std::visit(after, command);
}

absl::Status Recording::SetSlots(absl::Span<const int64_t> slots) {
  if (slots.size() % 2 != 0) return ValueError("[jit] expects pairs of numbers as slots");
  absl::flat_hash_set<std::pair<int64_t, int64_t>> seen;
  for (size_t i = 0; i < slots.size(); i += 2) {
    const auto operation = static_cast<size_t>(slots[i]);
    if (operation >= num_attributes_.size() ||
        static_cast<size_t>(slots[i + 1]) >= num_attributes_[operation]) {
      return ValueError("[jit] expects slots of the program's operators, got operator ", slots[i],
                        ", attribute ", slots[i + 1]);
    }
    if (!seen.emplace(slots[i], slots[i + 1]).second) {
      return ValueError("[jit] expects each slot once");
    }
    program_->slots.push_back({slots[i], static_cast<size_t>(slots[i + 1])});
  }
  return absl::OkStatus();
}

void Recording::NoteInterface(absl::Span<const Variable* const> results, Program* program) const {
  auto interface = std::make_unique<ProgramInterface>();
  for (const Variable& argument : arguments_) {
    interface->arguments.push_back(argument.array.spec);
    interface->written_arguments.push_back(recorder_.Writes(argument.array));
  }
  for (const Variable* result : results) interface->results.push_back(result->array.spec);
  for (const Program::Held& held : program->held) {
    const HandleTable::Entry* const entry = state_.handles.Find(held.own);
    if (entry == nullptr || entry->error != nullptr) return;
    interface->written_held.push_back(recorder_.Writes(entry->variable.array));
  }
  interface->is_brief = ran_ < kBriefProgram;
  program->interface = std::move(interface);
}

absl::StatusOr<std::unique_ptr<Plan>> Recording::MakePlan(absl::Span<const Handle> outputs,
                                                          Program* program) {
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> results,
                       state_.handles.UseAll(outputs, &inherited));
  if (inherited != nullptr) return inherited->status;
  if (program->interface == nullptr) NoteInterface(results, program);
  std::vector<const Array*> arrays;
  arrays.reserve(results.size());
  for (const Variable* result : results) arrays.push_back(&result->array);
  return MakePlan(arrays, program->slots);
}

absl::StatusOr<std::unique_ptr<Plan>> Recording::MakePlan(absl::Span<const Array* const> results,
                                                          absl::Span<const TraceSlot> slots) {
  CHX_ASSIGN_OR_RETURN(Trace trace, recorder_.Finish(results, slots));
  std::vector<const Variable*> arguments;
  arguments.reserve(arguments_.size());
  for (const Variable& argument : arguments_) arguments.push_back(&argument);
  return std::make_unique<Plan>(std::move(trace), arguments, state_.executor.devices(),
                                /*checks_first=*/of_window_);
}

void Recording::AddPlan(absl::Span<const Handle> outputs, Program* program) {
  constexpr size_t kMaxPlans = 4;
  ++program->attempts;
  absl::StatusOr<std::unique_ptr<Plan>> plan = MakePlan(outputs, program);
  if (!plan.ok()) {
    program->declined = std::string(plan.status().message());
    return;
  }
  program->run_bytes = (*plan)->RunBytes();
  const absl::Status fits = state_.executor.CheckFits(program->run_bytes);
  if (!fits.ok()) {
    program->declined = std::string(fits.message());
    return;
  }
  const int64_t bytes = (*plan)->Bytes();
  if (!state_.meter.TryCharge(bytes)) {
    program->declined = "there is no memory for it";
    return;
  }
  program->charged += bytes;
  program->declined.clear();
  program->plans.push_front(*std::move(plan));
  if (program->plans.size() <= kMaxPlans) return;
  const int64_t freed = program->plans.back()->Bytes();
  program->charged -= freed;
  state_.meter.Release(freed);
  program->plans.pop_back();
}

absl::StatusOr<std::unique_ptr<Plan>> Recording::FinishPlan(absl::Span<const Array* const> results,
                                                            absl::Span<const TraceSlot> slots) {
  state_.executor.set_observer(nullptr);
  CHX_RETURN_IF_ERROR(status_);
  return MakePlan(results, slots);
}

// Arrays that are kept for the plan, too.
void Recording::GiveUp() {
  Fail(MemoryError("[jit] there is no memory for it"));
  recorder_.GiveUp("there is no memory for it");
  arguments_.clear();
  meter_.Release(std::exchange(program_->charged, 0));
  recorded_ = 0;
}

absl::StatusOr<std::unique_ptr<Program>> Recording::Finish(absl::Span<const Handle> outputs,
                                                           absl::Span<const int64_t> slots) {
  state_.executor.set_observer(nullptr);
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> results,
                       state_.handles.UseAll(outputs, &inherited));
  if (inherited != nullptr) Fail(inherited->status);
  for (const Variable* result : results) {
    // It would be the same memory in each run.
    if (inherited == nullptr && recorder_.IsConstant(result->array)) {
      Fail(CannotRecord("a result that the function has made of host memory",
                        "return a copy, x.copy()"));
    }
  }
  if (recorder_.WritesConstant()) {
    Fail(CannotRecord("a write to an array that the function has made of host memory",
                      "write to a copy, x.copy()"));
  }
  for (Handle output : outputs) {
    if (!argument_handles_.contains(output) && !made_.contains(output)) Hold(output, false);
  }
  CHX_RETURN_IF_ERROR(status_);
  CHX_RETURN_IF_ERROR(SetSlots(slots));
  program_->outputs.assign(outputs.begin(), outputs.end());
  if (!Charge(kProgramBytes)) return status_;
  AddPlan(outputs, program_.get());
  // The trace has become the plan, or nothing.
  program_->charged -= recorded_;
  state_.meter.Release(std::exchange(recorded_, 0));
  return std::move(program_);
}

Recording::~Recording() {
  state_.executor.set_observer(nullptr);
  if (program_ == nullptr) return;
  meter_.Release(std::exchange(program_->charged, 0));
  FreeProgram(program_.get(), &state_);
}

}  // namespace chx::server
