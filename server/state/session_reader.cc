#include "server/state/session_reader.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "ops/error.h"
#include "ops/registry.h"
#include "server/state/array_messages.h"
#include "server/state/graph_reader.h"
#include "server/state/program_messages.h"

namespace chx::server {
namespace {

constexpr uint64_t kMaxHeadBytes = 256 << 20;  // with events that no client has acknowledged
constexpr uint64_t kMaxRecordsBytes = 64 << 20;
constexpr int64_t kCopiedAtOnce = 4 << 20;
constexpr int64_t kErrorBytes = 512;  // an error beside its texts

absl::Status CheckDevices(const state::Head& head, const Devices& devices) {
  if (head.devices_size() > devices.size()) {
    return absl::FailedPreconditionError(absl::StrCat("the session expects ", head.devices_size(),
                                                      " devices, got ", devices.size()));
  }
  for (int i = 0; i < head.devices_size(); ++i) {
    if (head.devices(i) == devices.at(i).name()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the session expects ", head.devices(i), " as device ", i, ", got ", devices.at(i).name()));
  }
  return absl::OkStatus();
}

using OperatorNames = google::protobuf::RepeatedPtrField<state::OperatorName>;

// As SessionState::op_ids.
std::vector<uint16_t> IdsFrom(const OperatorNames& names) {
  const OpRegistry& registry = OpRegistry::Global();
  std::vector<uint16_t> ids = {0};
  bool same = names.size() == registry.size();
  for (const state::OperatorName& name : names) {
    const OpDef* const op = registry.Find(name.name());
    const bool known = op != nullptr && op->SignatureHash() == name.hash();
    same = same && known && static_cast<size_t>(op->id) + 1 == ids.size();
    ids.push_back(known ? static_cast<uint16_t>(op->id + 1) : 0);
  }
  return same ? std::vector<uint16_t>() : ids;
}

absl::Status ReadDefinitions(const state::Head& head, SessionState* session) {
  for (uint32_t id : head.scopes()) CHX_RETURN_IF_ERROR(session->scopes.New(id));
  for (const state::Mode& mode : head.modes()) {
    CHX_ASSIGN_OR_RETURN(const command::DefineMode define, DefinitionFrom(mode));
    CHX_RETURN_IF_ERROR(session->definitions.Define(define));
  }
  Settings settings;
  settings.use_cudnn = head.settings().use_cudnn();
  settings.cudnn_deterministic = head.settings().cudnn_deterministic();
  settings.autotune = head.settings().autotune();
  settings.max_workspace_size = std::max<int64_t>(head.settings().max_workspace_size(), 0);
  settings.tf32 = head.settings().tf32();
  settings.cudnn_tf32 = !head.settings().exact_convolutions();
  session->executor.Configure(settings);
  return session->saved.NoteGenerator(head.generator());
}

absl::Status ReadBuffer(const Array& bytes, Executor* executor, PartReader* file) {
  const int64_t size = bytes.spec.nbytes();
  if (executor->devices().shares_memory(bytes.spec.device)) {
    return file->Read(bytes.data(), static_cast<size_t>(size));
  }
  std::string copy;
  for (int64_t begin = 0; begin < size; begin += kCopiedAtOnce) {
    copy.resize(static_cast<size_t>(std::min(kCopiedAtOnce, size - begin)));
    CHX_RETURN_IF_ERROR(file->Read(&copy[0], copy.size()));
    CHX_RETURN_IF_ERROR(executor->CopyIn(bytes, begin, copy));
  }
  return absl::OkStatus();
}

absl::Status ReadBuffers(const state::Head& head, PartReader* file, Executor* executor,
                         GraphReader* graphs) {
  for (const state::Buffer& buffer : head.buffers()) {
    PartKind kind;
    uint64_t size = 0;
    CHX_RETURN_IF_ERROR(file->Next(&kind, &size));
    if (kind != PartKind::kBuffer || size != buffer.bytes() || size > (uint64_t{1} << 60) ||
        buffer.device() >= static_cast<uint32_t>(executor->devices().size())) {
      return Unreadable("memory that is not where it belongs");
    }
    const ArraySpec spec(Dtype::kUint8, Shape({static_cast<int64_t>(size)}),
                         static_cast<DeviceId>(buffer.device()));
    CHX_ASSIGN_OR_RETURN(Array bytes, executor->Allocate(spec));
    CHX_RETURN_IF_ERROR(ReadBuffer(bytes, executor, file));
    CHX_RETURN_IF_ERROR(file->Finish());
    graphs->AddBuffer(std::move(bytes.buffer), spec.device);
    executor->EndUses();  // where the next one has no room, it may move
  }
  return absl::OkStatus();
}

// Reads the parts behind the memory.
class RecordReader {
 public:
  // `op_ids`: of programs, as SessionState::op_ids.
  RecordReader(SessionState* session, GraphReader* graphs, std::vector<uint16_t> op_ids)
      : session_(*session), graphs_(*graphs), op_ids_(std::move(op_ids)) {}

  absl::Status Read(const state::Records& records) {
    for (const state::RootError& error : records.errors()) CHX_RETURN_IF_ERROR(AddError(error));
    for (const state::Location& location : records.locations()) {
      CHX_RETURN_IF_ERROR(
          session_.definitions.Define(command::DefineLocation{location.number(), location.text()}));
    }
    for (const state::GraphItem& item : records.graph()) CHX_RETURN_IF_ERROR(graphs_.Add(item));
    for (const state::Gradient& grad : records.gradients()) CHX_RETURN_IF_ERROR(graphs_.Add(grad));
    for (const state::Handle& handle : records.handles()) CHX_RETURN_IF_ERROR(AddHandle(handle));
    for (const state::Saved& saved : records.saved()) CHX_RETURN_IF_ERROR(AddSaved(saved));
    for (const state::Program& program : records.programs()) {
      CHX_ASSIGN_OR_RETURN(std::unique_ptr<Program> restored,
                           ProgramFrom(program, session_.handles, op_ids_, &owned_by_programs_));
      for (uint64_t number : program.numbers()) CHX_RETURN_IF_ERROR(NoteRunHandle(number));
      CHX_RETURN_IF_ERROR(session_.programs.Restore(program.numbers(), std::move(restored)));
    }
    for (const state::Unread& unread : records.unread()) {
      CHX_ASSIGN_OR_RETURN(const RootErrorPtr error, ErrorOf(unread.error()));
      session_.errors.AddUnread(unread.handle(), error);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AddError(const state::RootError& message) {
    if (message.kind() >= static_cast<uint32_t>(kNumErrorKinds)) return Unreadable("an error");
    auto error = std::make_shared<RootError>();
    CHX_ASSIGN_OR_RETURN(
        error->charge,
        MemoryCharge::Of(session_.account(),
                         static_cast<int64_t>(message.ByteSizeLong()) + kErrorBytes));
    error->status = MakeError(static_cast<ErrorKind>(message.kind()), message.message());
    error->op = message.op();
    error->inputs = message.inputs();
    error->location = message.location();
    error->read = message.read();
    error->absent_gradient = message.absent_gradient();
    errors_.push_back(std::move(error));
    return absl::OkStatus();
  }
  absl::StatusOr<RootErrorPtr> ErrorOf(uint32_t number) const {
    if (number == 0 || number > errors_.size()) return Unreadable("an error's number");
    return errors_[number - 1];
  }
  // Runs get others from now on.
  absl::Status NoteRunHandle(uint64_t handle) {
    if (!IsOfRun(handle)) return absl::OkStatus();
    if (handle - kFirstRunHandle >= kMaxRunHandles) return Unreadable("a handle of a run");
    session_.next_run_handle = std::max(session_.next_run_handle, handle + 1);
    return absl::OkStatus();
  }
  absl::Status AddHandle(const state::Handle& message) {
    const Handle handle = message.handle();
    session_.handles.Reserve(1);
    CHX_RETURN_IF_ERROR(session_.handles.CheckNew({&handle, 1}));
    CHX_RETURN_IF_ERROR(NoteRunHandle(handle));
    if (message.error() != 0) {
      CHX_ASSIGN_OR_RETURN(const RootErrorPtr error, ErrorOf(message.error()));
      session_.handles.BindError(handle, error);
      return absl::OkStatus();
    }
    CHX_ASSIGN_OR_RETURN(Variable variable, graphs_.VariableFrom(message.variable()));
    session_.handles.Bind(handle, std::move(variable));
    return absl::OkStatus();
  }
  absl::Status AddSaved(const state::Saved& message) {
    std::vector<Variable> arrays;
    for (const state::Variable& array : message.arrays()) {
      CHX_ASSIGN_OR_RETURN(Variable variable, graphs_.VariableFrom(array));
      arrays.push_back(std::move(variable));
    }
    std::vector<Variable*> pointers;
    pointers.reserve(arrays.size());
    for (Variable& array : arrays) pointers.push_back(&array);
    CHX_RETURN_IF_ERROR(session_.saved.Save(message.name(), message.tree(), pointers).status());
    session_.saved.RestoreVersion(message.name(), message.version());
    return absl::OkStatus();
  }

  SessionState& session_;
  GraphReader& graphs_;
  const std::vector<uint16_t> op_ids_;
  std::vector<RootErrorPtr> errors_;
  absl::flat_hash_set<Handle> owned_by_programs_;
};

}  // namespace

absl::StatusOr<state::Head> ReadHead(PartReader* file) {
  CHX_ASSIGN_OR_RETURN(const std::string data, file->Take(PartKind::kHead, kMaxHeadBytes));
  state::Head head;
  if (!head.ParseFromString(data)) return Unreadable("its head");
  return head;
}

absl::Status ReadSession(const state::Head& head, PartReader* file, SessionState* session) {
  CHX_RETURN_IF_ERROR(CheckDevices(head, session->executor.devices()));
  CHX_RETURN_IF_ERROR(ReadDefinitions(head, session));
  session->op_ids = IdsFrom(head.ops());
  GraphReader graphs(session);
  CHX_RETURN_IF_ERROR(ReadBuffers(head, file, &session->executor, &graphs));
  RecordReader reader(session, &graphs,
                      head.own_ops().empty() ? session->op_ids : IdsFrom(head.own_ops()));
  for (;;) {
    PartKind kind;
    uint64_t size = 0;
    CHX_RETURN_IF_ERROR(file->Next(&kind, &size));
    if (kind == PartKind::kEnd) break;
    if (kind != PartKind::kRecords || size > kMaxRecordsBytes) return Unreadable("a part");
    std::string data(size, '\0');
    CHX_RETURN_IF_ERROR(file->Read(&data[0], data.size()));
    CHX_RETURN_IF_ERROR(file->Finish());
    state::Records records;
    if (!records.ParseFromString(data)) return Unreadable("records");
    CHX_RETURN_IF_ERROR(reader.Read(records));
  }
  session->graph.freed_functions.assign(head.freed_functions().begin(),
                                        head.freed_functions().end());
  session->saved.set_next_version(head.next_version());
  if (head.lost()) session->handles.LostError();
  // A gradient that nobody can ask for keeps memory, and perhaps its own array's node.
  graphs.DropUnreachable();
  return absl::OkStatus();
}

}  // namespace chx::server
