#include "server/session/programs.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "ops/error.h"
#include "ops/registry.h"
#include "proto/command_codec.h"
#include "server/session/recording.h"
#include "server/session/step_commands.h"

namespace chx::server {
namespace {

constexpr size_t kMaxOfRuns = 64;  // numbers, beside the client's

absl::Status Damaged(absl::string_view what) {
  return ValueError("[restore] expects a program, got one with ", what);
}

// Its commands are those of a step; how many there are. Its slots are attributes of them.
absl::StatusOr<int64_t> CountCommands(const Program& program) {
  std::vector<size_t> num_attributes;  // by operator
  int64_t count = 0;
  CommandReader reader(program.records);
  for (Command command; !reader.AtEnd(); ++count) {
    CHX_RETURN_IF_ERROR(reader.Next(&command));
    const auto is_kept = [](const auto& c) {
      return kKept<std::decay_t<decltype(c)>> && !IsAnswered(c);
    };
    const bool kept = std::visit(is_kept, command);
    if (!kept) return Damaged("a command that none has");
    const auto* const call = std::get_if<command::ApplyOp>(&command);
    if (call != nullptr) num_attributes.push_back(call->attrs.size());
  }
  for (const TraceSlot& slot : program.slots) {
    const auto operation = static_cast<size_t>(slot.operation);
    if (operation >= num_attributes.size() || slot.attribute >= num_attributes[operation]) {
      return Damaged("a slot of no attribute");
    }
  }
  return count;
}

}  // namespace

bool HasCollectives(Program* program) {
  if (program->collectives.has_value()) return *program->collectives;
  const OpRegistry& registry = OpRegistry::Global();
  CommandReader reader(program->records);
  bool found = false;
  for (Command command; !found && !reader.AtEnd() && reader.Next(&command).ok();) {
    found = std::holds_alternative<command::ReduceBackward>(command);
    const auto* const call = std::get_if<command::ApplyOp>(&command);
    if (call == nullptr || call->op == 0 || call->op > registry.size()) continue;
    found = registry.at(static_cast<OpId>(call->op - 1)).kind == OpKind::kCollective;
  }
  program->collectives = found;
  return found;
}

bool ProgramInterface::Fits(absl::Span<const Variable* const> others) const {
  if (others.size() != arguments.size()) return false;
  for (size_t i = 0; i < others.size(); ++i) {
    const ArraySpec& spec = others[i]->array.spec;
    if (spec.dtype != arguments[i].dtype || spec.shape != arguments[i].shape ||
        spec.device != arguments[i].device) {
      return false;
    }
  }
  return true;
}

Program* Programs::Find(uint64_t number) {
  const auto it = programs_.find(number);
  return it == programs_.end() ? nullptr : it->second.get();
}

std::shared_ptr<Program> Programs::Share(uint64_t number) {
  const auto it = programs_.find(number);
  return it == programs_.end() ? nullptr : it->second;
}

void Programs::Add(uint64_t number, std::shared_ptr<Program> program) {
  programs_[number] = std::move(program);
}

absl::Status Programs::Restore(absl::Span<const uint64_t> numbers,
                               std::shared_ptr<Program> program) {
  bool valid = !numbers.empty() && programs_.size() + numbers.size() <= kMaxPrograms + kMaxOfRuns &&
               program->records.size() <= kMaxRecordsBytes;
  for (size_t i = 0; i < numbers.size(); ++i) {
    // The client has one number for each, and those of runs are different.
    valid = valid && !programs_.contains(numbers[i]) && (i == 0 || numbers[i] > numbers[i - 1]) &&
            (i == 0 || IsOfRun(numbers[i]));
  }
  if (!valid) return Damaged("a number or a size that none has");
  CHX_ASSIGN_OR_RETURN(const int64_t commands, CountCommands(*program));
  const int64_t bytes = 2 * static_cast<int64_t>(program->records.size()) +
                        commands * kProgramCommandBytes + kProgramBytes;
  if (!meter_->TryCharge(bytes)) return MemoryError("[jit] ", meter_->Exhausted(bytes).message());
  program->charged = bytes;
  for (uint64_t number : numbers) Add(number, program);
  return absl::OkStatus();
}

std::shared_ptr<Program> Programs::Take(uint64_t number) {
  const auto it = programs_.find(number);
  if (it == programs_.end()) return nullptr;
  std::shared_ptr<Program> program = std::move(it->second);
  programs_.erase(it);
  return program;
}

Programs::Programs(MemoryMeter* meter) : meter_(meter) {}

Programs::~Programs() { Clear(); }

void Programs::Start(std::unique_ptr<Recording> recording) { recording_ = std::move(recording); }

std::unique_ptr<Recording> Programs::Stop() { return std::move(recording_); }

void Programs::Clear() {
  recording_ = nullptr;
  for (const auto& [number, program] : programs_) {
    if (!IsOfRun(number) && program.use_count() == 1) meter_->Release(program->charged);
  }
  absl::erase_if(programs_, [](const auto& entry) { return !IsOfRun(entry.first); });
}

void Programs::AddHeldByRuns(absl::flat_hash_set<Handle>* handles) const {
  for (const auto& [number, program] : programs_) {
    if (!IsOfRun(number)) continue;
    for (const Program::Held& held : program->held) handles->insert(held.own);
  }
}

void FreeProgram(Program* program, SessionState* state) {
  for (const Program::Held& held : program->held) state->handles.Release(held.own);
  state->meter.Release(program->charged);
  program->charged = 0;
}

void DropProgram(std::shared_ptr<Program> program, SessionState* state) {
  // Owners come and go under the session's lock only.
  if (program.use_count() == 1) FreeProgram(program.get(), state);
}

}  // namespace chx::server
