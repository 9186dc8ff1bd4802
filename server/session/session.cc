#include "server/session/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/registry.h"
#include "server/autograd/backward.h"
#include "server/session/command_traits.h"

namespace chx {
namespace {

constexpr size_t kMaxLocations = 1 << 20;
constexpr size_t kMaxLocationBytes = 1024;
constexpr size_t kMaxModes = 4096;
constexpr size_t kMaxModeEntries = 4096;
constexpr size_t kManyFreedFunctions = 1024;
// Releases in one window beyond which nobody asks which use was an array's last.
constexpr size_t kManyReleases = 4096;
// Operands of one command from which on what it takes while it runs is charged, and what that is
// for each.
constexpr size_t kManyOperands = 256;
constexpr int64_t kOperandBytes = 1024;
constexpr size_t kMaxDescribed = 16;  // inputs

std::string Describe(const ApplyInput& input) {
  if (input.variable != nullptr) return input.variable->array.spec.ToString();
  return input.is_scalar ? input.scalar.ToString() : "None";
}

std::string DescribeAll(absl::Span<const ApplyInput> inputs) {
  std::string text = absl::StrJoin(
      inputs.subspan(0, kMaxDescribed), ", ",
      [](std::string* out, const ApplyInput& input) { absl::StrAppend(out, Describe(input)); });
  if (inputs.size() > kMaxDescribed) {
    absl::StrAppend(&text, ", ... (", inputs.size(), " inputs)");
  }
  return text;
}

}  // namespace

Session::Session(const Devices* devices, const SessionLimits& limits, bool share,
                 MemoryAccountPtr account)
    : limits_(limits),
      stop_(limits.max_command_time),
      meter_(account != nullptr ? std::move(account)
                                : std::make_shared<MemoryAccount>(limits.memory_bytes)),
      executor_(devices, meter_.account(), share) {
  meter_.set_reclaim([this] { return executor_.Trim(); });
}

Session::~Session() {
  MutexLock lock(&mutex_);
  for (auto& [handle, entry] : entries_) Drop(&entry.variable);
  entries_.clear();
}

void Session::Bind(Handle handle, Variable variable) {
  for (const Ref<ArrayNode>& node : variable.nodes) {
    ++node->handles;
    if (node->id != 0) NoteMember(node->id, handle);
  }
  meter_.Charge(variable.HeapBytes());
  entries_[handle].variable = std::move(variable);
}

void Session::Drop(Variable* variable) {
  // A moved-from InlinedVector keeps its elements, which would be null.
  const Variable dropped = std::exchange(*variable, Variable());
  meter_.Release(dropped.HeapBytes());
  for (const Ref<ArrayNode>& node : dropped.nodes) {
    if (--node->handles == 0) node->grad = nullptr;
  }
}

void Session::Execute(absl::Span<const Command> window, SessionOutput* output, uint64_t batch) {
  MutexLock lock(&mutex_);
  const ComputeSlots::Turn turn(limits_.compute_slots, &computed_, &stop_);
  const StopScope scope(&stop_);
  FindLastUses(window);
  int64_t commands = counters_.commands.load(std::memory_order_relaxed);
  for (size_t i = 0; i < window.size(); ++i) {
    const StopReason reason = stop_.Begin(batch);
    if (reason == StopReason::kEnded) break;
    if (reason == StopReason::kCancelled) {
      CancelOne(window[i], i, output);
    } else {
      ExecuteOne(window[i], i, output);
    }
    counters_.commands.store(++commands, std::memory_order_relaxed);
    CountHandles();
  }
  stop_.End();
  // With what is sent anyway, or when there are many.
  std::vector<uint64_t>& freed = graph_.freed_functions;
  if (!output->values.empty() || freed.size() >= kManyFreedFunctions) {
    output->freed_functions.insert(output->freed_functions.end(), freed.begin(), freed.end());
    freed.clear();
  }
}

// For each handle that the window releases: which command is the last to name it before.
void Session::FindLastUses(absl::Span<const Command> window) {
  last_uses_.clear();
  for (const Command& command : window) {
    if (command.kind != CommandKind::kRelease) continue;
    if (last_uses_.size() + command.handles.size() > kManyReleases) {
      last_uses_.clear();
      return;
    }
    for (Handle handle : command.handles) last_uses_.emplace(handle, kNever);
  }
  if (last_uses_.empty()) return;
  for (size_t i = 0; i < window.size(); ++i) {
    const Command& command = window[i];
    if (command.kind == CommandKind::kRelease) continue;
    const auto use = [&](Handle handle) {
      auto it = last_uses_.find(handle);
      if (it != last_uses_.end()) it->second = i;
    };
    use(command.handle);
    for (const CommandOperand& operand : command.operands) use(operand.handle);
    for (Handle handle : command.handles) use(handle);
  }
}

void Session::ExecuteOne(const Command& command, size_t position, SessionOutput* output) {
  // Before anything points to an entry: the table may move. Who binds looks whether there is room.
  const size_t new_handles = command.outputs.size() + (IsUpload(command) ? 1 : 0);
  if (!entries_.HasRoom(new_handles) && !entries_.Reserve(new_handles)) LostError();
  switch (command.kind) {
    case CommandKind::kApplyOp:
      return ApplyOp(command, position, output);
    case CommandKind::kRelease:
      return Release(command, output);
    case CommandKind::kUpload:
    case CommandKind::kUploadFrom:
      return Upload(command, output);
    case CommandKind::kFetchInto:
      return FetchInto(command, output);
    case CommandKind::kFetch:
      return Fetch(command, output);
    case CommandKind::kBarrier:
      return Barrier(command, output);
    case CommandKind::kShare:
      return Share(command, output);
    case CommandKind::kBackward:
    case CommandKind::kGrad:
      return StartWalk(command, output);
    case CommandKind::kResumeWalk:
      return ResumeWalk(command, output);
    case CommandKind::kSetGrad:
      return SetGrad(command, output);
    case CommandKind::kGetGrad:
      return GetGrad(command, output);
    case CommandKind::kGraphState:
      return AskGraphState(command, output);
    case CommandKind::kDumpGraph:
      return DumpGraph(command, output);
    case CommandKind::kUnchain:
    case CommandKind::kRequireGrad:
    case CommandKind::kNewBackpropId:
    case CommandKind::kReleaseBackpropId:
    case CommandKind::kDefineMode:
    case CommandKind::kDefineLocation:
    case CommandKind::kConfigure:
    case CommandKind::kRecordFunction:
    case CommandKind::kEnterFunction:
    case CommandKind::kAbandonWalk:
      break;
  }
  const absl::Status status = Administer(command);
  if (!status.ok()) Fail(command, status, "", "", output);
}

void Session::Release(const Command& command, SessionOutput* output) {
  size_t unknown = 0;
  Handle first = 0;
  for (Handle handle : command.handles) {
    auto it = entries_.find(handle);
    if (it != entries_.end()) {
      Drop(&it->second.variable);
      entries_.erase(it);
    } else if (unknown++ == 0) {
      first = handle;
    }
  }
  if (unknown == 0 || lost_.error != nullptr) return;
  Fail(command,
       ValueError("[release] expects a handle in use, got ", first,
                  unknown == 1 ? "" : absl::StrCat(" and ", unknown - 1, " more")),
       "release", "", output);
}

absl::Status Session::Administer(const Command& command) {
  switch (command.kind) {
    case CommandKind::kRequireGrad:
      return RequireGrad(command);
    case CommandKind::kNewBackpropId:
      return NewBackpropId(command.backprop_id);
    case CommandKind::kReleaseBackpropId:
      return ReleaseBackpropId(command.backprop_id);
    case CommandKind::kUnchain:
      return Unchain(command);
    case CommandKind::kDefineMode:
      return DefineMode(command);
    case CommandKind::kConfigure:
      return Configure(command);
    case CommandKind::kRecordFunction:
      return RecordFunction(command);
    case CommandKind::kEnterFunction:
      return EnterFunction(command);
    case CommandKind::kAbandonWalk:
      return AbandonWalk(command);
    default:
      return DefineLocation(command);
  }
}

absl::Status Session::DefineLocation(const Command& command) {
  if (locations_.size() >= kMaxLocations || command.data.size() > kMaxLocationBytes) {
    return MemoryError("[location] expects at most ", kMaxLocations, " places of ",
                       kMaxLocationBytes, " bytes");
  }
  const int64_t bytes = TextBytes(command.data.size());
  if (!locations_.Reserve(1) || !meter_.TryCharge(bytes)) {
    return MemoryError("[location] ", meter_.Exhausted(bytes).message());
  }
  std::string& text = locations_[command.location];
  meter_.Release(TextBytes(text.size()));
  text = std::string(command.data);
  return absl::OkStatus();
}

absl::Status Session::Configure(const Command& command) {
  if (command.operands.size() != 1 || command.operands[0].kind == OperandKind::kAbsent ||
      command.operands[0].kind == OperandKind::kArray) {
    return ValueError("[configure] expects one number, got ", command.operands.size(),
                      " operands of other kinds");
  }
  Settings settings = executor_.settings();
  CHX_RETURN_IF_ERROR(ChangeSetting(command.data, command.operands[0].scalar, &settings));
  executor_.Configure(settings);
  return absl::OkStatus();
}

absl::Status Session::DefineMode(const Command& command) {
  if (command.mode == 0 || modes_.size() >= kMaxModes) {
    return ValueError("[mode] expects a number from 1 to ", kMaxModes, ", got ", command.mode);
  }
  if (command.mode_entries.size() > kMaxModeEntries) {
    return ValueError("[mode] expects at most ", kMaxModeEntries, " graphs, got ",
                      command.mode_entries.size());
  }
  RecordMode mode((command.flags & Command::kRecordByDefault) != 0);
  for (const Command::ModeEntry& entry : command.mode_entries) {
    mode.Set(entry.backprop_id, entry.record);
  }
  const int64_t bytes = mode.HeapBytes();
  if (!modes_.Reserve(1) || !meter_.TryCharge(bytes)) {
    return MemoryError("[mode] ", meter_.Exhausted(bytes).message());
  }
  const auto [it, inserted] = modes_.try_emplace(command.mode, mode);
  if (inserted) return absl::OkStatus();
  meter_.Release(it->second.HeapBytes());
  it->second = mode;
  return absl::OkStatus();
}

Session::Entry* Session::Find(Handle handle) {
  auto it = entries_.find(handle);
  return it == entries_.end() ? nullptr : &it->second;
}

absl::Status Session::CheckNewHandles(absl::Span<const Handle> handles) {
  if (entries_.size() + handles.size() > static_cast<size_t>(limits_.max_handles)) {
    return MemoryError("the session holds ", entries_.size(), " handles, which is the limit");
  }
  if (!entries_.HasRoom(handles.size())) {
    return meter_.Exhausted(static_cast<int64_t>(handles.size() * sizeof(Entry)));
  }
  for (size_t i = 0; i < handles.size(); ++i) {
    const bool repeated =
        std::find(handles.begin(), handles.begin() + i, handles[i]) != handles.begin() + i;
    if (handles[i] == 0 || repeated || entries_.contains(handles[i])) {
      return ValueError("expects a new handle for each output, got ", handles[i],
                        handles[i] == 0 ? "" : ", which is in use");
    }
  }
  return absl::OkStatus();
}

const RecordMode* Session::ModeOf(uint16_t mode) const {
  static const RecordMode* const all = new RecordMode(RecordMode::All());
  if (mode == 0) return all;
  auto it = modes_.find(mode);
  return it == modes_.end() ? nullptr : &it->second;
}

absl::StatusOr<Session::Entry*> Session::Use(Handle handle, RootErrorPtr* inherited) {
  Entry* entry = Find(handle);
  if (entry == nullptr && lost_.error != nullptr && handle != 0) entry = &lost_;
  if (entry == nullptr) {
    return ValueError("expects a handle of this session, got ", handle);
  }
  if (entry->error != nullptr && *inherited == nullptr) *inherited = entry->error;
  return entry;
}

void Session::ApplyOp(const Command& command, size_t position, SessionOutput* output) {
  const OpDef* const named = OpOf(command);
  if (named == nullptr) {
    Fail(command, TypeError("expects an operator id agreed at Open, got ", command.op), "", "",
         output);
    return;
  }
  const OpDef& op = *named;
  MemoryCharge charge;
  if (command.operands.size() > kManyOperands) {
    absl::StatusOr<MemoryCharge> charged =
        MemoryCharge::Of(account(), static_cast<int64_t>(command.operands.size()) * kOperandBytes);
    if (!charged.ok()) {
      Fail(command, Annotate(op, charged.status()), op.name, "", output);
      return;
    }
    charge = *std::move(charged);
  }
  absl::InlinedVector<ApplyInput, 4> inputs;
  RootErrorPtr inherited;
  for (const CommandOperand& operand : command.operands) {
    inputs.emplace_back();
    ApplyInput& input = inputs.back();
    if (operand.kind == OperandKind::kArray) {
      absl::StatusOr<Entry*> entry = Use(operand.handle, &inherited);
      if (!entry.ok()) {
        Fail(command, Annotate(op, entry.status()), op.name, "", output);
        return;
      }
      input.variable = &(*entry)->variable;
      if (!last_uses_.empty()) {
        auto it = last_uses_.find(operand.handle);
        input.dying = it != last_uses_.end() && it->second == position;
      }
    } else if (operand.kind != OperandKind::kAbsent) {
      input.is_scalar = true;
      input.scalar = operand.scalar;
    }
  }
  const absl::Status new_handles = CheckNewHandles(command.outputs);
  if (!new_handles.ok()) {
    Fail(command, Annotate(op, new_handles), op.name, "", output);
    return;
  }
  if (inherited != nullptr) {
    if (op.has_lists() && op.in_place) {
      // One bad gradient does not cost all parameters their values: nothing is written.
      output->errors.push_back({0, inherited});
    } else if (op.in_place && !command.operands.empty()) {
      // What would have been written has no value either.
      Poison(command.operands[0].handle, inherited);
    }
    return Inherit(command, inherited);
  }
  const RecordMode* mode = ModeOf(command.mode);
  if (mode == nullptr) {
    Fail(command, ValueError("[", op.name, "] expects a defined mode, got ", command.mode), op.name,
         "", output);
    return;
  }
  absl::Status status = RunApply(command, op, inputs, *mode);
  if (status.ok()) return;
  const RootErrorPtr error = Fail(command, std::move(status), op.name, DescribeAll(inputs), output);
  if (stop_.noticed()) PoisonWritten(command, op, error);
}

const OpDef* Session::OpOf(const Command& command) {
  const OpRegistry& registry = OpRegistry::Global();
  const bool known = command.op != 0 && command.op <= registry.size();
  return known ? &registry.at(static_cast<OpId>(command.op - 1)) : nullptr;
}

absl::Status Session::RunApply(const Command& command, const OpDef& op,
                               absl::Span<const ApplyInput> inputs, const RecordMode& mode) {
  Runtime runtime{executor_, graph_};
  ApplyOutputs outputs;
  CHX_RETURN_IF_ERROR(Apply(runtime, op, inputs, command.attrs, command.device, mode, &outputs));
  if (outputs.size() != command.outputs.size()) {
    return TypeError("[", op.name, "] makes ", outputs.size(), " outputs, got handles for ",
                     command.outputs.size());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Bind(command.outputs[i], std::move(outputs[i]));
  }
  return absl::OkStatus();
}

}  // namespace chx
