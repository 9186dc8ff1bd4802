#include <type_traits>
#include <utility>
#include <variant>

#include "server/session/commands.h"
#include "server/session/recording.h"
#include "server/session/step_commands.h"

namespace chx::server {
namespace {

// What errors call a command that may take long; null: it takes no time and is run all the same.
template <typename C>
constexpr const char* ComputingName() {
  using namespace command;  // NOLINT: in this function only
  if (std::is_same_v<C, Fetch> || std::is_same_v<C, FetchInto>) return "fetch";
  if (std::is_same_v<C, Barrier>) return "barrier";
  if (std::is_same_v<C, JoinGroup>) return "join_group";
  if (std::is_same_v<C, ShareArray> || std::is_same_v<C, ShareCopy>) return "share";
  if (std::is_same_v<C, GrantAccess>) return "share";
  if (std::is_same_v<C, Publish> || std::is_same_v<C, PublishProgram>) return "publish";
  if (std::is_same_v<C, Grad>) return "grad";
  if (std::is_same_v<C, Backward> || std::is_same_v<C, ReduceBackward>) return "backward";
  if (std::is_same_v<C, RunProgram>) return "run_program";
  return nullptr;
}

template <typename C>
void Cancel(const C& c, CommandContext& context) {
  constexpr const char* name = ComputingName<C>();
  if constexpr (name == nullptr) {
    RunCommand(c, context);
  } else {
    absl::Status status = context.state.stop.Error(name, StopReason::kCancelled);
    if constexpr (kPass<C>) {
      BreakGroupsOfPass(c, context.state);
    }
    if constexpr (std::is_same_v<C, command::RunProgram>) {
      BreakGroups(context.state, "has cancelled a program");
    }
    const absl::optional<uint64_t> request = RequestOf(c);
    if (!request.has_value()) {
      context.Fail(c, std::move(status), name);
      return;
    }
    SessionOutput::Value value;
    value.request_id = *request;
    value.error = context.state.errors.NewError(LocationOf(c), std::move(status), name);
    context.Inherit(ResultsOf(c), value.error);
    context.SendAnswer(LocationOf(c), absl::OkStatus(), name, std::move(value));
  }
}

void Cancel(const command::ResumePass& c, CommandContext& context) {
  SessionState& state = context.state;
  absl::StatusOr<PendingPass> pass = state.passes.Take(c.pass);
  AnswerPass(pass.ok() ? *std::move(pass) : PendingPass(), c.pass, c.request_id,
             state.stop.Error("backward", StopReason::kCancelled), nullptr, context);
}

void Cancel(const command::ApplyOp& c, CommandContext& context) {
  const OpDef* const op = OpOf(c, context.state);
  if (op == nullptr) return RunCommand(c, context);  // says so
  const RootErrorPtr error =
      context.Fail(c, context.state.stop.Error(op->name, StopReason::kCancelled), op->name);
  if (op->kind == OpKind::kCollective) BreakGroupOf(c, context.state);
  // As after an error of an input: the client takes the write for done. Of lists nothing is
  // written, and all parameters are those of the step before.
  if (op->in_place && !op->has_lists() && !c.inputs.empty()) {
    context.state.handles.Poison(c.inputs[0].array(), error);
  }
}

// Before anything points to an entry: the table may move.
template <typename C>
void MakeRoom(const C& c, HandleTable& handles) {
  if (!handles.Reserve(ResultsOf(c).size())) handles.LostError();
}

}  // namespace

void CancelCommand(const Command& command, CommandContext& context) {
  if (Recording* const recording = context.state.programs.recording()) {
    recording->Fail(context.state.stop.Error("jit", StopReason::kCancelled));
  }
  const auto cancel = [&context](const auto& c) {
    MakeRoom(c, context.state.handles);
    Cancel(c, context);
  };
  std::visit(cancel, command);
}

void RunCommand(const Command& command, CommandContext& context) {
  const auto run = [&context](const auto& c) {
    MakeRoom(c, context.state.handles);
    context.state.executor.set_origin(LocationOf(c));
    RunCommand(c, context);
  };
  // Of a program that is being recorded, but for the commands that begin and end that.
  Recording* const recording = context.state.programs.recording();
  if (recording == nullptr) {
    std::visit(run, command);
    return;
  }
  const size_t errors = context.output.errors.size();
  recording->Before(command);
  std::visit(run, command);
  if (context.state.programs.recording() == recording) {
    const auto& found = context.output.errors;
    recording->After(command, found.size() > errors ? found.back().error.get() : nullptr);
  }
}

}  // namespace chx::server
