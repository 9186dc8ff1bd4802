#include "server/session/published_programs.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "proto/command_codec.h"
#include "server/session/commands.h"
#include "server/session/step_commands.h"

namespace chx::server {
namespace {

// A program without its session.
struct Code {
  // A held array: the handle by which commands name it, and where it is.
  struct Held {
    Handle named = 0;
    size_t storage = 0;  // among the publication's
    ArraySpec spec;
  };

  std::string records;  // operators by this daemon's ids, and no lines of a client's
  int64_t bytes = 0;    // that a session with it is charged
  Handles arguments;
  Handles outputs;
  std::vector<Held> held;
  std::vector<std::pair<uint16_t, RecordMode>> modes;
  ProgramInterface interface;
};
using Codes = std::vector<Code>;

absl::Status CannotPublish(absl::string_view what, absl::string_view how) {
  return ValueError("[publish] expects a program that changes nothing in this session, got one ",
                    what, ": ", how);
}

// Calls fn, of type absl::Status(Command*), for each command.
template <typename Fn>
absl::Status ForEachCommand(const std::string& records, Fn fn) {
  CommandReader reader(records);
  Command command;
  while (!reader.AtEnd()) {
    CHX_RETURN_IF_ERROR(reader.Next(&command));
    CHX_RETURN_IF_ERROR(fn(&command));
  }
  return absl::OkStatus();
}

absl::Status CheckSlots(const Program& program, const SessionState& state) {
  if (program.slots.empty()) return absl::OkStatus();
  std::vector<const OpDef*> operators;
  CHX_RETURN_IF_ERROR(ForEachCommand(program.records, [&](Command* command) {
    const auto* const apply = std::get_if<command::ApplyOp>(command);
    if (apply != nullptr) operators.push_back(OpOf(*apply, state));
    return absl::OkStatus();
  }));
  for (const TraceSlot& slot : program.slots) {
    const auto number = static_cast<size_t>(slot.operation);
    const OpDef* const op = number < operators.size() ? operators[number] : nullptr;
    const bool has = op != nullptr && slot.attribute < op->attrs.size();
    const std::string name = has ? op->attrs[slot.attribute].name : "";
    if (name == "seed" || name == "counter") {
      return CannotPublish(absl::StrCat("whose [", op->name, "] draws from its random numbers"),
                           "pass an array of random numbers, or leave it out, as dropout is for "
                           "inference");
    }
  }
  return ValueError(
      "[publish] expects a program without numbers that vary, such as floats among its arguments "
      "and hyperparameters of optimizers: pass arrays without dimensions");
}

absl::Status CheckWrites(const Program& program, SessionState* state) {
  CHX_RETURN_IF_ERROR(ForEachCommand(program.records, [](Command* command) {
    if (!std::holds_alternative<command::HoldArray>(*command)) return absl::OkStatus();
    return CannotPublish("that keeps an array from one call to the next",
                         "return it, and pass it to the next call");
  }));
  for (size_t i = 0; i < program.held.size(); ++i) {
    if (!program.interface->written_held[i]) continue;
    const HandleTable::Entry* const entry = state->handles.Find(program.held[i].own);
    return CannotPublish(
        absl::StrCat("that writes to ",
                     entry == nullptr ? "an array" : entry->variable.array.spec.ToString(),
                     ", which it captures"),
        "return new values, as inference without updates and running statistics does");
  }
  return absl::OkStatus();
}

template <typename C>
constexpr bool kOfGradients =
    kPass<C> || IsOneOf<C, command::SetGrad, command::GetGrad, command::RequireGrad>();

// Holders have the arrays, and not the graphs that these are in.
absl::Status CheckGradients(const Program& program, SessionState* state) {
  bool required = false;
  for (const Program::Held& held : program.held) {
    const HandleTable::Entry* const entry = state->handles.Find(held.own);
    required = required || (entry != nullptr && !entry->variable.nodes.empty());
  }
  return ForEachCommand(program.records, [&](Command* command) {
    return std::visit(
        [&](const auto& c) -> absl::Status {
          using C = std::decay_t<decltype(c)>;
          if constexpr (kOfGradients<C>) {
            if (c.backprop_id != 0) {
              return CannotPublish("that computes gradients in a graph of its own",
                                   "use the default graph");
            }
            if (required) {
              return CannotPublish("that computes gradients of arrays that it captures",
                                   "let it capture w.as_grad_stopped()");
            }
          }
          return absl::OkStatus();
        },
        *command);
  });
}

absl::StatusOr<const Program*> FindPublishable(int64_t number, SessionState* state) {
  const auto unsigned_number = static_cast<uint64_t>(number);
  Program* const program =
      IsOfRun(unsigned_number) ? nullptr : state->programs.Find(unsigned_number);
  if (program == nullptr) {
    return ValueError("[publish] expects a program of this session, got ", unsigned_number);
  }
  if (program->published != nullptr) {
    return ValueError(
        "[publish] expects a program that this session has recorded, got one that another session "
        "has published");
  }
  if (program->interface == nullptr) {
    return ValueError(
        "[publish] expects a program that has run since the daemon was started anew: call it once");
  }
  if (HasCollectives(program)) {
    return CannotPublish("that exchanges arrays with the ranks of a process group",
                         "call collectives outside of it");
  }
  CHX_RETURN_IF_ERROR(CheckSlots(*program, *state));
  CHX_RETURN_IF_ERROR(CheckWrites(*program, state));
  CHX_RETURN_IF_ERROR(CheckGradients(*program, state));
  return program;
}

int64_t BytesOf(const Program& program) {
  const size_t specs = program.interface->arguments.size() + program.interface->results.size();
  int64_t bytes =
      static_cast<int64_t>(2 * program.records.size() + (program.held.size() + specs) * 512) +
      kProgramBytes;
  for (const auto& [number, mode] : program.modes) {
    bytes += static_cast<int64_t>(2 * sizeof(mode)) + mode.HeapBytes();
  }
  return bytes;
}

absl::StatusOr<Code> CodeOf(const Program& program, const SessionState& state) {
  Code code;
  code.bytes = BytesOf(program);
  CommandWriter writer(&code.records);
  CHX_RETURN_IF_ERROR(ForEachCommand(program.records, [&](Command* command) -> absl::Status {
    const auto* const apply = std::get_if<command::ApplyOp>(command);
    if (apply != nullptr && OpOf(*apply, state) == nullptr) {
      return ValueError("[publish] expects operators of this daemon");
    }
    std::visit(
        [](auto& c) {
          if constexpr (Has_location<std::decay_t<decltype(c)>>::value) c.location = 0;
        },
        *command);
    code.bytes += kProgramCommandBytes;
    writer.Write(*command);
    return absl::OkStatus();
  }));
  code.arguments = program.arguments;
  code.outputs = program.outputs;
  code.modes = program.modes;
  code.interface = *program.interface;
  return code;
}

// A program of the session that holds some of these arrays.
absl::StatusOr<std::shared_ptr<Program>> NewProgram(const Code& code,
                                                    absl::Span<const Array> arrays,
                                                    SessionState* state) {
  auto program = std::make_shared<Program>();
  program->records = code.records;
  program->arguments = code.arguments;
  program->outputs = code.outputs;
  program->modes = code.modes;
  program->interface = std::make_unique<ProgramInterface>(code.interface);
  if (!state->meter.TryCharge(code.bytes)) {
    return MemoryError("[lookup] ", state->meter.Exhausted(code.bytes).message());
  }
  program->charged = code.bytes;
  for (const Code::Held& held : code.held) {
    const Handle own = state->programs.NewHandle(state->handles);
    absl::Status room = state->handles.CheckNew({&own, 1});
    if (!room.ok()) {
      FreeProgram(program.get(), state);
      return room;
    }
    Variable variable;
    variable.array = {arrays[held.storage].buffer, held.spec};
    state->handles.Bind(own, std::move(variable));
    program->held.push_back({held.named, own});
  }
  return program;
}

}  // namespace

absl::Status FillPrograms(absl::Span<const int64_t> numbers, SessionState* state,
                          NewPublication* publication, RootErrorPtr* inherited) {
  if (numbers.empty() || numbers.size() > Names::kMaxPrograms) {
    return ValueError("[publish] expects 1 to ", Names::kMaxPrograms, " programs, got ",
                      numbers.size());
  }
  const OwnOperators own(state);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto others = numbers.subspan(0, i);
    if (std::find(others.begin(), others.end(), numbers[i]) != others.end()) {
      return ValueError("[publish] expects each program once, got ", numbers[i]);
    }
  }
  // All of them, before memory moves.
  std::vector<const Program*> programs;
  for (int64_t number : numbers) {
    CHX_ASSIGN_OR_RETURN(const Program* const program, FindPublishable(number, state));
    programs.push_back(program);
    publication->code_bytes += BytesOf(*program);
  }
  CHX_ASSIGN_OR_RETURN(const MemoryCharge charge,
                       MemoryCharge::Of(state->account(), publication->code_bytes));
  auto codes = std::make_shared<Codes>();
  absl::flat_hash_map<const SharedStorage*, size_t> storages;
  for (const Program* program : programs) {
    CHX_ASSIGN_OR_RETURN(Code code, CodeOf(*program, *state));
    for (const Program::Held& held : program->held) {
      CHX_ASSIGN_OR_RETURN(HandleTable::Entry* const entry,
                           state->handles.Use(held.own, inherited));
      if (*inherited != nullptr) return absl::OkStatus();
      const Array array = entry->variable.array;
      CHX_ASSIGN_OR_RETURN(Ref<SharedStorage> storage, state->executor.MoveToStorage(array));
      const auto [it, is_new] = storages.emplace(storage.get(), publication->arrays.size());
      if (is_new) publication->arrays.push_back({"", {std::move(storage), array.spec}});
      code.held.push_back({held.named, it->second, array.spec});
    }
    publication->programs.push_back({code.interface.arguments, code.interface.results});
    codes->push_back(std::move(code));
  }
  publication->code = std::move(codes);
  return absl::OkStatus();
}

absl::Status AddPrograms(const OpenedPrograms& opened, absl::Span<const int64_t> numbers,
                         SessionState* state) {
  const auto& codes = *static_cast<const Codes*>(opened.code.get());
  if (numbers.size() != codes.size()) {
    return ValueError("[lookup] expects a number for each of ", codes.size(), " programs, got ",
                      numbers.size());
  }
  Programs& programs = state->programs;
  if (programs.size() + numbers.size() > Programs::kMaxPrograms) {
    return MemoryError("[lookup] a session has ", Programs::kMaxPrograms,
                       " programs at most: release some");
  }
  absl::flat_hash_set<int64_t> seen;
  size_t handles = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<uint64_t>(numbers[i]);
    if (IsOfRun(number) || programs.Find(number) != nullptr || !seen.insert(numbers[i]).second) {
      return ValueError("[lookup] expects new numbers for programs, got ", number);
    }
    handles += codes[i].held.size();
  }
  if (!state->handles.Reserve(handles)) {
    return MemoryError("[lookup] there is no memory for what the programs capture");
  }
  std::vector<Array> arrays;
  for (const OpenedArray& array : opened.arrays) {
    CHX_ASSIGN_OR_RETURN(Array attached, state->executor.Attach(array.lease, array.spec));
    arrays.push_back(std::move(attached));
  }
  std::vector<std::shared_ptr<Program>> made;
  for (const Code& code : codes) {
    absl::StatusOr<std::shared_ptr<Program>> program = NewProgram(code, arrays, state);
    if (!program.ok()) {
      for (const std::shared_ptr<Program>& other : made) FreeProgram(other.get(), state);
      return program.status();
    }
    (*program)->published = opened.withdrawal;
    made.push_back(*std::move(program));
  }
  for (size_t i = 0; i < made.size(); ++i) {
    programs.Add(static_cast<uint64_t>(numbers[i]), std::move(made[i]));
  }
  return absl::OkStatus();
}

}  // namespace chx::server
