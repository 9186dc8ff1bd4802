// Functions of the client in a Session's graphs, and walks that call them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/modes.h"
#include "client/session.h"
#include "client/waiting.h"

namespace chx {
namespace {

// While a function makes gradients, graphs record as in the rest of its walk.
class WalkMode {
 public:
  WalkMode(const Session& session, const BackwardArgs& args) {
    if (args.id == 0 && !args.enable_double_backprop) {
      PushMode(false, session);
      return;
    }
    std::vector<BackpropId> ids = session.backprop_ids().OpenAbove(args.id);
    if (!args.enable_double_backprop) ids.push_back(args.id);
    PushMode(false, ids);
  }
  ~WalkMode() { PopMode(); }
  WalkMode(const WalkMode&) = delete;
};

}  // namespace

absl::Status Session::RecordFunction(std::shared_ptr<Function> function,
                                     absl::Span<ArrayBody* const> inputs,
                                     absl::Span<ArrayBody* const> outputs,
                                     absl::Span<const int64_t> retained_inputs,
                                     absl::Span<const int64_t> retained_outputs) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  RecordedFunction recorded;
  recorded.function = std::move(function);
  recorded.retained_inputs.assign(retained_inputs.begin(), retained_inputs.end());
  recorded.retained_outputs.assign(retained_outputs.begin(), retained_outputs.end());
  Command command;
  command.kind = CommandKind::kRecordFunction;
  MirrorOps ops;
  for (ArrayBody* input : inputs) {
    recorded.inputs.push_back(input == nullptr ? ArraySpec() : input->spec);
    command.operands.push_back(input == nullptr ? CommandOperand() : CommandOperand(input->handle));
    if (input == nullptr) continue;
    CHX_RETURN_IF_ERROR(CheckOwn("function", input));
    CHX_RETURN_IF_ERROR(Resolve(input));
    AddMirrorInput(*input, &ops);
  }
  for (ArrayBody* output : outputs) {
    recorded.outputs.push_back(output == nullptr ? ArraySpec() : output->spec);
    command.handles.push_back(output == nullptr ? 0 : output->handle);
    if (output == nullptr) continue;
    CHX_RETURN_IF_ERROR(CheckOwn("function", output));
    CHX_RETURN_IF_ERROR(Resolve(output));
    for (const auto& [id, op] : ops) {
      if (output->PlaceIn(id) == nullptr) continue;
      return ChainerxError("[function] expects outputs that are in no graph, got ",
                           output->spec.ToString(), ", which is in '", backprop_ids_.Name(id), "'");
    }
  }
  const auto check = [](absl::Span<const int64_t> indexes, size_t count) -> absl::Status {
    for (int64_t index : indexes) {
      if (index >= 0 && index < static_cast<int64_t>(count)) continue;
      return ValueError("[function] expects to retain arrays from 0 to ",
                        static_cast<int64_t>(count) - 1, ", got ", index);
    }
    return absl::OkStatus();
  };
  CHX_RETURN_IF_ERROR(check(retained_inputs, inputs.size()));
  CHX_RETURN_IF_ERROR(check(retained_outputs, outputs.size()));
  if (ops.empty()) return absl::OkStatus();
  ForgetFreedFunctions();
  command.shape.push_back(static_cast<int64_t>(retained_inputs.size()));
  command.shape.insert(command.shape.end(), retained_inputs.begin(), retained_inputs.end());
  command.shape.insert(command.shape.end(), retained_outputs.begin(), retained_outputs.end());
  const std::shared_ptr<const uint64_t> number = KeepFunction(std::move(recorded));
  command.request_id = *number;
  {
    MutexLock lock(&mutex_);
    command.location = Location();
    command.mode = Mode();
    Write(command);
  }
  for (const auto& [id, op] : ops) op->function = number;
  ConnectMirror(ops, outputs);
  return absl::OkStatus();
}

// The number, which keeps the function as long as something here holds it. Arrays do, and they hold
// the session.
std::shared_ptr<const uint64_t> Session::KeepFunction(RecordedFunction function) {
  MutexLock lock(&functions_mutex_);
  const uint64_t number = next_function_++;
  functions_[number] = std::make_shared<RecordedFunction>(std::move(function));
  return {new uint64_t(number), [this](const uint64_t* held) {
            FunctionUnreachable(*held);
            delete held;
          }};
}

void Session::FunctionUnreachable(uint64_t number) {
  std::shared_ptr<RecordedFunction> gone;  // after the lock: it may be anything
  if (Forked()) return;
  MutexLock lock(&functions_mutex_);
  auto it = functions_.find(number);
  if (it == functions_.end()) return;
  // A graph that only the daemon knows may still have it: then that says when it goes.
  if (hidden_graphs_) return;
  gone = std::move(it->second);
  functions_.erase(it);
}

bool Session::HasFunctions() {
  MutexLock lock(&functions_mutex_);
  return !functions_.empty();
}

// Those that the daemon says are in no graph, whatever the mirror shows.
void Session::ForgetFreedFunctions() {
  const std::vector<uint64_t> freed = connection_->TakeFreedFunctions();
  if (freed.empty()) return;
  std::vector<std::shared_ptr<RecordedFunction>> gone;  // after the lock
  MutexLock lock(&functions_mutex_);
  for (uint64_t number : freed) {
    auto it = functions_.find(number);
    if (it == functions_.end()) continue;
    gone.push_back(std::move(it->second));
    functions_.erase(it);
  }
}

// What a function holds may hold the session, which then would never go.
void Session::ForgetFunctions() {
  absl::flat_hash_map<uint64_t, std::shared_ptr<RecordedFunction>> gone;  // after the lock
  MutexLock lock(&functions_mutex_);
  gone.swap(functions_);
}

absl::Status Session::Drive(Command* command, const BackwardArgs& args) {
  command->flags |= Command::kMayCall;
  uint64_t walk = 0;
  std::vector<ArrayPtr> grads;  // alive until the daemon has them
  for (;;) {
    {
      MutexLock lock(&mutex_);
      command->request_id = next_request_++;
      if (walk == 0) {
        walk = command->request_id;
        command->location = Location();
        command->mode = Mode();
      }
      Write(*command);
    }
    const absl::StatusOr<std::string> answer = [&] {
      const Waiting waiting;
      return AnswerTo(command->request_id, true);
    }();
    WalkState state;
    absl::Status status = answer.status();
    if (status.ok()) {
      CHX_ASSIGN_OR_RETURN(state, DecodeWalkState(*answer));
      if (state.function == 0) return absl::OkStatus();
      status = CallFunction(walk, state, args, &grads);
    } else if (!Interruption::Is(status)) {
      return status;
    }
    *command = Command();
    command->handle = walk;
    if (!status.ok()) {
      command->kind = CommandKind::kAbandonWalk;
      MutexLock lock(&mutex_);
      if (!closed_) Write(*command);
      return status;
    }
    command->kind = CommandKind::kResumeWalk;
    for (const ArrayPtr& grad : grads) {
      command->operands.push_back(grad ? CommandOperand(grad->handle) : CommandOperand());
    }
  }
}

ArrayPtr Session::NewLearned(Handle handle, const ArraySpec& spec, const GraphState& state) {
  ArrayPtr array = NewArray(handle, spec);
  array->storage_unknown = true;
  array->graphs_unknown = true;
  LearnGraphs(state, array.get());
  return array;
}

absl::Status Session::CallFunction(uint64_t walk, const WalkState& state, const BackwardArgs& args,
                                   std::vector<ArrayPtr>* grads) {
  std::shared_ptr<RecordedFunction> recorded;
  {
    MutexLock lock(&functions_mutex_);
    auto it = functions_.find(state.function);
    if (it != functions_.end()) recorded = it->second;
  }
  if (recorded == nullptr || state.output_grads.size() != recorded->outputs.size() ||
      state.retained_inputs.size() != recorded->retained_inputs.size() ||
      state.retained_outputs.size() != recorded->retained_outputs.size()) {
    return ChainerxError("chxd calls a function that is not known here");
  }
  Command enter;
  enter.kind = CommandKind::kEnterFunction;
  enter.handle = walk;
  FunctionCallArgs call;
  size_t next = 0;
  const auto take = [&](bool present, ArraySpec spec, std::vector<ArrayPtr>* arrays) {
    enter.outputs.push_back(present ? NewHandle() : 0);
    arrays->push_back(present ? NewLearned(enter.outputs.back(), spec, state.graphs[next++])
                              : ArrayPtr());
  };
  for (size_t i = 0; i < state.output_grads.size(); ++i) {
    const ArraySpec& spec = recorded->outputs[i];
    take(state.output_grads[i], ArraySpec(spec.dtype, spec.shape, spec.device), &call.output_grads);
  }
  for (size_t i = 0; i < state.retained_inputs.size(); ++i) {
    take(state.retained_inputs[i], recorded->inputs[recorded->retained_inputs[i]],
         &call.retained_inputs);
  }
  for (size_t i = 0; i < state.retained_outputs.size(); ++i) {
    take(state.retained_outputs[i], recorded->outputs[recorded->retained_outputs[i]],
         &call.retained_outputs);
  }
  for (uint32_t target : state.targets) {
    if (target >= recorded->inputs.size())
      return ChainerxError("chxd asks for no input's gradient");
    call.targets.push_back(static_cast<int>(target));
  }
  {
    MutexLock lock(&mutex_);
    Write(enter);
  }
  grads->clear();
  const WalkMode mode(*this, args);
  CHX_RETURN_IF_ERROR(recorded->function->Backward(call, grads));
  if (grads->size() != call.targets.size()) {
    return GradientError("[backward] expects ", call.targets.size(),
                         " gradients from a function, got ", grads->size());
  }
  for (size_t i = 0; i < grads->size(); ++i) {
    const ArrayBody* grad = (*grads)[i].get();
    if (grad == nullptr) continue;
    CHX_RETURN_IF_ERROR(CheckOwn("backward", grad));
    const ArraySpec& input = recorded->inputs[call.targets[i]];
    if (grad->spec.shape == input.shape && grad->spec.device == input.device) continue;
    return GradientError("[backward] expects a gradient of ", input.ToString(), " for input ",
                         call.targets[i], " of a function, got ", grad->spec.ToString());
  }
  return absl::OkStatus();
}

}  // namespace chx
