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
  CHX_RETURN_IF_ERROR(Synchronize());
  v1::ShareRequest request;
  request.set_action(v1::ShareRequest::EXPORT);
  request.set_handle(array->handle);
  absl::StatusOr<Connection::Shared> shared = connection_->Share(request, false);
  if (!shared.ok()) {
    if (KindOf(shared.status()) == ErrorKind::kMemory) return none;
    return shared.status();
  }
  ArraySpec spec = array->spec;
  spec.offset = shared->reply.array_offset();
  spec.strides =
      Strides(absl::MakeConstSpan(shared->reply.strides().data(), shared->reply.strides_size()));
  const ByteRange range = BytesTouched(spec);
  if (spec.strides.size() != spec.shape.size() || range.begin < 0 || range.end > shared->bytes) {
    return ChainerxError("chxd shares an array beyond its block");
  }
  return std::make_unique<Export>(array, std::move(shared->mapping), shared->block, shared->bytes,
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
  v1::ShareRequest request;
  request.set_action(v1::ShareRequest::ALIAS);
  request.set_handle(base->handle);
  request.set_dtype(static_cast<uint32_t>(spec.dtype));
  for (int64_t dim : spec.shape) request.add_shape(dim);
  for (int64_t stride : spec.strides) request.add_strides(stride);
  request.set_offset(spec.offset);
  request.set_device(spec.device);
  request.set_new_handle(NewHandle());
  const absl::StatusOr<Connection::Shared> shared = connection_->Share(request, false);
  if (!shared.ok()) {
    // Strides or an offset that kernels could not work with: to be copied.
    if (KindOf(shared.status()) == ErrorKind::kValue) return ArrayPtr();
    return shared.status();
  }
  ArrayPtr array = NewArray(request.new_handle(), spec);
  array->storage = base->storage;
  array->storage_unknown = base->storage_unknown;
  return array;
}

Handle Session::NewHandle() {
  MutexLock lock(&mutex_);
  return next_handle_++;
}

absl::StatusOr<ArrayPtr> Session::UploadShared(absl::string_view data, const ArraySpec& spec) {
  v1::ShareRequest request;
  request.set_action(v1::ShareRequest::ALLOCATE);
  request.set_new_handle(NewHandle());
  request.set_dtype(static_cast<uint32_t>(spec.dtype));
  for (int64_t dim : spec.shape) request.add_shape(dim);
  request.set_device(spec.device);
  const absl::StatusOr<Connection::Shared> shared = connection_->Share(request, true);
  if (!shared.ok()) return shared.status();
  if (shared->bytes < static_cast<int64_t>(data.size())) {
    return ChainerxError("chxd shares a block that is too small");
  }
  CopyBulk(shared->block, data.data(), data.size(), data.size());
  return NewArray(request.new_handle(), spec);
}

absl::Status Session::FetchShared(const ArrayBody& array, void* out, size_t bytes) {
  v1::ShareRequest request;
  request.set_action(v1::ShareRequest::READ);
  request.set_handle(array.handle);
  request.set_new_handle(NewHandle());
  const absl::StatusOr<Connection::Shared> shared = connection_->Share(request, true);
  if (!shared.ok()) return shared.status();
  ArrayPtr copy;  // released at the end
  if (shared->reply.copied()) copy = NewArray(request.new_handle(), ArraySpec(array.spec));
  const int64_t offset = shared->reply.array_offset();
  if (offset < 0 || offset > shared->bytes ||
      static_cast<int64_t>(bytes) > shared->bytes - offset) {
    return ChainerxError("chxd shares an array beyond its block");
  }
  CopyBulk(static_cast<char*>(out), shared->block + offset, bytes, bytes);
  return absl::OkStatus();
}

}  // namespace chx
