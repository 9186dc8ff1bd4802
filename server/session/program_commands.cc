// Programs: recorded, run by their plans or by their commands, and forgotten.
#include <algorithm>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "proto/command_codec.h"
#include "server/session/commands.h"

namespace chx::server {
namespace {

// Attempts to make a plan; from then on the commands run as they are.
constexpr int kMaxAttempts = 16;
constexpr int64_t kMaxTimes = int64_t{1} << 40;

// Command number `number` of a program; Barrier if it cannot be read.
Command CommandAt(const Program& program, size_t number) {
  CommandReader reader(program.records);
  Command command;
  for (size_t i = 0; i <= number; ++i) {
    if (reader.AtEnd() || !reader.Next(&command).ok()) return command::Barrier();
  }
  return command;
}

// One run of a program by its commands, in which each handle that they make is another one.
class CommandRun {
 public:
  CommandRun(const Program& program, const command::RunProgram& c, CommandContext* context)
      : program_(program),
        // What the window of the run releases is no last use of an operator in it.
        context_{context->state, context->output, ~size_t{0} - 1} {
    for (size_t i = 0; i < program.arguments.size(); ++i) {
      names_[program.arguments[i]] = c.arguments[i];
    }
    for (const Program::Held& held : program.held) names_[held.named] = held.own;
  }

  // `values`: those of the slots.
  void Run(absl::Span<const int64_t> values) {
    SwapModes swap(program_, &context_.state.definitions);
    CommandReader reader(program_.records);
    Command command;
    while (!reader.AtEnd() && reader.Next(&command).ok()) {
      std::visit([this](auto& c) { Rename(&c); }, command);
      if (auto* const apply = std::get_if<command::ApplyOp>(&command)) SetSlots(values, apply);
      RunCommand(command, context_);
    }
  }
  Handle NameOf(Handle handle) const {
    const auto it = names_.find(handle);
    return it == names_.end() ? 0 : it->second;
  }
  // Frees what the commands have made and not released.
  void Release() {
    for (Handle handle : made_) context_.state.handles.Release(handle);
  }

 private:
  // Modes may have been defined anew since the program was recorded.
  class SwapModes {
   public:
    SwapModes(const Program& program, Definitions* definitions) : definitions_(*definitions) {
      for (const auto& [number, mode] : program.modes) {
        const auto it = definitions_.modes().find(number);
        if (it == definitions_.modes().end()) continue;
        before_.emplace_back(number, std::exchange(it->second, mode));
      }
    }
    ~SwapModes() {
      for (auto& [number, mode] : before_) {
        const auto it = definitions_.modes().find(number);
        if (it != definitions_.modes().end()) it->second = std::move(mode);
      }
    }

   private:
    Definitions& definitions_;
    std::vector<std::pair<uint16_t, RecordMode>> before_;
  };

  void RenameUse(Handle* handle) const {
    if (*handle != 0) *handle = NameOf(*handle);
  }
  void RenameUses(Handles* handles) const {
    for (Handle& handle : *handles) RenameUse(&handle);
  }
  void RenameResults(Handles* handles) {
    for (Handle& handle : *handles) RenameResult(&handle);
  }
  void RenameResult(Handle* handle) {
    if (*handle == 0) return;
    const Handle own = context_.state.programs.NewHandle(context_.state.handles);
    names_[*handle] = own;
    made_.push_back(own);
    *handle = own;
  }

  void SetSlots(absl::Span<const int64_t> values, command::ApplyOp* c) {
    for (size_t i = 0; i < program_.slots.size(); ++i) {
      if (program_.slots[i].operation != num_operations_) continue;
      SetSlot(values[i], &c->attrs[program_.slots[i].attribute]);
    }
    ++num_operations_;
  }

  void Rename(command::ApplyOp* c) {
    for (HandleOperand& input : c->inputs) {
      if (input.is_array()) input = HandleOperand(NameOf(input.array()));
    }
    RenameResults(&c->results);
  }
  void Rename(command::Release* c) {
    RenameUses(&c->handles);
    for (Handle handle : c->handles) {
      made_.erase(std::remove(made_.begin(), made_.end(), handle), made_.end());
    }
  }
  void Rename(command::Backward* c) { RenameUses(&c->outputs); }
  void Rename(command::Grad* c) {
    RenameUses(&c->outputs);
    RenameUses(&c->inputs);
    RenameUses(&c->output_grads);
    RenameResults(&c->results);
  }
  void Rename(command::SetGrad* c) {
    RenameUse(&c->handle);
    RenameUse(&c->grad);
  }
  void Rename(command::GetGrad* c) {
    RenameUse(&c->handle);
    RenameResult(&c->result);
  }
  // What has just been made stands for nothing: the program has its own.
  void Rename(command::HoldArray* c) {
    for (const Program::Held& held : program_.held) {
      if (held.named == c->handle) names_[c->handle] = held.own;
    }
    c->handle = NameOf(c->handle);
  }
  void Rename(command::RequireGrad* c) { RenameUse(&c->handle); }
  template <typename C>
  void Rename(C* /*command*/) {}  // no program has it

  const Program& program_;
  CommandContext context_;
  absl::flat_hash_map<Handle, Handle> names_;
  std::vector<Handle> made_;
  int64_t num_operations_ = 0;  // that have run
};

absl::Status Begin(const command::BeginProgram& c, SessionState* state) {
  if (state->programs.recording() != nullptr) {
    return ValueError("[jit] expects one recording at a time");
  }
  if (state->programs.size() >= Programs::kMaxPrograms) {
    return MemoryError("[jit] the session has ", Programs::kMaxPrograms,
                       " programs, which is the limit: release some");
  }
  if (state->programs.Find(c.program) != nullptr) {
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
  if (!program.ok()) {
    recording->Abandon();
    return program.status();
  }
  *declined = (*program)->declined;
  state->programs.Add(c.program, *std::move(program));
  return absl::OkStatus();
}

absl::Status CheckRun(const command::RunProgram& c, const Program* program,
                      const SessionState& state) {
  if (program == nullptr) {
    return ValueError("[run_program] expects a program of this session, got ", c.program,
                      ": a daemon that was started anew has none, so record it again");
  }
  if (c.arguments.size() != program->arguments.size() ||
      c.results.size() != program->outputs.size()) {
    return TypeError("[run_program] expects ", program->arguments.size(), " arguments and ",
                     program->outputs.size(), " results, got ", c.arguments.size(), " and ",
                     c.results.size());
  }
  if (c.times < 1 || c.times > kMaxTimes) {
    return ValueError("[run_program] expects 1 to ", kMaxTimes, " times, got ", c.times);
  }
  const auto given = static_cast<int64_t>(c.values.size());
  const auto each = static_cast<int64_t>(program->slots.size());
  if (each == 0 ? given != 0 : (given % each != 0 || given / each != c.times)) {
    return ValueError("[run_program] expects values of ", each, " slots for each of ", c.times,
                      " times, got ", given);
  }
  Handles wanted;
  for (Handle result : c.results) {
    if (result >= kFirstProgramHandle) {
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
      const HandleTable::Entry* const entry = handles->Find(handle);
      if (*inherited == nullptr && entry != nullptr) *inherited = entry->error;
    }
  }
  return absl::OkStatus();
}

// What the run would have written is not what the client takes it for.
void PoisonUnwritten(const std::vector<const Buffer*>& list, const RootErrorPtr& error,
                     HandleTable* handles) {
  const absl::flat_hash_set<const Buffer*> buffers(list.begin(), list.end());
  std::vector<Handle> lost;
  handles->ForEach([&](Handle handle, const HandleTable::Entry& entry) {
    const Buffer* const buffer = entry.variable.array.buffer.get();
    if (buffer != nullptr && buffers.contains(buffer)) lost.push_back(handle);
  });
  for (Handle handle : lost) handles->Poison(handle, error);
}

class ProgramRun {
 public:
  ProgramRun(const command::RunProgram& c, Program* program, CommandContext* context)
      : c_(c), program_(*program), context_(*context), state_(context->state) {}

  void Run() {
    const size_t each = program_.slots.size();
    for (int64_t done = 0; done < c_.times;) {
      absl::Status going_on = CheckNotStopped("run_program");
      if (!going_on.ok()) {
        context_.Fail(c_, std::move(going_on), "run_program");
        return;
      }
      const int64_t left = c_.times - done;
      const auto values = absl::MakeConstSpan(c_.values).subspan(static_cast<size_t>(done) * each);
      const int64_t times = RunPlanned(left, values);
      if (times < 0) return;
      if (times > 0) {
        done += times;
        continue;
      }
      const size_t errors = context_.output.errors.size();
      RunCommands(values.subspan(0, each), left == 1);
      ++done;
      // Those that follow would fail, too.
      if (left > 1 && context_.output.errors.size() > errors) {
        context_.Inherit(c_.results, context_.output.errors.back().error);
        return;
      }
    }
  }

 private:
  // How often it has run; 0: no plan fits; -1: it has failed.
  int64_t RunPlanned(int64_t times, absl::Span<const int64_t> values) {
    RootErrorPtr none;
    absl::StatusOr<std::vector<Variable*>> arguments = state_.handles.UseAll(c_.arguments, &none);
    if (!arguments.ok() || none != nullptr) return 0;
    for (const std::unique_ptr<Plan>& plan : program_.plans) {
      if (!plan->Fits(*arguments)) continue;
      const int64_t count = plan->repeatable() ? times : 1;
      std::vector<Array> results;
      Plan::Progress progress;
      absl::Status status =
          plan->Run(state_.executor, *arguments, count, values, &results, &progress);
      if (!progress.began) return 0;
      if (!status.ok()) return Fail(*plan, *arguments, progress.command, std::move(status));
      if (count == times) Bind(results);
      return count;
    }
    return 0;
  }

  void Bind(const std::vector<Array>& results) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (c_.results[i] == 0) continue;
      Variable variable;
      variable.array = results[i];
      state_.handles.Bind(c_.results[i], std::move(variable));
    }
  }

  int64_t Fail(const Plan& plan, absl::Span<Variable* const> arguments, size_t failed,
               absl::Status status) {
    const Command command = CommandAt(program_, failed);
    uint32_t location = std::visit([](const auto& c) { return LocationOf(c); }, command);
    const std::vector<const Buffer*> unwritten = plan.Unwritten(arguments, failed);
    const RootErrorPtr error = context_.Fail(location == 0 ? c_.location : location, ResultsOf(c_),
                                             std::move(status), NameOf(command, state_), "");
    PoisonUnwritten(unwritten, error, &state_.handles);
    return -1;
  }

  void RunCommands(absl::Span<const int64_t> values, bool last) {
    CommandRun run(program_, c_, &context_);
    const bool records = program_.attempts < kMaxAttempts;
    if (records) {
      auto recording = std::make_unique<Recording>(c_.program, &state_, false);
      const absl::Status begun = recording->Begin(c_.arguments);
      if (!begun.ok()) recording->Fail(begun);
      state_.programs.Start(std::move(recording));
    }
    run.Run(values);
    Handles outputs;
    for (Handle output : program_.outputs) outputs.push_back(run.NameOf(output));
    if (records) {
      const std::unique_ptr<Recording> recording = state_.programs.Stop();
      state_.executor.set_observer(nullptr);
      if (recording->status().ok()) {
        recording->AddPlan(outputs, &program_);
      } else {
        ++program_.attempts;
      }
      recording->Abandon();
    }
    if (last) BindOutputs(outputs);
    run.Release();
  }

  void BindOutputs(const Handles& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (c_.results[i] == 0) continue;
      HandleTable::Entry* const entry = state_.handles.Find(outputs[i]);
      if (entry != nullptr && entry->error == nullptr) {
        Variable variable;
        variable.array = entry->variable.array;
        state_.handles.Bind(c_.results[i], std::move(variable));
      } else if (entry != nullptr) {
        state_.handles.BindError(c_.results[i], entry->error);
      } else {
        context_.Fail(c_.location, {&c_.results[i], 1},
                      ValueError("[run_program] has no result ", i), "run_program", "");
      }
    }
  }

  const command::RunProgram& c_;
  Program& program_;
  CommandContext& context_;
  SessionState& state_;
};

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
  if (!status.ok()) {
    context.Fail(c, std::move(status), "run_program");
    return;
  }
  if (inherited != nullptr) {
    context.output.errors.push_back({0, inherited});
    context.Inherit(c.results, inherited);
    return;
  }
  ProgramRun(c, program, &context).Run();
}

void RunCommand(const command::HoldArray& c, CommandContext& context) {
  context.FailUnlessOk(c, context.state.handles.Read(c.handle).status(), "jit");
}

void RunCommand(const command::ReleaseProgram& c, CommandContext& context) {
  Programs& programs = context.state.programs;
  if (programs.recording() != nullptr && programs.recording()->number() == c.program) {
    programs.Stop()->Abandon();
    return;
  }
  const std::unique_ptr<Program> program = programs.Take(c.program);
  if (program != nullptr) return FreeProgram(program.get(), &context.state);
  context.Fail(c, ValueError("[jit] expects a program of this session, got ", c.program), "jit");
}

}  // namespace chx::server
