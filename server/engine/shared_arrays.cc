// The executor's side of memory that several sessions have.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/engine/executor.h"

namespace chx::server {
namespace {

bool IsShared(const Array* array) { return array != nullptr && array->buffer->lease(); }

absl::Status CheckWritable(absl::string_view op, const Array& array) {
  if (array.buffer->lease()->rights() != SharedRights::kRead) return absl::OkStatus();
  return ValueError("[", op, "] expects an array that it may write to, got ", array.spec.ToString(),
                    ", which was opened with rights=\"read\": open it with mode=\"copy\", or "
                    "copy it");
}

}  // namespace

absl::Status Executor::Hold(const OpDef& op, absl::Span<const Array* const> inputs,
                            SharedUse* use) {
  absl::InlinedVector<SharedOperand, 8> operands;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (IsShared(inputs[i])) operands.push_back({inputs[i], op.IsWritten(i, inputs.size())});
  }
  return Hold(op.name, operands, use);
}

absl::Status Executor::Hold(absl::string_view op, absl::Span<const SharedOperand> operands,
                            SharedUse* use) {
  bool any = false;
  for (const auto& [array, writes] : operands) {
    if (!IsShared(array)) continue;
    if (held_ != nullptr) {
      // A part of a command that has said what it uses. To wait for more might be for ever.
      if (held_->Holds(array->buffer->lease().get(), writes)) continue;
      if (writes) CHX_RETURN_IF_ERROR(CheckWritable(op, *array));
      return ChainerxError("[", op, "] uses shared memory that its command has not named");
    }
    if (writes) CHX_RETURN_IF_ERROR(PrepareWrite(op, *array));
    any = true;
  }
  if (!any) return absl::OkStatus();
  any = false;
  for (const auto& [array, writes] : operands) {
    if (!IsShared(array)) continue;  // it has been copied
    use->Add(array->buffer->lease(), writes);
    any = true;
  }
  return any ? use->Begin(op, &held_) : absl::OkStatus();
}

absl::Status Executor::HoldOperands(const ArrayCall& call, SharedUse* use) {
  bool any = false;
  for (const ArrayOperand& input : call.inputs) any = any || IsShared(input.array());
  if (!any) return absl::OkStatus();
  absl::InlinedVector<const Array*, 8> arrays;
  for (const ArrayOperand& input : call.inputs) arrays.push_back(input.array());
  return Hold(call.op, arrays, use);
}

absl::Status Executor::HoldOne(absl::string_view op, const Array& array, SharedUse* use) {
  if (!IsShared(&array) || held_ != nullptr) return absl::OkStatus();
  use->Add(array.buffer->lease(), false);
  return use->Begin(op, &held_);
}

absl::Status Executor::PrepareWrite(absl::string_view op, const Array& array) {
  const Ref<SharedLease> lease = array.buffer->lease();
  if (lease->rights() == SharedRights::kWrite) return absl::OkStatus();
  CHX_RETURN_IF_ERROR(CheckWritable(op, array));
  SharedUse use;
  use.Add(lease, false);
  CHX_RETURN_IF_ERROR(use.Begin(op, &held_));
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(array.spec.device));
  CHX_ASSIGN_OR_RETURN(const Ref<Buffer> own, NewBuffer(*state, array.buffer->bytes()));
  CHX_RETURN_IF_ERROR(CopyBuffer(array.buffer, own, array.spec.device));
  state->pool->Swap(array.buffer.get(), own.get());
  return absl::OkStatus();
}

absl::Status Executor::CopyBuffer(const Ref<Buffer>& from, const Ref<Buffer>& to, DeviceId device) {
  const int64_t size = std::min(from->bytes(), to->bytes());
  if (from->away() != nullptr) {
    const absl::string_view elements(from->away(), static_cast<size_t>(size));
    return states_[device].pool->CopyIn(to.get(), 0, elements);
  }
  const ArraySpec bytes(Dtype::kUint8, Shape({size}), device);
  return RunUnary("copy", Array{from, bytes}, Array{to, bytes}, {});
}

absl::StatusOr<Ref<SharedStorage>> Executor::MoveToStorage(const Array& array) {
  const Ref<Buffer>& buffer = array.buffer;
  if (buffer->lease()) {
    if (!buffer->lease()->owner()) {
      return ValueError(
          "[share] expects an array of this session's own, got one that another session shares: "
          "share a copy of it");
    }
    SharedUse use;
    use.Add(buffer->lease(), false);
    CHX_RETURN_IF_ERROR(use.Begin("share"));
    return use.first();
  }
  if (buffer->viewed()) {
    return ValueError(
        "[share] expects an array whose memory this client has not been shown, got one that "
        "to_numpy(copy=False) or a buffer has shown: share a copy of it");
  }
  const DeviceId device = array.spec.device;
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(device));
  DeviceSlot* const slot = &devices_->slot(device);
  absl::StatusOr<Ref<SharedStorage>> made = SharedStorage::New(slot, buffer->bytes(), account_);
  if (!made.ok() && Reclaim()) made = SharedStorage::New(slot, buffer->bytes(), account_);
  while (!made.ok() && state->pool->MakeRoom(buffer->bytes())) {
    made = SharedStorage::New(slot, buffer->bytes(), account_);
  }
  CHX_ASSIGN_OR_RETURN(Ref<SharedStorage> storage, std::move(made));
  SharedLease::Terms terms;
  terms.owner = true;
  terms.rights = storage->on_host() ? SharedRights::kWrite : SharedRights::kCopy;
  const Ref<SharedLease> lease(new SharedLease(storage, std::move(terms)));
  CHX_ASSIGN_OR_RETURN(const Ref<Buffer> moved, state->pool->Attach(lease, *storage));
  CHX_RETURN_IF_ERROR(CopyBuffer(buffer, moved, device));
  // Other sessions' work is in other orders than this one's.
  CHX_RETURN_IF_ERROR(state->stream->Synchronize());
  state->pool->Swap(buffer.get(), moved.get());
  shares_ = true;
  if (moved->exported()) left_.push_back(moved);
  return storage;
}

absl::StatusOr<Array> Executor::Attach(const Ref<SharedLease>& lease, const ArraySpec& spec) {
  CHX_ASSIGN_OR_RETURN(DeviceState * state, StateOf(spec.device));
  CHX_ASSIGN_OR_RETURN(const Ref<SharedStorage> storage, lease->Pin());
  absl::StatusOr<Ref<Buffer>> buffer = state->pool->Attach(lease, *storage);
  lease->Unpin();
  if (!buffer.ok()) return buffer.status();
  shares_ = true;
  return Array{*std::move(buffer), spec};
}

}  // namespace chx::server
