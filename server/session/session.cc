#include "server/session/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/registry.h"
#include "server/autograd/backward.h"

namespace chx {
namespace {

constexpr size_t kMaxUnreadErrors = 1000;
constexpr size_t kMaxLocations = 1 << 20;
constexpr size_t kMaxLocationBytes = 1024;
constexpr size_t kMaxModes = 4096;
constexpr size_t kManyFreedFunctions = 1024;

bool IsUpload(const Command& command) {
  return command.kind == CommandKind::kUpload || command.kind == CommandKind::kUploadFrom;
}

std::string Describe(const ApplyInput& input) {
  if (input.variable != nullptr) return input.variable->array.spec.ToString();
  return input.is_scalar ? input.scalar.ToString() : "None";
}

}  // namespace

Session::Session(const Devices* devices, const SessionLimits& limits, bool share)
    : limits_(limits), executor_(devices, limits.memory_bytes, share) {
  // An op node is about a kilobyte.
  graph_.max_op_nodes = std::max<int64_t>(1024, limits.memory_bytes / 1024);
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
  entries_[handle].variable = std::move(variable);
}

void Session::Drop(Variable* variable) {
  // A moved-from InlinedVector keeps its elements, which would be null.
  const Variable dropped = std::exchange(*variable, Variable());
  for (const Ref<ArrayNode>& node : dropped.nodes) {
    if (--node->handles == 0) node->grad = nullptr;
  }
}

void Session::Execute(absl::Span<const Command> window, SessionOutput* output) {
  MutexLock lock(&mutex_);
  FindLastUses(window);
  for (size_t i = 0; i < window.size(); ++i) ExecuteOne(window[i], i, output);
  stats_.commands += static_cast<int64_t>(window.size());
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
  switch (command.kind) {
    case CommandKind::kApplyOp:
      return ApplyOp(command, position, output);
    case CommandKind::kRelease:
      for (Handle handle : command.handles) {
        auto it = entries_.find(handle);
        if (it != entries_.end()) {
          Drop(&it->second.variable);
          entries_.erase(it);
        } else {
          Fail(command, ValueError("[release] expects a handle in use, got ", handle), "release",
               "", output);
        }
      }
      return;
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
      break;
  }
  if (locations_.size() >= kMaxLocations || command.data.size() > kMaxLocationBytes) {
    return MemoryError("[location] expects at most ", kMaxLocations, " places of ",
                       kMaxLocationBytes, " bytes");
  }
  locations_[command.location] = std::string(command.data);
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
  RecordMode mode((command.flags & Command::kRecordByDefault) != 0);
  for (const Command::ModeEntry& entry : command.mode_entries) {
    mode.Set(entry.backprop_id, entry.record);
  }
  modes_.insert_or_assign(command.mode, mode);
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

RootErrorPtr Session::NewRootError(const Command& command, absl::Status status, std::string op,
                                   std::string inputs) {
  auto error = std::make_shared<RootError>();
  error->status = std::move(status);
  error->op = std::move(op);
  error->inputs = std::move(inputs);
  auto it = locations_.find(command.location);
  if (command.location != 0 && it != locations_.end()) error->location = it->second;
  ++stats_.errors;
  return error;
}

void Session::Fail(const Command& command, absl::Status status, std::string op, std::string inputs,
                   SessionOutput* output) {
  RootErrorPtr error = NewRootError(command, std::move(status), std::move(op), std::move(inputs));
  // Only what can be bound is: a handle in use keeps its value.
  Inherit(command, error);
  Handle first = 0;  // of a command that makes nothing
  if (!command.outputs.empty()) {
    first = command.outputs[0];
  } else if (IsUpload(command)) {
    first = command.handle;
  }
  output->errors.push_back({first, error});
  if (unread_errors_.size() < kMaxUnreadErrors) unread_errors_.push_back({first, error});
}

void Session::Inherit(const Command& command, const RootErrorPtr& error) {
  const auto bind = [&](Handle handle) {
    if (handle == 0 || entries_.size() >= static_cast<size_t>(limits_.max_handles)) return;
    auto inserted = entries_.try_emplace(handle);
    if (inserted.second) inserted.first->second.error = error;
  };
  for (Handle handle : command.outputs) bind(handle);
  if (IsUpload(command)) bind(command.handle);
}

absl::StatusOr<Session::Entry*> Session::Use(Handle handle, RootErrorPtr* inherited) {
  Entry* entry = Find(handle);
  if (entry == nullptr) {
    return ValueError("expects a handle of this session, got ", handle);
  }
  if (entry->error != nullptr && *inherited == nullptr) *inherited = entry->error;
  return entry;
}

void Session::ApplyOp(const Command& command, size_t position, SessionOutput* output) {
  const OpRegistry& registry = OpRegistry::Global();
  if (command.op == 0 || command.op > registry.size()) {
    return Fail(command, TypeError("expects an operator id agreed at Open, got ", command.op), "",
                "", output);
  }
  const OpDef& op = registry.at(static_cast<OpId>(command.op - 1));
  absl::InlinedVector<ApplyInput, 4> inputs;
  RootErrorPtr inherited;
  for (const CommandOperand& operand : command.operands) {
    inputs.emplace_back();
    ApplyInput& input = inputs.back();
    if (operand.kind == OperandKind::kArray) {
      absl::StatusOr<Entry*> entry = Use(operand.handle, &inherited);
      if (!entry.ok()) {
        return Fail(command, Annotate(op, entry.status()), op.name, "", output);
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
  if (!new_handles.ok()) return Fail(command, Annotate(op, new_handles), op.name, "", output);
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
    return Fail(command, ValueError("[", op.name, "] expects a defined mode, got ", command.mode),
                op.name, "", output);
  }
  absl::Status status = RunApply(command, op, inputs, *mode);
  if (status.ok()) return;
  std::string specs = absl::StrJoin(inputs, ", ", [](std::string* out, const ApplyInput& input) {
    absl::StrAppend(out, Describe(input));
  });
  Fail(command, std::move(status), op.name, std::move(specs), output);
}

absl::Status Session::Annotate(const OpDef& op, const absl::Status& status) {
  return MakeError(KindOf(status), absl::StrCat("[", op.name, "] ", status.message()));
}

void Session::Poison(Handle handle, const RootErrorPtr& error) {
  Entry* entry = Find(handle);
  if (entry == nullptr || entry->error != nullptr) return;
  Drop(&entry->variable);
  entry->error = error;
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

void Session::Upload(const Command& command, SessionOutput* output) {
  const auto upload = [&]() -> absl::Status {
    const Handle handle = command.handle;
    CHX_RETURN_IF_ERROR(CheckNewHandles({&handle, 1}));
    CHX_RETURN_IF_ERROR(CheckShape("upload", command.shape, command.dtype));
    const ArraySpec spec(command.dtype, Shape(command.shape), command.device);
    absl::string_view data = command.data;
    if (command.kind == CommandKind::kUploadFrom) {
      CHX_ASSIGN_OR_RETURN(const char* const stage, StageOf(command, spec.nbytes()));
      data = absl::string_view(stage, static_cast<size_t>(spec.nbytes()));
    }
    if (spec.nbytes() != static_cast<int64_t>(data.size())) {
      return ValueError("[upload] expects ", spec.nbytes(), " bytes for ", spec.ToString(),
                        ", got ", data.size());
    }
    CHX_ASSIGN_OR_RETURN(Array array, executor_.Allocate(spec));
    CHX_RETURN_IF_ERROR(executor_.CopyIn(array, 0, data));
    Variable variable;
    variable.array = std::move(array);
    Bind(handle, std::move(variable));
    return absl::OkStatus();
  };
  absl::Status status = upload();
  if (!status.ok()) Fail(command, std::move(status), "upload", "", output);
}

void Session::Fetch(const Command& command, SessionOutput* output) {
  SessionOutput::Value value;
  value.request_id = command.request_id;
  const auto fetch = [&]() -> absl::Status {
    CHX_ASSIGN_OR_RETURN(Entry * entry, Use(command.handle, &value.error));
    if (value.error != nullptr) return absl::OkStatus();
    const Array& array = entry->variable.array;
    if (array.spec.nbytes() > limits_.max_inline_bytes) {
      return ValueError("[fetch] expects at most ", limits_.max_inline_bytes, " bytes, got ",
                        array.spec.nbytes(), ": use Download");
    }
    CHX_ASSIGN_OR_RETURN(value.data, executor_.CopyOut(array));
    value.dtype = array.spec.dtype;
    value.shape = array.spec.shape;
    return absl::OkStatus();
  };
  absl::Status status = fetch();
  if (!status.ok()) value.error = NewRootError(command, std::move(status), "fetch", "");
  if (value.error != nullptr) value.error->read = true;
  output->values.push_back(std::move(value));
}

void Session::Barrier(const Command& command, SessionOutput* output) {
  SessionOutput::Value value;
  value.request_id = command.request_id;
  const absl::Status status = executor_.Synchronize();
  if (!status.ok()) value.error = NewRootError(command, status, "barrier", "");
  output->values.push_back(std::move(value));
}

absl::StatusOr<Session::UploadSink> Session::BeginUpload(Handle handle, Dtype dtype,
                                                         absl::Span<const int64_t> shape,
                                                         DeviceId device) {
  MutexLock lock(&mutex_);
  CHX_RETURN_IF_ERROR(CheckNewHandles({&handle, 1}));
  CHX_RETURN_IF_ERROR(CheckShape("upload", shape, dtype));
  UploadSink sink;
  sink.session_ = this;
  sink.handle_ = handle;
  CHX_ASSIGN_OR_RETURN(sink.array_, executor_.Allocate(ArraySpec(dtype, Shape(shape), device)));
  return sink;
}

absl::Status Session::UploadSink::Write(absl::string_view bytes) {
  MutexLock lock(&session_->mutex_);
  CHX_RETURN_IF_ERROR(session_->executor_.CopyIn(array_, written_, bytes));
  written_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::Status Session::UploadSink::Finish() {
  MutexLock lock(&session_->mutex_);
  if (written_ != array_.spec.nbytes()) {
    return ValueError("[upload] expects ", array_.spec.nbytes(), " bytes for ",
                      array_.spec.ToString(), ", got ", written_);
  }
  CHX_RETURN_IF_ERROR(session_->CheckNewHandles({&handle_, 1}));
  Variable variable;
  variable.array = std::move(array_);
  session_->Bind(handle_, std::move(variable));
  return absl::OkStatus();
}

absl::StatusOr<Variable*> Session::Read(Handle handle) {
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(Entry * entry, Use(handle, &inherited));
  if (inherited == nullptr) return &entry->variable;
  inherited->read = true;
  return inherited->status;
}

absl::StatusOr<Session::HostCopy> Session::ReadArray(Handle handle) {
  MutexLock lock(&mutex_);
  CHX_ASSIGN_OR_RETURN(const Variable* const variable, Read(handle));
  HostCopy copy;
  const Array& array = variable->array;
  copy.dtype = array.spec.dtype;
  copy.shape = array.spec.shape;
  CHX_ASSIGN_OR_RETURN(copy.data, executor_.CopyOut(array));
  return copy;
}

std::vector<SessionOutput::Error> Session::UnreadErrors(size_t max) {
  MutexLock lock(&mutex_);
  std::vector<SessionOutput::Error> unread;
  for (const SessionOutput::Error& error : unread_errors_) {
    if (!error.error->read && unread.size() < max) unread.push_back(error);
  }
  return unread;
}

SessionStats Session::stats() {
  MutexLock lock(&mutex_);
  SessionStats stats = stats_;
  stats.handles = static_cast<int64_t>(entries_.size());
  stats.memory_bytes = executor_.account().used();
  return stats;
}

}  // namespace chx
