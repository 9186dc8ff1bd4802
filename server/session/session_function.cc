// Functions whose gradients the client computes, and the walks that wait for these. A walk that
// waits is a value of the session like others: no thread and no lock is held, and other commands
// run.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/session/session.h"

namespace chx {
namespace {

constexpr size_t kMaxWalks = 256;  // one inside of another
constexpr size_t kMaxFunctionArrays = 4096;

absl::StatusOr<std::vector<int>> Indexes(absl::Span<const int64_t> indexes, size_t limit) {
  std::vector<int> checked;
  for (int64_t index : indexes) {
    if (index < 0 || index >= static_cast<int64_t>(limit)) {
      return ValueError("[function] expects to retain what is there, got index ", index, " of ",
                        limit);
    }
    checked.push_back(static_cast<int>(index));
  }
  return checked;
}

GraphState GraphsOf(const Variable& variable) {
  GraphState state;
  for (const Ref<ArrayNode>& node : variable.nodes) state.graphs.push_back(node->id);
  return state;
}

void Describe(const std::vector<Variable>& variables, std::vector<bool>* present,
              WalkState* state) {
  for (const Variable& variable : variables) {
    present->push_back(variable.array.valid());
    if (variable.array.valid()) state->graphs.push_back(GraphsOf(variable));
  }
}

WalkState WalkStateOf(const FunctionCall& call) {
  WalkState state;
  state.function = call.function;
  state.targets.assign(call.targets.begin(), call.targets.end());
  Describe(call.output_grads, &state.output_grads, &state);
  Describe(call.retained_inputs, &state.retained_inputs, &state);
  Describe(call.retained_outputs, &state.retained_outputs, &state);
  return state;
}

}  // namespace

absl::Status Session::RecordFunction(const Command& command) {
  const size_t arrays = command.operands.size() + command.handles.size() + command.shape.size();
  if (command.request_id == 0 || command.shape.empty() || arrays > kMaxFunctionArrays) {
    return ValueError("[function] expects a number and at most ", kMaxFunctionArrays, " arrays");
  }
  RootErrorPtr inherited;
  std::vector<ApplyInput> inputs;
  for (const CommandOperand& operand : command.operands) {
    inputs.emplace_back();
    if (operand.kind == OperandKind::kAbsent) continue;
    if (operand.kind != OperandKind::kArray) {
      return TypeError("[function] expects arrays, got a scalar");
    }
    CHX_ASSIGN_OR_RETURN(Entry * entry, Use(operand.handle, &inherited));
    inputs.back().variable = &entry->variable;
  }
  std::vector<Variable*> outputs;
  for (size_t i = 0; i < command.handles.size(); ++i) {
    const Handle handle = command.handles[i];
    outputs.push_back(nullptr);
    if (handle == 0) continue;
    const auto end = command.handles.begin() + static_cast<ptrdiff_t>(i);
    if (std::find(command.handles.begin(), end, handle) != end) {
      return ValueError("[function] expects an array for each output, got ", handle, " twice");
    }
    CHX_ASSIGN_OR_RETURN(Entry * entry, Use(handle, &inherited));
    outputs.back() = &entry->variable;
  }
  const absl::Span<const int64_t> retained = absl::MakeConstSpan(command.shape).subspan(1);
  const int64_t of_inputs = command.shape[0];
  if (of_inputs < 0 || of_inputs > static_cast<int64_t>(retained.size())) {
    return ValueError("[function] expects to retain what is there, got ", of_inputs, " inputs");
  }
  ClientFunction function;
  function.number = command.request_id;
  const size_t split = static_cast<size_t>(of_inputs);
  CHX_ASSIGN_OR_RETURN(function.retained_inputs,
                       Indexes(retained.subspan(0, split), inputs.size()));
  CHX_ASSIGN_OR_RETURN(function.retained_outputs, Indexes(retained.subspan(split), outputs.size()));
  const RecordMode* mode = ModeOf(command.mode);
  if (mode == nullptr) return ValueError("[function] expects a defined mode");
  if (inherited != nullptr) {
    for (Handle handle : command.handles) {
      if (handle != 0) Poison(handle, inherited);
    }
    return absl::OkStatus();
  }
  std::vector<size_t> nodes_before;
  nodes_before.reserve(outputs.size());
  int64_t lists_before = 0;
  for (const Variable* output : outputs) {
    nodes_before.push_back(output == nullptr ? 0 : output->nodes.size());
    if (output != nullptr) lists_before += output->HeapBytes();
  }
  Runtime runtime{executor_, graph_};
  CHX_RETURN_IF_ERROR(chx::RecordFunction(runtime, std::move(function), inputs, outputs, *mode));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == nullptr) continue;
    meter_.Charge(outputs[i]->HeapBytes());
    for (size_t j = nodes_before[i]; j < outputs[i]->nodes.size(); ++j) {
      ArrayNode& node = *outputs[i]->nodes[j];
      ++node.handles;
      if (node.id != 0) NoteMember(node.id, command.handles[i]);
    }
  }
  meter_.Release(lists_before);
  return absl::OkStatus();
}

// Runs the walk and tells the client where it has come to.
void Session::AnswerWalk(PendingWalk walk, uint64_t number, uint64_t request_id,
                         absl::Status status, RootErrorPtr inherited, SessionOutput* output) {
  const auto advance = [&]() -> absl::StatusOr<WalkState> {
    Walk& passes = walk.backprop->walk();
    CHX_RETURN_IF_ERROR(passes.Run());
    if (passes.waiting() != nullptr) return WalkStateOf(*passes.waiting());
    CHX_RETURN_IF_ERROR(FinishWalk(walk.command, walk.backprop.get()));
    return WalkState();
  };
  SessionOutput::Value value;
  value.request_id = request_id;
  bool waits = false;
  if (status.ok() && inherited == nullptr) {
    absl::StatusOr<WalkState> state = advance();
    status = state.status();
    if (state.ok()) {
      value.data = EncodeWalkState(*state);
      value.dtype = Dtype::kUint8;
      value.shape = Shape({static_cast<int64_t>(value.data.size())});
      waits = state->function != 0;
    }
    if (value.data.size() > static_cast<size_t>(limits_.max_inline_bytes)) {
      status = ValueError("[backward] expects functions of fewer arrays");
    } else if (waits && walks_.size() >= kMaxWalks) {
      status =
          MemoryError("[backward] expects at most ", kMaxWalks, " walks that wait for the client");
    } else if (waits && walks_.contains(number)) {
      status = ValueError("[backward] expects a new number, got ", number);
    } else if (waits && !walks_.Reserve(1)) {
      status = MemoryError("[backward] ", meter_.Exhausted(sizeof(PendingWalk)).message());
    } else if (status.ok()) {
      status = ChargeValue(static_cast<int64_t>(value.data.size()), &value);
    }
  }
  if (!status.ok()) inherited = NewRootError(walk.command, std::move(status), "backward", "");
  if (inherited != nullptr) {
    std::string().swap(value.data);  // what is cleared keeps its memory
    value.error = inherited;
    inherited->read = true;
    Inherit(walk.command, inherited);
  } else if (waits) {
    if (limits_.function_deadline.count() > 0) {
      walk.deadline = std::chrono::steady_clock::now() + limits_.function_deadline;
    }
    walks_.try_emplace(number, std::move(walk));
  }
  output->values.push_back(std::move(value));
}

absl::StatusOr<Session::PendingWalk*> Session::FindWalk(uint64_t number) {
  auto it = walks_.find(number);
  if (it == walks_.end()) {
    return ValueError("[backward] expects a walk that waits for the client, got ", number);
  }
  return &it->second;
}

absl::StatusOr<Session::PendingWalk> Session::TakeWalk(uint64_t number) {
  CHX_ASSIGN_OR_RETURN(PendingWalk * found, FindWalk(number));
  PendingWalk walk = std::move(*found);
  walks_.erase(walks_.find(number));
  return walk;
}

absl::Status Session::CheckInTime(const PendingWalk& walk) const {
  if (walk.backprop != nullptr && std::chrono::steady_clock::now() < walk.deadline) {
    return absl::OkStatus();
  }
  return MakeError(ErrorKind::kTimeout,
                   absl::StrCat("[backward] expects the client's functions to take at most ",
                                absl::FormatDuration(absl::FromChrono(limits_.function_deadline)),
                                ", got one that took longer"));
}

void Session::EndLateWalks() {
  if (!mutex_.TryLock()) return;
  const auto now = std::chrono::steady_clock::now();
  for (auto& [number, walk] : walks_) {
    if (walk.deadline <= now) walk.backprop = nullptr;
  }
  mutex_.Unlock();
}

absl::Status Session::EnterFunction(const Command& command) {
  CHX_ASSIGN_OR_RETURN(PendingWalk * walk, FindWalk(command.handle));
  CHX_RETURN_IF_ERROR(CheckInTime(*walk));
  const FunctionCall& call = *walk->backprop->walk().waiting();
  std::vector<std::pair<Handle, const Variable*>> bound;
  std::vector<Handle> handles;
  size_t next = 0;
  for (const auto* variables :
       {&call.output_grads, &call.retained_inputs, &call.retained_outputs}) {
    for (const Variable& variable : *variables) {
      const Handle handle = next < command.outputs.size() ? command.outputs[next] : 0;
      ++next;
      if (handle == 0 || !variable.array.valid()) continue;
      bound.emplace_back(handle, &variable);
      handles.push_back(handle);
    }
  }
  if (next != command.outputs.size()) {
    return ValueError("[function] expects ", next, " handles, got ", command.outputs.size());
  }
  CHX_RETURN_IF_ERROR(CheckNewHandles(handles));
  for (const auto& [handle, variable] : bound) Bind(handle, *variable);
  return absl::OkStatus();
}

void Session::ResumeWalk(const Command& command, SessionOutput* output) {
  PendingWalk walk;
  RootErrorPtr inherited;
  const auto resume = [&]() -> absl::Status {
    CHX_ASSIGN_OR_RETURN(walk, TakeWalk(command.handle));
    CHX_RETURN_IF_ERROR(CheckInTime(walk));
    std::vector<const Variable*> grads;
    for (const CommandOperand& operand : command.operands) {
      grads.push_back(nullptr);
      if (operand.kind == OperandKind::kAbsent) continue;
      if (operand.kind != OperandKind::kArray) {
        return TypeError("[backward] expects arrays from the client's function, got a scalar");
      }
      CHX_ASSIGN_OR_RETURN(Entry * entry, Use(operand.handle, &inherited));
      grads.back() = &entry->variable;
    }
    if (inherited != nullptr) return absl::OkStatus();
    return walk.backprop->walk().Answer(grads);
  };
  absl::Status status = resume();
  AnswerWalk(std::move(walk), command.handle, command.request_id, std::move(status), inherited,
             output);
}

absl::Status Session::AbandonWalk(const Command& command) {
  const absl::StatusOr<PendingWalk> walk = TakeWalk(command.handle);
  if (!walk.ok()) return absl::OkStatus();  // over: a client that was interrupted can't know
  // The client knows why.
  RootErrorPtr error =
      NewRootError(walk->command, ChainerxError("[grad] the client's function failed"), "grad", "");
  error->read = true;
  Inherit(walk->command, error);
  return absl::OkStatus();
}

}  // namespace chx
