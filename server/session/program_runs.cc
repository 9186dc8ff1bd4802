// Runs of programs: by a plan where one fits, else by the commands.
#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ops/error.h"
#include "proto/command_codec.h"
#include "server/session/commands.h"
#include "server/session/recording.h"
#include "server/session/step_commands.h"

namespace chx::server {
namespace {

// Attempts to make a plan; from then on the commands run as they are.
constexpr int kMaxAttempts = 16;

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
        context_{context->state, context->output, ~size_t{0} - 1},
        location_(c.location) {
    for (size_t i = 0; i < program.arguments.size(); ++i) {
      names_[program.arguments[i]] = c.arguments[i];
    }
    for (const Program::Held& held : program.held) names_[held.named] = held.own;
    for (size_t i = 0; i < program.slots.size(); ++i) {
      slots_[program.slots[i].operation].push_back(i);
    }
  }

  // `values`: those of the slots. If it is stopped, the others fail one by one: what they were to
  // write has no value.
  void Run(absl::Span<const int64_t> values) {
    SwapModes swap(program_, &context_.state.definitions);
    CommandReader reader(program_.records);
    Command command;
    while (!reader.AtEnd() && reader.Next(&command).ok()) {
      std::visit([this](auto& c) { Rename(&c); }, command);
      if (program_.published != nullptr) {  // its lines are another client's
        std::visit([this](auto& c) { SetLocation(location_, &c); }, command);
      }
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
        if (it != definitions_.modes().end()) {
          before_.emplace_back(number, std::exchange(it->second, mode));
        } else if (definitions_.modes().Reserve(1)) {  // another client has begun
          definitions_.modes().try_emplace(number, mode);
          added_.push_back(number);
        }
      }
    }
    ~SwapModes() {
      for (auto& [number, mode] : before_) {
        const auto it = definitions_.modes().find(number);
        if (it != definitions_.modes().end()) it->second = std::move(mode);
      }
      for (const uint16_t number : added_) {
        const auto it = definitions_.modes().find(number);
        if (it != definitions_.modes().end()) definitions_.modes().erase(it);
      }
    }

   private:
    Definitions& definitions_;
    std::vector<std::pair<uint16_t, RecordMode>> before_;
    std::vector<uint16_t> added_;
  };

  Handle NewName(Handle handle) {
    if (handle == 0) return 0;
    const Handle own = context_.state.programs.NewHandle(context_.state.handles);
    names_[handle] = own;
    made_.insert(own);
    return own;
  }

  template <typename C>
  static void SetLocation(uint32_t location, C* c) {
    if constexpr (Has_location<C>::value) c->location = location;
  }

  void SetSlots(absl::Span<const int64_t> values, command::ApplyOp* c) {
    const auto it = slots_.find(num_operations_++);
    if (it == slots_.end()) return;
    for (size_t i : it->second) SetSlot(values[i], &c->attrs[program_.slots[i].attribute]);
  }

  template <typename C>
  void Rename(C* c) {
    ForEachUse(*c, [this](Handle& handle) { handle = NameOf(handle); });
    if constexpr (IsOneOf<C, command::ApplyOp, command::Grad>()) {
      for (Handle& result : c->results) result = NewName(result);
    } else if constexpr (std::is_same_v<C, command::GetGrad>) {
      c->result = NewName(c->result);
    }
  }
  void Rename(command::Release* c) {
    for (Handle& handle : c->handles) {
      handle = NameOf(handle);
      made_.erase(handle);
    }
  }
  // What has just been made stands for nothing: the program has its own.
  void Rename(command::HoldArray* c) {
    for (const Program::Held& held : program_.held) {
      if (held.named == c->handle) names_[c->handle] = held.own;
    }
    c->handle = NameOf(c->handle);
  }

  const Program& program_;
  CommandContext context_;
  const uint32_t location_;
  absl::flat_hash_map<Handle, Handle> names_;
  absl::flat_hash_set<Handle> made_;
  absl::flat_hash_map<int64_t, absl::InlinedVector<size_t, 1>> slots_;  // by operation
  int64_t num_operations_ = 0;                                          // that have run
};

class ProgramRun {
 public:
  ProgramRun(const command::RunProgram& c, Program* program, CommandContext* context)
      : c_(c), program_(*program), context_(*context), state_(context->state) {}

  void Run() {
    if (c_.times == 0) return RunInGraph();
    const size_t each = program_.slots.size();
    for (int64_t done = 0; done < c_.times;) {
      absl::Status going_on = CheckNotStopped("run_program");
      SharedUse use;
      bool shares = false;
      if (going_on.ok()) going_on = HoldShared(&use, &shares);
      if (!going_on.ok()) return FailBefore(std::move(going_on));
      const int64_t left = c_.times - done;
      const auto values = absl::MakeConstSpan(c_.values).subspan(static_cast<size_t>(done) * each);
      // Others have their turn between any two times.
      const int64_t times = RunPlanned(shares ? 1 : left, left, values);
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
        BreakGroupsOf(&program_, state_);
        context_.Inherit(c_.results, context_.output.errors.back().error);
        return;
      }
    }
  }

 private:
  // No command has run, or no further time begins: the program's collectives are not met.
  void FailBefore(absl::Status why) {
    BreakGroupsOf(&program_, state_);
    context_.Fail(c_, std::move(why), "run_program");
  }
  // Once, by the commands: a plan makes no graph.
  void RunInGraph() {
    CommandRun run(program_, c_, &context_);
    run.Run(c_.values);
    Handles outputs;
    for (Handle output : program_.outputs) outputs.push_back(run.NameOf(output));
    BindOutputs(outputs);
    run.Release();
  }

  // What other sessions have, too, is the same for the length of one time: what they write, and
  // what this program writes, is seen as a whole.
  absl::Status HoldShared(SharedUse* use, bool* shares) {
    if (!state_.executor.shares() || program_.interface == nullptr) return absl::OkStatus();
    // Nobody waits for other ranks and holds something.
    if (HasCollectives(&program_)) return absl::OkStatus();
    RootErrorPtr none;
    const auto arguments = state_.handles.UseAll(c_.arguments, &none);
    if (!arguments.ok() || none != nullptr) return absl::OkStatus();
    const bool as_recorded = program_.interface->Fits(
        std::vector<const Variable*>(arguments->begin(), arguments->end()));
    std::vector<Executor::SharedOperand> operands;
    bool writes_any = false;
    bool gradients = false;  // which no command names: commands lock them one by one
    const auto add = [&](Handle handle, bool writes) {
      const HandleTable::Entry* const entry = state_.handles.Find(handle);
      if (entry == nullptr || entry->error != nullptr) return;
      const Variable& variable = entry->variable;
      if (variable.array.buffer->lease()) {
        operands.push_back({&variable.array, writes});
        writes_any = writes_any || writes;
      }
      for (const Ref<ArrayNode>& node : variable.nodes) {
        gradients = gradients || (node->grad != nullptr && node->grad->array.buffer->lease());
      }
    };
    for (size_t i = 0; i < program_.held.size(); ++i) {
      add(program_.held[i].own, program_.interface->written_held[i]);
    }
    for (size_t i = 0; i < c_.arguments.size(); ++i) {
      add(c_.arguments[i], program_.interface->written_arguments[i]);
    }
    // A run that writes what others have cannot be stopped. One that may be long is held command by
    // command.
    if (gradients || (writes_any && !(as_recorded && program_.interface->is_brief))) {
      return absl::OkStatus();
    }
    *shares = !operands.empty();
    return state_.executor.Hold("run_program", operands, use);
  }

  // Of `left` times `times` at most. How often it has run; 0: no plan fits; -1: it has failed.
  int64_t RunPlanned(int64_t times, int64_t left, absl::Span<const int64_t> values) {
    RootErrorPtr none;
    absl::StatusOr<std::vector<Variable*>> arguments = state_.handles.UseAll(c_.arguments, &none);
    if (!arguments.ok() || none != nullptr) return 0;
    // A run's step is made as a whole or not at all: its commands, one by one, could run out of
    // memory behind the first of them that writes.
    const bool whole = IsOfRun(c_.program);
    if (whole && program_.plans.empty()) {
      absl::Status fits = state_.executor.CheckFits(program_.run_bytes);
      if (!fits.ok()) {
        FailBefore(std::move(fits));
        return -1;
      }
    }
    for (const std::unique_ptr<Plan>& plan : program_.plans) {
      if (!plan->Fits(state_.executor, *arguments)) continue;
      const int64_t count = plan->repeatable() ? times : 1;
      std::vector<Array> results;
      Plan::Progress progress;
      absl::Status status =
          plan->Run(state_.executor, *arguments, count, values, &results, &progress);
      if (!progress.began) {
        if (!whole || KindOf(status) != ErrorKind::kMemory) return 0;
        FailBefore(std::move(status));
        return -1;
      }
      // The plan has met the others for what was left of this time.
      if (!status.ok() && progress.times + 1 < left) BreakGroupsOf(&program_, state_);
      if (!status.ok()) return Fail(*plan, *arguments, progress, std::move(status));
      if (count == left) Bind(results);
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

  int64_t Fail(const Plan& plan, absl::Span<Variable* const> arguments,
               const Plan::Progress& failed, absl::Status status) {
    const Command command = CommandAt(program_, failed.command);
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
      if (recording->status().ok()) {
        recording->AddPlan(outputs, &program_);
      } else {
        ++program_.attempts;
      }
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
        if (c_.times == 0) variable = Variable(entry->variable);
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

void RunTimes(const command::RunProgram& c, Program* program, CommandContext& context) {
  ProgramRun(c, program, &context).Run();
}

}  // namespace chx::server
