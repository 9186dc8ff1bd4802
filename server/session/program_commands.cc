// Programs: recorded, checked before they run, and forgotten.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/session/commands.h"
#include "server/session/recording.h"

namespace chx::server {
namespace {

constexpr int64_t kMaxTimes = int64_t{1} << 40;
constexpr size_t kMaxExplanation = 256 << 10;  // bytes, about

absl::Status Begin(const command::BeginProgram& c, SessionState* state) {
  if (state->programs.recording() != nullptr) {
    return ValueError("[jit] expects one recording at a time");
  }
  if (state->programs.size() >= Programs::kMaxPrograms) {
    return MemoryError("[jit] the session has ", Programs::kMaxPrograms,
                       " programs, which is the limit: release some");
  }
  if (state->programs.Find(c.program) != nullptr || IsOfRun(c.program)) {
    return ValueError("[jit] expects a new number for a program, got ", c.program);
  }
  auto recording = std::make_unique<Recording>(c.program, state, true);
  absl::Status status = recording->Begin(c.arguments);
  // The client learns by EndProgram.
  if (!status.ok()) recording->Fail(std::move(status));
  state->programs.Start(std::move(recording));
  return absl::OkStatus();
}

absl::Status End(const command::EndProgram& c, SessionState* state, std::string* declined) {
  const std::unique_ptr<Recording> recording = state->programs.Stop();
  if (recording == nullptr) return ValueError("[jit] expects a program that is being recorded");
  absl::StatusOr<std::unique_ptr<Program>> program =
      recording->number() == c.program
          ? recording->Finish(c.outputs, c.slots)
          : ValueError("[jit] expects the program that is being recorded, got ", c.program);
  if (!program.ok()) return program.status();
  *declined = (*program)->declined;
  state->programs.Add(c.program, *std::move(program));
  return absl::OkStatus();
}

absl::Status CheckRun(const command::RunProgram& c, const Program* program, SessionState& state) {
  if (program == nullptr) {
    return ValueError("[run_program] expects a program of this session, got ", c.program);
  }
  if (program->published != nullptr) CHX_RETURN_IF_ERROR(program->published->Check("run_program"));
  if (c.arguments.size() != program->arguments.size() ||
      c.results.size() != program->outputs.size()) {
    return TypeError("[run_program] expects ", program->arguments.size(), " arguments and ",
                     program->outputs.size(), " results, got ", c.arguments.size(), " and ",
                     c.results.size());
  }
  if (program->published != nullptr) {
    RootErrorPtr inherited;
    CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> given,
                         state.handles.UseAll(c.arguments, &inherited));
    const std::vector<const Variable*> arguments(given.begin(), given.end());
    if (inherited == nullptr && !program->interface->Fits(arguments)) {
      return TypeError(
          "[run_program] expects arrays of the dtypes and shapes that the program was ",
          "published for");
    }
  }
  if (c.times < 0 || c.times > kMaxTimes) {
    return ValueError("[run_program] expects 0 to ", kMaxTimes, " times, got ", c.times);
  }
  if (c.times == 0 && (program->published != nullptr || IsOfRun(c.program))) {
    return ValueError(
        "[run_program] expects a program of this session's client for results in graphs");
  }
  const auto given = static_cast<int64_t>(c.values.size());
  const auto each = static_cast<int64_t>(program->slots.size());
  const int64_t times = std::max<int64_t>(1, c.times);
  if (each == 0 ? given != 0 : (given % each != 0 || given / each != times)) {
    return ValueError("[run_program] expects values of ", each, " slots for each of ", c.times,
                      " times, got ", given);
  }
  Handles wanted;
  for (Handle result : c.results) {
    if (IsOfProgram(result) && !IsOfRun(result)) {
      return ValueError("[run_program] expects handles below 2^63, got ", result);
    }
    if (result != 0) wanted.push_back(result);
  }
  return state.handles.CheckNew(wanted);
}

// The error of what the program works on, if there is one.
absl::Status FindInherited(const command::RunProgram& c, const Program& program,
                           HandleTable* handles, RootErrorPtr* inherited) {
  CHX_RETURN_IF_ERROR(handles->UseAll(c.arguments, inherited).status());
  for (const Program::Held& held : program.held) {
    for (Handle handle : {held.named, held.own}) {
      // A run's program may have been recorded by a client before this one.
      const bool foreign = IsOfRun(c.program) || program.published != nullptr;
      if (handle == held.named && foreign) continue;
      const HandleTable::Entry* const entry = handles->Find(handle);
      if (*inherited == nullptr && entry != nullptr) *inherited = entry->error;
    }
  }
  return absl::OkStatus();
}

}  // namespace

void RunCommand(const command::BeginProgram& c, CommandContext& context) {
  context.FailUnlessOk(c, Begin(c, &context.state), "jit");
}

void RunCommand(const command::EndProgram& c, CommandContext& context) {
  context.Answer(c, "jit",
                 [&](SessionOutput::Value* value) { return End(c, &context.state, &value->data); });
}

void RunCommand(const command::RunProgram& c, CommandContext& context) {
  SessionState& state = context.state;
  if (state.programs.recording() != nullptr) {
    context.Fail(c, MakeError(ErrorKind::kNotImplemented, "[jit] cannot record a run of a program"),
                 "run_program");
    return;
  }
  Program* const program = state.programs.Find(c.program);
  absl::Status status = CheckRun(c, program, state);
  RootErrorPtr inherited;
  if (status.ok()) status = FindInherited(c, *program, &state.handles, &inherited);
  if (program != nullptr && (!status.ok() || inherited != nullptr)) BreakGroupsOf(program, state);
  if (!status.ok()) {
    context.Fail(c, std::move(status), "run_program");
    return;
  }
  if (inherited != nullptr) {
    context.output.errors.push_back({0, inherited});
    context.Inherit(c.results, inherited);
    return;
  }
  const OwnOperators own(&state);
  RunTimes(c, program, context);
}

void RunCommand(const command::HoldArray& c, CommandContext& context) {
  context.FailUnlessOk(c, context.state.handles.Read(c.handle).status(), "jit");
}

void RunCommand(const command::ExplainProgram& c, CommandContext& context) {
  context.Answer(c, "jit", [&](SessionOutput::Value* value) -> absl::Status {
    const Program* const program = context.state.programs.Find(c.program);
    if (program == nullptr || IsOfRun(c.program)) {
      return ValueError("[jit] expects a program of this session, got ", c.program);
    }
    value->data = absl::StrCat("program\t", program->declined, "\n");
    for (const std::unique_ptr<Plan>& plan : program->plans) {
      if (c.measure) plan->Measure();
      plan->Describe(kMaxExplanation, &value->data);
    }
    return context.ChargeValue(static_cast<int64_t>(value->data.size()), value);
  });
}

void RunCommand(const command::ReleaseProgram& c, CommandContext& context) {
  Programs& programs = context.state.programs;
  if (programs.recording() != nullptr && programs.recording()->number() == c.program) {
    programs.Stop();
    return;
  }
  std::shared_ptr<Program> program = IsOfRun(c.program) ? nullptr : programs.Take(c.program);
  if (program != nullptr) return DropProgram(std::move(program), &context.state);
  context.Fail(c, ValueError("[jit] expects a program of this session, got ", c.program), "jit");
}

}  // namespace chx::server
