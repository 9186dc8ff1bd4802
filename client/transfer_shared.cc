// Arrays of a Connection in memory that both sides map.
#include <algorithm>

#include "client/connection.h"
#include "ops/error.h"

namespace chx {

absl::optional<DeviceId> Connection::SharingDevice() const {
  if (segments_ == nullptr || !segments_->usable()) return absl::nullopt;
  const auto it = std::find(shares_.begin(), shares_.end(), true);
  if (it == shares_.end()) return absl::nullopt;
  return static_cast<DeviceId>(it - shares_.begin());
}

absl::StatusOr<Connection::Shared> Connection::Share(v1::ShareRequest request, bool populate,
                                                     bool* done) {
  calls_.fetch_add(1, std::memory_order_relaxed);
  request.set_session_id(session_id_);
  grpc::ClientContext context;
  AddToken(&context);
  Shared shared;
  const std::unique_ptr<v1::TransferService::Stub> stub = v1::TransferService::NewStub(channel_);
  const grpc::Status status = stub->Share(&context, request, &shared.reply);
  if (done != nullptr) *done = status.ok();
  if (!status.ok()) return FromRpc(status);
  if (request.action() == v1::ShareRequest::ALIAS) return shared;
  CHX_ASSIGN_OR_RETURN(shared.mapping, segments_->Get(shared.reply.segment(), populate));
  const uint64_t bytes = shared.mapping->bytes();
  if (shared.reply.block_offset() > bytes ||
      shared.reply.block_bytes() > bytes - shared.reply.block_offset()) {
    return ChainerxError("chxd shares a block beyond its segment");
  }
  shared.block = shared.mapping->data() + shared.reply.block_offset();
  shared.bytes = static_cast<int64_t>(shared.reply.block_bytes());
  return shared;
}

}  // namespace chx
