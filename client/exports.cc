#include "client/exports.h"

#include <utility>

#include "client/command_queue.h"
#include "client/connection.h"
#include "client/modes.h"
#include "client/session.h"
#include "client/shared_memory.h"
#include "client/waiting.h"
#include "ops/error.h"
#include "ops/registry.h"

namespace chx {

Export::Export(ArrayPtr array, MappingPtr mapping, char* block, int64_t block_bytes, ArraySpec spec)
    : array_(std::move(array)),
      mapping_(std::move(mapping)),
      block_(block),
      block_bytes_(block_bytes),
      spec_(std::move(spec)) {
  array_->session->exports().Add(this);
}

Export::~Export() {
  // After a fork another thread may have held the lock.
  if (!array_->session->Forked()) array_->session->exports().Remove(this);
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

bool Exports::Touches(absl::Span<const Operand> inputs) {
  for (const Operand& input : inputs) {
    if (input.is_array() && Touches(*input.array())) return true;
  }
  return false;
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

absl::Status Exports::Synchronize() {
  if (session_.queue().Records()) return absl::OkStatus();  // the end of the recording waits
  const Waiting waiting;
  return session_.Synchronize();
}

absl::StatusOr<std::unique_ptr<Export>> Exports::ExportArray(const ArrayPtr& array) {
  CHX_RETURN_IF_ERROR(session_.queue().CheckUsable());
  std::unique_ptr<Export> none;
  Connection& connection = session_.connection();
  if (!connection.Shares(array->spec.device) || array->spec.size() == 0) return none;
  absl::StatusOr<MappedBlock> mapped = session_.shared_memory().Share(array->handle);
  // What is exported is read at once: now is the time to tell what went wrong before.
  if (!Interruption::Is(mapped.status())) CHX_RETURN_IF_ERROR(connection.TakeWriteError());
  if (!mapped.ok()) {
    if (KindOf(mapped.status()) == ErrorKind::kMemory) return none;
    return mapped.status();
  }
  ArraySpec spec = array->spec;
  const auto bytes = static_cast<int64_t>(mapped->block.bytes);
  spec.offset = mapped->block.array_offset;
  spec.strides = mapped->block.strides;
  if (spec.strides.size() != spec.shape.size()) {
    return ChainerxError("chxd shares an array of another shape");
  }
  const ByteRange range = BytesTouched(spec);
  if (range.begin < 0 || range.end > bytes) {
    return ChainerxError("chxd shares an array beyond its block");
  }
  return std::make_unique<Export>(array, std::move(mapped->mapping), mapped->data, bytes,
                                  std::move(spec));
}

absl::StatusOr<ArrayPtr> Exports::ViewOf(const ArrayBody& array) {
  static const OpDef& view = *OpRegistry::Global().Find("view");
  const NoBackpropMode no_graph;
  const Operand input(&array);
  ArrayPtrs outputs;
  bool flush_due = false;
  CHX_RETURN_IF_ERROR(
      session_.Apply({view, absl::MakeConstSpan(&input, 1), {}}, &outputs, &flush_due));
  return outputs[0];
}

absl::StatusOr<ArrayPtr> Exports::ImportArray(const char* first, ArraySpec spec) {
  if (!any() || spec.size() == 0) return ArrayPtr();
  CHX_RETURN_IF_ERROR(session_.queue().CheckUsable());
  // Of a daemon that has ended: another one goes on with the session, and not with its memory.
  if (!session_.connection().Shares(spec.device)) return ArrayPtr();
  spec.offset = 0;
  const ByteRange range = BytesTouched(spec);
  ArraySpec known;
  const char* block = nullptr;
  const ArrayPtr base = Find(first + range.begin, first + range.end, &known, &block);
  if (!base || known.device != spec.device) return ArrayPtr();
  spec.offset = first - block;
  if (spec.dtype == known.dtype && spec.shape == known.shape && spec.strides == known.strides &&
      spec.offset == known.offset && base->spec.strides == known.strides) {
    return ViewOf(*base);
  }
  const absl::StatusOr<Handle> alias = session_.shared_memory().Alias(base->handle, spec);
  // Strides or an offset that kernels could not work with: to be copied.
  if (KindOf(alias.status()) == ErrorKind::kValue) return ArrayPtr();
  CHX_RETURN_IF_ERROR(alias.status());
  ArrayPtr array = session_.NewArray(*alias, spec);
  array->storage = base->storage;
  array->storage_unknown = base->storage_unknown;
  return array;
}

}  // namespace chx
