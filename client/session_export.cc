// Memory of arrays that the user and the daemon both see.
#include <utility>

#include "client/session.h"
#include "client/waiting.h"
#include "ops/registry.h"

namespace chx {

Export::Export(ArrayPtr array, MappingPtr mapping, char* block, int64_t block_bytes, ArraySpec spec)
    : array_(std::move(array)),
      mapping_(std::move(mapping)),
      block_(block),
      block_bytes_(block_bytes),
      spec_(std::move(spec)) {
  array_->session->exports_.Add(this);
}

Export::~Export() {
  // After a fork another thread may have held the lock.
  if (!array_->session->Forked()) array_->session->exports_.Remove(this);
}

void Exports::Add(const Export* exported) {
  MutexLock lock(&mutex_);
  if (exported->array()->storage_unknown) ++unknown_;
  ++storages_[exported->array()->storage];
  by_address_.emplace(exported->block(), exported);
  ++count_;
}

void Exports::Remove(const Export* exported) {
  MutexLock lock(&mutex_);
  if (exported->array()->storage_unknown) --unknown_;
  auto storage = storages_.find(exported->array()->storage);
  if (--storage->second == 0) storages_.erase(storage);
  auto [it, end] = by_address_.equal_range(exported->block());
  while (it != end && it->second != exported) ++it;
  by_address_.erase(it);
  --count_;
}

bool Exports::Touches(const ArrayBody& array) {
  MutexLock lock(&mutex_);
  return unknown_ != 0 || (array.storage_unknown && !storages_.empty()) ||
         storages_.contains(array.storage);
}

ArrayPtr Exports::Find(const char* begin, const char* end, ArraySpec* spec, const char** block) {
  MutexLock lock(&mutex_);
  auto it = by_address_.upper_bound(begin);
  if (it == by_address_.begin()) return nullptr;
  const Export& exported = *(--it)->second;
  if (end > exported.block() + exported.block_bytes()) return nullptr;
  *spec = exported.spec();
  *block = exported.block();
  return exported.array();
}

absl::Status Session::SynchronizeForExports() {
  const Waiting waiting;
  return Synchronize();
}

bool Session::TouchesExports(absl::Span<const Operand> inputs) {
  for (const Operand& input : inputs) {
    if (input.array() != nullptr && exports_.Touches(*input.array())) return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<Export>> Session::ExportArray(const ArrayPtr& array) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  std::unique_ptr<Export> none;
  if (!connection_->Shares(array->spec.device) || array->spec.size() == 0) return none;
  Command command;
  command.flags = static_cast<uint8_t>(ShareAction::kExport);
  command.handle = array->handle;
  absl::StatusOr<Shared> shared = Share(&command, false);
  // What is exported is read at once: now is the time to tell what went wrong before.
  if (!Interruption::Is(shared.status())) CHX_RETURN_IF_ERROR(connection_->TakeWriteError());
  if (!shared.ok()) {
    if (KindOf(shared.status()) == ErrorKind::kMemory) return none;
    return shared.status();
  }
  ArraySpec spec = array->spec;
  const auto bytes = static_cast<int64_t>(shared->place.bytes);
  spec.offset = shared->place.array_offset;
  spec.strides = shared->place.strides;
  if (spec.strides.size() != spec.shape.size()) {
    return ChainerxError("chxd shares an array of another shape");
  }
  const ByteRange range = BytesTouched(spec);
  if (range.begin < 0 || range.end > bytes) {
    return ChainerxError("chxd shares an array beyond its block");
  }
  return std::make_unique<Export>(array, std::move(shared->mapping), shared->data, bytes,
                                  std::move(spec));
}

absl::StatusOr<ArrayPtr> Session::ImportArray(const char* first, ArraySpec spec) {
  if (!exports_.any() || spec.size() == 0) return ArrayPtr();
  CHX_RETURN_IF_ERROR(CheckUsable());
  spec.offset = 0;
  const ByteRange range = BytesTouched(spec);
  ArraySpec known;
  const char* block = nullptr;
  const ArrayPtr base = exports_.Find(first + range.begin, first + range.end, &known, &block);
  if (!base || known.device != spec.device) return ArrayPtr();
  spec.offset = first - block;
  if (spec.dtype == known.dtype && spec.shape == known.shape && spec.strides == known.strides &&
      spec.offset == known.offset && base->spec.strides == known.strides) {
    static const OpDef& view = *OpRegistry::Global().Find("view");
    const NoBackpropMode no_graph;
    const Operand input(base.get());
    ArrayPtrs outputs;
    bool flush_due = false;
    CHX_RETURN_IF_ERROR(
        Apply(view, absl::MakeConstSpan(&input, 1), {}, spec.device, &outputs, &flush_due));
    return outputs[0];
  }
  Command command;
  command.flags = static_cast<uint8_t>(ShareAction::kAlias);
  command.handle = base->handle;
  command.dtype = spec.dtype;
  command.shape.assign(spec.shape.begin(), spec.shape.end());
  command.shape.insert(command.shape.end(), spec.strides.begin(), spec.strides.end());
  command.shape.push_back(spec.offset);
  command.outputs.push_back(NewHandle());
  const absl::Status aliased = Share(&command, false).status();
  if (!aliased.ok()) {
    // Strides or an offset that kernels could not work with: to be copied.
    if (KindOf(aliased) == ErrorKind::kValue) return ArrayPtr();
    return aliased;
  }
  ArrayPtr array = NewArray(command.outputs[0], spec);
  array->storage = base->storage;
  array->storage_unknown = base->storage_unknown;
  return array;
}

Handle Session::NewHandle() {
  MutexLock lock(&mutex_);
  return next_handle_++;
}

absl::StatusOr<Session::Shared> Session::Share(Command* command, bool populate) {
  command->kind = CommandKind::kShare;
  {
    MutexLock lock(&mutex_);
    command->request_id = next_request_++;
    Write(*command);
  }
  const auto action = static_cast<ShareAction>(command->flags);
  const bool allocates = action == ShareAction::kAllocate;
  const bool interruptible = allocates || action == ShareAction::kExport;
  absl::StatusOr<std::string> answered = AnswerTo(command->request_id, interruptible);
  // What it will have made then.
  if (allocates && Interruption::Is(answered.status())) Released(command->outputs[0], 0);
  CHX_ASSIGN_OR_RETURN(const std::string answer, std::move(answered));
  Shared shared;
  if (action == ShareAction::kAlias) return shared;
  CHX_ASSIGN_OR_RETURN(shared.place, DecodeSharedBlock(answer));
  const auto map = [&]() -> absl::Status {
    CHX_ASSIGN_OR_RETURN(shared.mapping, connection_->MapSegment(shared.place.segment, populate));
    const uint64_t bytes = shared.mapping->bytes();
    if (shared.place.offset > bytes || shared.place.bytes > bytes - shared.place.offset) {
      return ChainerxError("chxd shares a block beyond its segment");
    }
    shared.data = shared.mapping->data() + shared.place.offset;
    return absl::OkStatus();
  };
  const absl::Status mapped = map();
  if (mapped.ok()) return shared;
  if (allocates || shared.place.copied) {
    Released(command->outputs[0], static_cast<int64_t>(shared.place.bytes));
  }
  return mapped;
}

absl::StatusOr<Session::Shared> Session::AllocateShared(const ArraySpec& spec, bool populate,
                                                        Handle* handle) {
  Command command;
  command.flags = static_cast<uint8_t>(ShareAction::kAllocate);
  command.dtype = spec.dtype;
  command.device = spec.device;
  command.shape.assign(spec.shape.begin(), spec.shape.end());
  command.outputs.push_back(*handle = NewHandle());
  absl::StatusOr<Shared> shared = Share(&command, populate);
  if (shared.ok() && static_cast<int64_t>(shared->place.bytes) < spec.nbytes()) {
    shared = ChainerxError("chxd shares a block that is too small");
  }
  return shared;
}

absl::StatusOr<ArrayPtr> Session::UploadShared(absl::string_view data, const ArraySpec& spec) {
  Handle handle = 0;
  CHX_ASSIGN_OR_RETURN(const Shared shared, AllocateShared(spec, true, &handle));
  CopyBulk(shared.data, data.data(), data.size(), data.size());
  return NewArray(handle, spec);
}

absl::Status Session::FetchShared(const ArrayBody& array, void* out, size_t bytes) {
  Command command;
  command.flags = static_cast<uint8_t>(ShareAction::kRead);
  command.handle = array.handle;
  command.outputs.push_back(NewHandle());
  CHX_ASSIGN_OR_RETURN(const Shared shared, Share(&command, true));
  ArrayPtr copy;  // released at the end
  if (shared.place.copied) copy = NewArray(command.outputs[0], ArraySpec(array.spec));
  const uint64_t offset = static_cast<uint64_t>(shared.place.array_offset);
  if (offset > shared.place.bytes || bytes > shared.place.bytes - offset) {
    return ChainerxError("chxd shares an array beyond its block");
  }
  CopyBulk(static_cast<char*>(out), shared.data + offset, bytes, bytes);
  return absl::OkStatus();
}

}  // namespace chx
