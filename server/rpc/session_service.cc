#include "server/rpc/session_service.h"

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/registry.h"
#include "proto/wire.h"
#include "server/rpc/limits.h"
#include "server/rpc/op_stream.h"
#include "server/rpc/version.h"

namespace chx {
namespace {

void FillLimits(const ManagerOptions& options, v1::Limits* limits) {
  limits->set_max_batch_bytes(kMaxBatchBytes);
  limits->set_max_inflight_commands(kMaxInflightCommands);
  limits->set_max_inflight_bytes(kMaxInflightBytes);
  limits->set_max_inline_bytes(static_cast<uint32_t>(options.session.max_inline_bytes));
  limits->set_session_memory_bytes(static_cast<uint64_t>(options.session.memory_bytes));
  limits->set_lease_seconds(std::chrono::duration<double>(options.lease).count());
  limits->set_max_handles(static_cast<uint32_t>(options.session.max_handles));
}

}  // namespace

grpc::Status SessionServiceImpl::Open(grpc::ServerContext* context, const v1::OpenRequest* request,
                                      v1::OpenReply* reply) {
  if (request->min_protocol() > wire::kProtocolVersion ||
      request->max_protocol() < wire::kProtocolVersion) {
    return grpc::Status(
        grpc::StatusCode::UNIMPLEMENTED,
        absl::StrCat("this daemon speaks protocol ", wire::kProtocolVersion, ", the client ",
                     request->min_protocol(), " to ", request->max_protocol()));
  }
  if (request->ops_size() > kMaxOpSignatures || request->client_name().size() > 256) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the request is too large");
  }
  // Whoever comes over a Unix socket is on this host.
  const bool local = shared_memory_ && absl::StartsWith(context->peer(), "unix:");
  SessionRecordPtr record;
  if (!request->resume_session_id().empty()) {
    record = manager_->Find(request->resume_session_id());
    if (record == nullptr) return NoSuchSession();
    // Without the stream's mutex: an older stream may hold it until ours takes over.
    reply->set_last_batch_seq(record->last_batch_seq);
  } else {
    if (!open_) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the daemon is shutting down");
    absl::StatusOr<SessionRecordPtr> opened = manager_->Open(request->client_name(), local);
    if (!opened.ok()) return wire::ToGrpc(opened.status());
    record = *std::move(opened);
  }
  reply->set_protocol(wire::kProtocolVersion);
  reply->set_session_id(record->id);
  reply->set_epoch(manager_->epoch());
  reply->set_server_version(kVersion);
  for (const v1::OpSignature& signature : request->ops()) {
    const OpDef* op = OpRegistry::Global().Find(signature.name());
    const bool known =
        op != nullptr && op->name == signature.name() && op->SignatureHash() == signature.hash();
    reply->add_op_ids(known ? op->id + 1u : 0u);
  }
  const Devices& devices = manager_->devices();
  for (int i = 0; i < devices.size(); ++i) {
    v1::DeviceInfo* info = reply->add_devices();
    info->set_name(devices.at(i).name());
    info->set_memory_bytes(devices.at(i).memory_bytes());
    info->set_shares_memory(local && devices.shares_memory(i));
  }
  FillLimits(manager_->options(), reply->mutable_limits());
  return grpc::Status::OK;
}

grpc::Status SessionServiceImpl::Execute(grpc::ServerContext* context,
                                         grpc::ServerReaderWriter<v1::Event, v1::Submit>* stream) {
  v1::Submit submit;
  if (!stream->Read(&submit)) return grpc::Status::OK;
  StreamTransport transport;
  transport.read = [stream](v1::Submit* batch) { return stream->Read(batch); };
  transport.send = [stream](const v1::Event& event) { return stream->Write(event); };
  transport.cancel = [context] { context->TryCancel(); };
  return ServeStream(manager_, transport, &submit);
}

grpc::Status SessionServiceImpl::Close(grpc::ServerContext* context,
                                       const v1::CloseRequest* request, v1::CloseReply* reply) {
  absl::StatusOr<std::vector<SessionOutput::Error>> unread = manager_->Close(request->session_id());
  if (!unread.ok()) return wire::ToGrpc(unread.status());
  for (const SessionOutput::Error& error : *unread) {
    v1::OpError* message = reply->add_unread_errors();
    message->set_handle(error.handle);
    FillError(*error.error, message->mutable_error());
  }
  return grpc::Status::OK;
}

}  // namespace chx
