// FrameService's calls that make sessions and end them.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/error.h"
#include "ops/registry.h"
#include "proto/messages.h"
#include "server/log/log.h"
#include "server/log/printable.h"
#include "server/rpc/admission.h"
#include "server/rpc/frame_service.h"
#include "server/rpc/limits.h"
#include "server/rpc/op_stream.h"
#include "server/rpc/refusal.h"
#include "server/rpc/version.h"

namespace chx::server {
namespace {

void FillLimits(const ManagerOptions& options, const SessionLimits& session, v1::Limits* limits) {
  limits->set_max_batch_bytes(kMaxBatchBytes);
  limits->set_max_inflight_commands(kMaxInflightCommands);
  limits->set_max_inflight_bytes(kMaxInflightBytes);
  limits->set_max_inline_bytes(static_cast<uint32_t>(session.max_inline_bytes));
  limits->set_session_memory_bytes(static_cast<uint64_t>(session.memory_bytes));
  limits->set_lease_seconds(std::chrono::duration<double>(options.lease).count());
  limits->set_max_handles(static_cast<uint32_t>(session.max_handles));
}

void LogResumed(const SessionRecord& record, const PeerInfo& peer) {
  static auto* const limit = new LogLimit;
  Log(limit, LogLevel::kInfo, "session resumed",
      {{"session", record.number},
       {"tenant", record.owner.tenant->name},
       {"peer", PeerName(peer)},
       {"client", record.owner.client_name}});
}

// `begins`: the client is new to the session, which does nothing yet.
void FillKept(const SessionRecord& record, bool begins, bool survives_restart,
              v1::KeptState* kept) {
  kept->set_taken_up(record.taken_up);
  kept->set_survives_restart(survives_restart && Allows(*record.owner.tenant, Feature::kSnapshots));
  kept->set_uploads(static_cast<uint64_t>(record.session->uploads()));
  if (record.snapshot_time != absl::InfinitePast()) {
    kept->set_snapshot_unix_ms(static_cast<uint64_t>(absl::ToUnixMillis(record.snapshot_time)));
  }
  if (!record.taken_up || !begins) return;
  record.session->Inspect(
      [kept](const SessionState& state) { kept->set_generator(state.saved.generator()); });
}

}  // namespace

absl::StatusOr<SessionRecordPtr> FrameService::OpenNew(const v1::OpenRequest& request,
                                                       const PeerInfo& peer, const Caller& caller,
                                                       bool local) {
  std::shared_ptr<void> admission;
  if (options_.admit_session) {
    CHX_ASSIGN_OR_RETURN(admission, options_.admit_session(peer));
  }
  SessionOwner owner;
  owner.client_name = Printable(request.client_name());
  owner.name = request.session_name();
  owner.peer = PeerName(peer);
  owner.share = local;
  owner.uid = peer.uid;
  owner.tenant = caller.tenant;
  CHX_ASSIGN_OR_RETURN(SessionRecordPtr record, manager_->Open(std::move(owner)));
  record->admission = std::move(admission);
  return record;
}

absl::Status FrameService::Open(const v1::OpenRequest& request, const PeerInfo& peer,
                                const Caller& caller, v1::OpenReply* reply) {
  if (request.ops_size() > kMaxOpSignatures || request.client_name().size() > 256) {
    return absl::InvalidArgumentError("the request is too large");
  }
  // Whoever comes over a Unix socket is on this host.
  const bool local = shared_memory_ && peer.kind == PeerInfo::kUnix;
  SessionRecordPtr record;
  if (!request.resume_session_id().empty()) {
    CHX_ASSIGN_OR_RETURN(record,
                         manager_->FindOrRestore(request.resume_session_id(), *caller.tenant));
    if (record == nullptr) return NoSuchSession(manager_, request.resume_session_id());
    // Without the stream's mutex: an older stream may hold it until ours takes over.
    record->session->counters().resumes.Add();
    LogResumed(*record, peer);
  } else {
    absl::StatusOr<SessionRecordPtr> opened = OpenNew(request, peer, caller, local);
    if (!opened.ok()) LogRefusal(peer, opened.status());
    CHX_ASSIGN_OR_RETURN(record, std::move(opened));
  }
  reply->set_last_batch_seq(record->last_batch_seq);
  FillKept(*record, request.resume_session_id().empty(), manager_->options().survives_restart,
           reply->mutable_kept());
  reply->set_protocol(wire::kProtocolVersion);
  reply->set_session_id(record->id);
  reply->set_session_number(record->number);
  reply->set_epoch(manager_->epoch());
  reply->set_server_version(kVersion);
  reply->set_knows_sharing(manager_->options().sharing != nullptr);
  reply->set_knows_programs(true);
  reply->set_knows_published_programs(true);
  reply->set_knows_runs(true);
  reply->set_knows_data(true);
  reply->set_knows_upload_parts(true);
  reply->set_knows_groups(manager_->options().groups != nullptr);
  reply->set_knows_reduce_backward(manager_->options().groups != nullptr);
  for (const v1::OpSignature& signature : request.ops()) {
    const OpDef* op = OpRegistry::Global().Find(signature.name());
    const bool known =
        op != nullptr && op->name == signature.name() && op->SignatureHash() == signature.hash();
    reply->add_op_ids(known ? op->id + 1u : 0u);
  }
  const SessionOwner& owner = record->owner;
  const bool shares = local && owner.share && owner.uid == peer.uid;
  const Devices& devices = manager_->devices();
  for (int i = 0; i < devices.size(); ++i) {
    v1::DeviceInfo* info = reply->add_devices();
    info->set_name(devices.at(i).name());
    info->set_memory_bytes(devices.at(i).memory_bytes());
    info->set_shares_memory(shares && devices.shares_memory(i));
  }
  FillLimits(manager_->options(), record->session->limits(), reply->mutable_limits());
  return absl::OkStatus();
}

absl::Status FrameService::Close(const v1::CloseRequest& request, v1::CloseReply* reply) {
  CHX_ASSIGN_OR_RETURN(const std::vector<SessionOutput::Error> unread,
                       request.discard() ? manager_->Close(request.session_id())
                                         : manager_->Leave(request.session_id()));
  for (const SessionOutput::Error& error : unread) {
    v1::OpError* message = reply->add_unread_errors();
    message->set_handle(error.handle);
    FillError(*error.error, message->mutable_error());
  }
  return absl::OkStatus();
}

}  // namespace chx::server
