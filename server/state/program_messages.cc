#include "server/state/program_messages.h"

#include <limits>
#include <utility>
#include <variant>

#include "ops/error.h"
#include "proto/command_codec.h"
#include "server/state/array_messages.h"

namespace chx::server {
namespace {

// Commands with this daemon's ids of operators. 0: it has none, and the command will fail.
absl::StatusOr<std::string> RecordsFrom(const std::string& records,
                                        absl::Span<const uint16_t> op_ids) {
  if (op_ids.empty()) return records;
  std::string own;
  CommandWriter writer(&own);
  CommandReader reader(records);
  for (Command command; !reader.AtEnd();) {
    CHX_RETURN_IF_ERROR(reader.Next(&command));
    auto* const apply = std::get_if<command::ApplyOp>(&command);
    if (apply != nullptr) apply->op = apply->op < op_ids.size() ? op_ids[apply->op] : 0;
    writer.Write(command);
  }
  return own;
}

}  // namespace

void ToMessage(uint16_t number, const RecordMode& mode, state::Mode* message) {
  message->set_number(number);
  message->set_by_default(mode.by_default());
  for (const auto& [id, records] : mode.exceptions()) {
    records ? message->add_recorded(id) : message->add_not_recorded(id);
  }
}

absl::StatusOr<command::DefineMode> DefinitionFrom(const state::Mode& message) {
  if (message.number() > std::numeric_limits<uint16_t>::max()) return Unreadable("a mode");
  command::DefineMode define;
  define.mode = static_cast<uint16_t>(message.number());
  define.record_by_default = message.by_default();
  for (uint32_t id : message.recorded()) define.entries.push_back({id, true});
  for (uint32_t id : message.not_recorded()) define.entries.push_back({id, false});
  return define;
}

void ToMessage(absl::Span<const uint64_t> numbers, const Program& program,
               state::Program* message) {
  for (uint64_t number : numbers) message->add_numbers(number);
  message->set_opened(program.published != nullptr);
  if (message->opened()) return;
  message->set_records(program.records);
  for (const TraceSlot& slot : program.slots) {
    state::Slot* const each = message->add_slots();
    each->set_operation(static_cast<uint64_t>(slot.operation));
    each->set_attribute(static_cast<uint32_t>(slot.attribute));
  }
  for (Handle handle : program.arguments) message->add_arguments(handle);
  for (Handle handle : program.outputs) message->add_outputs(handle);
  for (const Program::Held& held : program.held) {
    state::Held* const each = message->add_held();
    each->set_named(held.named);
    each->set_own(held.own);
  }
  for (const auto& [mode_number, mode] : program.modes) {
    ToMessage(mode_number, mode, message->add_modes());
  }
}

absl::StatusOr<std::unique_ptr<Program>> ProgramFrom(const state::Program& message,
                                                     const HandleTable& handles,
                                                     absl::Span<const uint16_t> op_ids,
                                                     absl::flat_hash_set<Handle>* owned) {
  auto program = std::make_unique<Program>();
  if (message.opened()) {
    program->published = std::make_shared<Withdrawal>(
        MakeError(ErrorKind::kContext,
                  "the program is another session's, which this one did not keep when the daemon "
                  "was started anew: look it up again"));
    return program;
  }
  CHX_ASSIGN_OR_RETURN(program->records, RecordsFrom(message.records(), op_ids));
  for (const state::Slot& slot : message.slots()) {
    program->slots.push_back({static_cast<int64_t>(slot.operation()), slot.attribute()});
  }
  program->arguments.assign(message.arguments().begin(), message.arguments().end());
  program->outputs.assign(message.outputs().begin(), message.outputs().end());
  for (const state::Held& held : message.held()) {
    if (!IsOfProgram(held.own()) || IsOfRun(held.own()) || !handles.contains(held.own()) ||
        !owned->insert(held.own()).second) {
      return Unreadable("an array of a program that is not its own");
    }
    program->held.push_back({held.named(), held.own()});
  }
  for (const state::Mode& mode : message.modes()) {
    CHX_ASSIGN_OR_RETURN(const command::DefineMode define, DefinitionFrom(mode));
    RecordMode record(define.record_by_default);
    for (const ModeEntry& entry : define.entries) record.Set(entry.backprop_id, entry.record);
    program->modes.emplace_back(define.mode, std::move(record));
  }
  return program;
}

}  // namespace chx::server
