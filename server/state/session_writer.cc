#include "server/state/session_writer.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/types/optional.h"
#include "ops/error.h"
#include "ops/registry.h"
#include "server/engine/shared_storage.h"
#include "server/state/array_messages.h"
#include "server/state/graph_writer.h"
#include "server/state/program_messages.h"

namespace chx::server {
namespace {

constexpr size_t kRecordsBytes = 256 << 10;     // of a part
constexpr int64_t kCopiedFromDevice = 4 << 20;  // of a device's own memory

// Records that go to the file as they become many.
class RecordStream {
 public:
  explicit RecordStream(PartWriter* file) : file_(*file) {}

  // For one more; Count says how large it is.
  state::Records& Next() {
    if (bytes_ > kRecordsBytes) Flush();
    return records_;
  }
  template <typename Message>
  void Count(const Message& message) {
    bytes_ += message.ByteSizeLong();
  }
  absl::Status End() {
    Flush();
    return status_;
  }

 private:
  void Flush() {
    if (status_.ok()) status_ = file_.Write(PartKind::kRecords, records_.SerializeAsString());
    records_.Clear();
    bytes_ = 0;
  }

  PartWriter& file_;
  state::Records records_;
  size_t bytes_ = 0;
  absl::Status status_;
};

// Root errors are shared by all who inherit them.
class ErrorTable {
 public:
  explicit ErrorTable(RecordStream* records) : records_(*records) {}

  uint32_t Number(const RootErrorPtr& error) {
    const auto [it, inserted] =
        numbers_.try_emplace(error.get(), static_cast<uint32_t>(numbers_.size() + 1));
    if (!inserted) return it->second;
    state::RootError* const message = records_.Next().add_errors();
    message->set_kind(static_cast<uint32_t>(KindOf(error->status)));
    message->set_message(std::string(error->status.message()));
    message->set_op(error->op);
    message->set_inputs(error->inputs);
    message->set_location(error->location);
    message->set_read(error->read);
    message->set_absent_gradient(error->absent_gradient);
    records_.Count(*message);
    return it->second;
  }

 private:
  RecordStream& records_;
  absl::flat_hash_map<const RootError*, uint32_t> numbers_;
};

using OperatorNames = google::protobuf::RepeatedPtrField<state::OperatorName>;

// As SessionState::op_ids has them.
void AddOperators(const std::vector<uint16_t>& op_ids, OperatorNames* names) {
  const OpRegistry& registry = OpRegistry::Global();
  const bool own = op_ids.empty();
  const int count = own ? registry.size() : static_cast<int>(op_ids.size()) - 1;
  for (int id = 1; id <= count; ++id) {
    const int here = own ? id : op_ids[static_cast<size_t>(id)];
    state::OperatorName* const name = names->Add();
    if (here == 0) continue;
    const OpDef& op = registry.at(static_cast<OpId>(here - 1));
    name->set_name(op.name);
    name->set_hash(op.SignatureHash());
  }
}

void AddDefinitions(SessionState* session, state::Head* head) {
  for (BackpropId id : session->scopes.Ids()) head->add_scopes(id);
  std::sort(head->mutable_scopes()->begin(), head->mutable_scopes()->end());
  for (const auto& [number, mode] : session->definitions.modes()) {
    ToMessage(number, mode, head->add_modes());
  }
  const Settings& settings = session->executor.settings();
  state::Settings* const message = head->mutable_settings();
  message->set_use_cudnn(settings.use_cudnn);
  message->set_cudnn_deterministic(settings.cudnn_deterministic);
  message->set_autotune(settings.autotune);
  message->set_max_workspace_size(settings.max_workspace_size);
  message->set_tf32(settings.tf32);
  message->set_exact_convolutions(!settings.cudnn_tf32);
}

absl::Status WriteBuffer(const BufferTable::Entry& entry, Executor* executor, PartWriter* file) {
  // Other sessions write to what this one shares, between two commands of theirs not.
  SharedUse use;
  if (entry.buffer->lease()) {
    use.Add(entry.buffer->lease(), false);
    CHX_RETURN_IF_ERROR(use.Begin("snapshot"));
  }
  CHX_RETURN_IF_ERROR(file->Begin(PartKind::kBuffer, static_cast<uint64_t>(entry.bytes)));
  if (executor->devices().shares_memory(entry.device)) {
    CHX_RETURN_IF_ERROR(file->Append({entry.buffer->data(), static_cast<size_t>(entry.bytes)}));
    return file->Finish();
  }
  const Array bytes = {entry.buffer, ArraySpec(Dtype::kUint8, Shape({entry.bytes}), entry.device)};
  std::string copy;
  for (int64_t begin = 0; begin < entry.bytes; begin += kCopiedFromDevice) {
    copy.resize(static_cast<size_t>(std::min(kCopiedFromDevice, entry.bytes - begin)));
    CHX_RETURN_IF_ERROR(
        executor->CopyOut(bytes, begin, static_cast<int64_t>(copy.size()), &copy[0]));
    CHX_RETURN_IF_ERROR(file->Append(copy));
  }
  return file->Finish();
}

// Those that are written: not what a recording that has not ended holds. Between two of its steps a
// run has only what it needs.
class KeptHandles {
 public:
  explicit KeptHandles(const Programs& programs) {
    programs.ForEach([this](uint64_t /*number*/, const Program& program) {
      if (program.published != nullptr) return;
      for (const Program::Held& held : program.held) owned_.insert(held.own);
    });
  }
  bool contains(Handle handle) const {
    return !IsOfProgram(handle) || IsOfRun(handle) || owned_.contains(handle);
  }

 private:
  absl::flat_hash_set<Handle> owned_;
};

// What is written of a session's arrays. Not those that it has of other sessions, and what depends
// on them: `whole`, which has all, says which these are.
class Contents {
 public:
  Contents(SessionState* session, const KeptHandles& kept, const Contents* whole)
      : graphs_(&buffers_, whole == nullptr ? nullptr : &whole->graphs_), whole_(whole) {
    session->handles.ForEach([&](Handle handle, const HandleTable::Entry& entry) {
      if (entry.error == nullptr && kept.contains(handle) && Has(entry.variable)) {
        graphs_.Add(entry.variable);
      }
    });
    for (const auto& [name, entry] : session->saved.entries()) {
      if (!HasAll(entry.arrays)) continue;
      for (const Variable& array : entry.arrays) graphs_.Add(array);
    }
  }
  Contents(const Contents&) = delete;

  bool FindBorrowed() { return graphs_.FindBorrowed(); }
  bool Has(const Variable& variable) const {
    return whole_ == nullptr || !whole_->graphs_.Borrows(variable);
  }
  bool HasAll(const std::vector<Variable>& variables) const {
    return std::all_of(variables.begin(), variables.end(),
                       [this](const Variable& variable) { return Has(variable); });
  }
  const GraphTable& graphs() const { return graphs_; }
  const BufferTable& buffers() const { return buffers_; }

 private:
  BufferTable buffers_;
  GraphTable graphs_;
  const Contents* const whole_;
};

RootErrorPtr BorrowedError() {
  auto error = std::make_shared<RootError>();
  error->op = "snapshot";
  error->status = MakeError(ErrorKind::kContext,
                            "[snapshot] the daemon has been restarted since, and keeps no arrays "
                            "that a session has of others, nor what their graphs need: open or "
                            "look them up again");
  return error;
}

absl::Status WriteRecords(SessionState* session, const KeptHandles& kept, const Contents& contents,
                          PartWriter* file) {
  const GraphTable& graphs = contents.graphs();
  const RootErrorPtr borrowed = BorrowedError();
  RecordStream records(file);
  ErrorTable errors(&records);
  for (const auto& [number, text] : session->definitions.locations()) {
    state::Location* const message = records.Next().add_locations();
    message->set_number(number);
    message->set_text(text);
    records.Count(*message);
  }
  graphs.Items([&](state::GraphItem item) {
    records.Count(item);
    *records.Next().add_graph() = std::move(item);
  });
  graphs.Gradients([&](state::Gradient gradient) {
    records.Count(gradient);
    *records.Next().add_gradients() = std::move(gradient);
  });
  session->handles.ForEach([&](Handle handle, const HandleTable::Entry& entry) {
    if (!kept.contains(handle)) return;
    state::Handle message;
    message.set_handle(handle);
    if (entry.error != nullptr) {
      message.set_error(errors.Number(entry.error));
    } else if (!contents.Has(entry.variable)) {
      message.set_error(errors.Number(borrowed));
    } else {
      graphs.Fill(entry.variable, message.mutable_variable());
    }
    records.Count(message);
    *records.Next().add_handles() = std::move(message);
  });
  absl::flat_hash_map<const Program*, std::vector<uint64_t>> programs;
  session->programs.ForEach([&programs](uint64_t number, const Program& program) {
    programs[&program].push_back(number);
  });
  for (auto& [program, numbers] : programs) {
    const bool whole =
        std::all_of(program->held.begin(), program->held.end(),
                    [&](const Program::Held& held) { return session->handles.contains(held.own); });
    if (!whole) continue;  // a client has released what was not its own
    std::sort(numbers.begin(), numbers.end());
    state::Program message;
    ToMessage(numbers, *program, &message);
    records.Count(message);
    *records.Next().add_programs() = std::move(message);
  }
  for (const auto& [name, entry] : session->saved.entries()) {
    if (!contents.HasAll(entry.arrays)) continue;
    state::Saved message;
    message.set_name(name);
    message.set_tree(entry.tree);
    message.set_version(entry.version);
    for (const Variable& array : entry.arrays) graphs.Fill(array, message.add_arrays());
    records.Count(message);
    *records.Next().add_saved() = std::move(message);
  }
  for (const SessionOutput::Error& unread : session->errors.unread()) {
    if (unread.error->read) continue;
    const uint32_t number = errors.Number(unread.error);
    state::Unread* const message = records.Next().add_unread();
    message->set_handle(unread.handle);
    message->set_error(number);
    records.Count(*message);
  }
  return records.End();
}

}  // namespace

absl::Status WriteSession(SessionState* session, state::Head head, PartWriter* file) {
  CHX_RETURN_IF_ERROR(session->executor.Synchronize());
  session->handles.MakeGraphs();
  const KeptHandles kept(session->programs);
  Contents whole(session, kept, nullptr);
  absl::optional<Contents> own;
  if (whole.FindBorrowed()) own.emplace(session, kept, &whole);
  const Contents& contents = own.has_value() ? *own : whole;
  const BufferTable& buffers = contents.buffers();
  AddOperators(session->op_ids, head.mutable_ops());
  if (!session->op_ids.empty()) AddOperators({}, head.mutable_own_ops());
  AddDefinitions(session, &head);
  head.set_generator(session->saved.generator());
  for (uint64_t number : session->graph.freed_functions) head.add_freed_functions(number);
  head.set_next_version(session->saved.next_version());
  head.set_lost(session->handles.lost());
  const Devices& devices = session->executor.devices();
  for (int i = 0; i < devices.size(); ++i) head.add_devices(devices.at(i).name());
  for (const BufferTable::Entry& entry : buffers.entries()) {
    state::Buffer* const message = head.add_buffers();
    message->set_device(entry.device);
    message->set_bytes(static_cast<uint64_t>(entry.bytes));
  }
  CHX_RETURN_IF_ERROR(file->Write(PartKind::kHead, head.SerializeAsString()));
  for (const BufferTable::Entry& entry : buffers.entries()) {
    CHX_RETURN_IF_ERROR(WriteBuffer(entry, &session->executor, file));
  }
  CHX_RETURN_IF_ERROR(WriteRecords(session, kept, contents, file));
  return file->End();
}

}  // namespace chx::server
