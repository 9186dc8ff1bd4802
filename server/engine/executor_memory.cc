// The executor's part about memory: what is copied in and out, shared with the client, given back.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/engine/executor.h"
#include "server/engine/memory_size.h"

namespace chx::server {
namespace {

constexpr int64_t kAlignment = 64;  // of arrays

absl::Status TooLarge(int64_t bytes, absl::string_view where, int64_t limit) {
  return MemoryError("a run needs ", FormatMemorySize(bytes), " at once", where,
                     ", more than the limit of ", FormatMemorySize(limit));
}

}  // namespace

absl::Status Executor::Restore(const Array& array) {
  const DeviceState& state = states_[array.spec.device];
  for (;;) {
    absl::Status status = state.pool->Restore(array.buffer);
    if (status.ok() || !ReclaimFromOthers(state, status, array.buffer->bytes())) return status;
  }
}

absl::StatusOr<void*> Executor::Allocate(size_t bytes) {
  const auto rounded = (static_cast<int64_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  scratch_bytes_ += rounded;
  if (rounded <= static_cast<int64_t>(scratch_room_.size())) {
    char* const data = scratch_room_.data();
    scratch_room_.remove_prefix(static_cast<size_t>(rounded));
    return static_cast<void*>(data);
  }
  // Other memory would be somebody else's when the sequence is repeated.
  if (captures_) return absl::UnimplementedError("a kernel takes more memory than before");
  CHX_ASSIGN_OR_RETURN(Ref<Buffer> buffer, NewBuffer(*current_, static_cast<int64_t>(bytes)));
  scratch_.push_back(std::move(buffer));
  return static_cast<void*>(scratch_.back()->data());
}

absl::StatusOr<Array> Executor::Allocate(const ArraySpec& contiguous) {
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(contiguous.device));
  Array array;
  CHX_ASSIGN_OR_RETURN(array.buffer, NewBuffer(*state, contiguous.nbytes()));
  array.spec = contiguous;
  return array;
}

absl::StatusOr<Array> Executor::Cast(const Array& array, Dtype dtype) {
  CHX_ASSIGN_OR_RETURN(Array result,
                       Allocate(ArraySpec(dtype, array.spec.shape, array.spec.device)));
  const AttrValue attr(dtype);
  CHX_RETURN_IF_ERROR(RunUnary("astype", array, result, absl::MakeConstSpan(&attr, 1)));
  return result;
}

absl::StatusOr<Array> Executor::Copy(const Array& array) {
  CHX_ASSIGN_OR_RETURN(Array result,
                       Allocate(ArraySpec(array.spec.dtype, array.spec.shape, array.spec.device)));
  CHX_RETURN_IF_ERROR(RunUnary("copy", array, result, {}));
  return result;
}

absl::StatusOr<Array> Executor::Contiguous(const Array& array) {
  return array.spec.is_contiguous() ? array : Copy(array);
}

absl::StatusOr<Array> Executor::AllocateShared(const ArraySpec& contiguous) {
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(contiguous.device));
  Array array;
  // Half of the segments are kept for Share, in whose place no copy will do.
  if (segments_.size() >= Segments::kMaxSegments / 2) {
    return MemoryError("[share] the session has many segments of shared memory");
  }
  CHX_ASSIGN_OR_RETURN(array.buffer, state->pool->AllocateShared(contiguous.nbytes()));
  array.spec = contiguous;
  return array;
}

absl::Status Executor::Share(const Array& array) {
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(array.spec.device));
  CHX_RETURN_IF_ERROR(state->stream->Synchronize());
  if (!array.buffer->lease()) return state->pool->Share(array.buffer);
  SharedUse use;
  use.Add(array.buffer->lease(), false);
  CHX_RETURN_IF_ERROR(use.Begin("share"));
  return segments_.AddStorage(use.first());
}

absl::Status Executor::Unshare(const Array& array) {
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(array.spec.device));
  return state->pool->Unshare(array.buffer);
}

absl::StatusOr<Array> Executor::SharedContiguous(const Array& array) {
  if (array.buffer->shared() && array.spec.is_contiguous()) {
    array.buffer->set_exported();  // the client is going to read it
    return array;
  }
  CHX_ASSIGN_OR_RETURN(Array result, AllocateShared(ArraySpec(array.spec.dtype, array.spec.shape,
                                                              array.spec.device)));
  SharedUse use;
  CHX_RETURN_IF_ERROR(HoldOne("share", array, &use));
  CHX_RETURN_IF_ERROR(RunUnary("copy", array, result, {}));
  CHX_RETURN_IF_ERROR(Synchronize());
  return result;
}

absl::Status Executor::CopyIn(const Array& contiguous, int64_t offset, absl::string_view bytes) {
  if (offset + static_cast<int64_t>(bytes.size()) > contiguous.spec.nbytes()) {
    return ValueError("[upload] expects ", contiguous.spec.nbytes(), " bytes, got more");
  }
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(contiguous.spec.device));
  return state->pool->CopyIn(contiguous.buffer.get(), contiguous.spec.offset + offset, bytes);
}

absl::StatusOr<std::string> Executor::CopyOut(const Array& array) {
  // A view may have more elements than there is memory.
  if (array.spec.nbytes() > account_->limit()) {
    return MemoryError("[fetch] expects at most ", account_->limit(), " bytes, got ",
                       array.spec.ToString());
  }
  std::string bytes(array.spec.nbytes(), '\0');
  CHX_RETURN_IF_ERROR(CopyOut(array, 0, array.spec.nbytes(), &bytes[0]));
  return bytes;
}

absl::Status Executor::CopyOut(const Array& array, int64_t begin, int64_t bytes, char* out) {
  SharedUse use;
  CHX_RETURN_IF_ERROR(HoldOne("fetch", array, &use));
  CHX_ASSIGN_OR_RETURN(Array contiguous, Contiguous(array));
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(array.spec.device));
  return state->pool->CopyOut(*contiguous.buffer, contiguous.spec.offset + begin, bytes, out);
}

absl::Status Executor::RunTransfer(const OpDef& op, const Array& input, const ArraySpec& spec,
                                   RunOutputs* outputs) {
  if (spec.device >= states_.size()) {
    return DeviceError("[", op.name, "] expects a device number below ", states_.size(), ", got ",
                       spec.device);
  }
  if (spec.device == input.spec.device) {
    outputs->push_back(input);
    return absl::OkStatus();
  }
  CHX_ASSIGN_OR_RETURN(Array array, Allocate(spec));
  CHX_ASSIGN_OR_RETURN(const bool copied, CopyAcross(op.name, input, array));
  if (!copied) {
    const int64_t bytes = spec.nbytes();
    CHX_ASSIGN_OR_RETURN(const MemoryCharge charge,
                         MemoryCharge::Of(account_, bytes, MemoryUse::kTransfers));
    CHX_ASSIGN_OR_RETURN(const std::string elements, CopyOut(input));
    CHX_RETURN_IF_ERROR(CopyIn(array, 0, elements));
  }
  // If there was a wait.
  if (const absl::optional<LateError> late = TakeLateError(input.spec.device)) return late->status;
  if (observer_ != nullptr) observer_->Transferred();
  outputs->push_back(std::move(array));
  return absl::OkStatus();
}

absl::StatusOr<bool> Executor::CopyAcross(absl::string_view op, const Array& from,
                                          const Array& to) {
  SharedUse use;
  CHX_RETURN_IF_ERROR(HoldOne(op, from, &use));
  CHX_ASSIGN_OR_RETURN(const Array contiguous, Contiguous(from));
  // What is not on its device is copied from where it is.
  if (contiguous.buffer->data() == nullptr || to.buffer->data() == nullptr) return false;
  CHX_ASSIGN_OR_RETURN(DeviceState * source, StateOf(from.spec.device));
  CHX_ASSIGN_OR_RETURN(DeviceState * target, StateOf(to.spec.device));
  char* const to_data = to.buffer->data();
  const char* const from_data = contiguous.buffer->data() + contiguous.spec.offset;
  const auto bytes = static_cast<size_t>(to.spec.nbytes());
  if (devices_->at(from.spec.device).is_host()) {
    CHX_RETURN_IF_ERROR(target->stream->CopyIn(to_data, from_data, bytes));
    return true;
  }
  if (devices_->at(to.spec.device).is_host()) {
    CHX_RETURN_IF_ERROR(source->stream->CopyOut(to_data, from_data, bytes));
    return true;
  }
  return target->stream->CopyFrom(*source->stream, to_data, from_data, bytes);
}

bool Executor::Trim() {
  bool any = false;
  for (const DeviceState& state : states_) any |= state.pool != nullptr && state.pool->Trim();
  return any;
}

absl::Status Executor::CheckFits(absl::Span<const int64_t> bytes) const {
  int64_t all = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const MemoryPool* const pool = states_[i].pool.get();
    if (pool != nullptr && bytes[i] > pool->limit()) {
      return TooLarge(bytes[i], absl::StrCat(" on ", devices_->at(i).name()), pool->limit());
    }
    all += bytes[i];
  }
  const int64_t limit = account_->limit();
  return all > limit ? TooLarge(all, "", limit) : absl::OkStatus();
}

bool Executor::Reclaim() {
  constexpr int64_t kRoom = int64_t{1} << 20;
  bool any = Trim();
  if (any) return true;
  for (const DeviceState& state : states_) {
    any |= state.pool != nullptr && state.pool->Spill(kRoom) && state.pool->Trim();
  }
  return any;
}

absl::StatusOr<Ref<Buffer>> Executor::NewBuffer(const DeviceState& state, int64_t bytes) {
  for (;;) {
    absl::StatusOr<Ref<Buffer>> buffer = state.pool->Allocate(bytes);
    if (buffer.ok()) return buffer;
    const bool relieved =
        relief_ != nullptr && KindOf(buffer.status()) == ErrorKind::kMemory && relief_();
    if (!relieved && !ReclaimFromOthers(state, buffer.status(), bytes)) return buffer;
  }
}

bool Executor::ReclaimFromOthers(const DeviceState& state, const absl::Status& why, int64_t bytes) {
  constexpr int64_t kSlab = int64_t{1} << 20;  // what a small array may need
  const bool at_limit =
      bytes <= account_->limit() && std::max(bytes, kSlab) > account_->limit() - account_->used();
  if (!at_limit || KindOf(why) != ErrorKind::kMemory) return false;
  for (const DeviceState& other : states_) {
    if (&other == &state || other.pool == nullptr) continue;
    if (other.pool->Trim() || (other.pool->Spill(bytes) && other.pool->Trim())) return true;
  }
  return false;
}

bool Executor::TryTrim(const Device* device) {
  bool any = false;
  for (const DeviceState& state : states_) {
    any |= state.pool != nullptr && state.pool->TryTrim(device);
  }
  return any;
}

absl::Status Executor::Synchronize() {
  for (DeviceState& state : states_) {
    if (state.stream != nullptr) CHX_RETURN_IF_ERROR(state.stream->Synchronize());
  }
  return absl::OkStatus();
}

void Executor::PrepareStage(const Array& stage, DeviceId device) {
  if (device < states_.size() && device != stage.spec.device) {
    segments_.Pin(stage.data(), &devices_->at(device));
  }
}

absl::optional<LateError> Executor::TakeLateError(DeviceId device) {
  if (device >= states_.size() || states_[device].stream == nullptr) return absl::nullopt;
  return states_[device].stream->TakeLateError();
}

}  // namespace chx::server
