#include "server/rpc/admin_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/rpc/admin_queries.h"
#include "server/rpc/audit.h"
#include "server/rpc/run_listing.h"

namespace chx::server {
namespace {

// Drains and traces concern the sessions of all tenants.
absl::Status CheckRunsDaemon(const Tenant& who) {
  if (MayRunDaemon(who)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "the tenant '", who.name, "' may not: it has no `admin: true` in the daemon's tenants file"));
}

}  // namespace

bool AdminCalls::Is(const v1::Call& call) {
  switch (call.method_case()) {
    case v1::Call::kListDevices:
    case v1::Call::kListSessions:
    case v1::Call::kKillSession:
    case v1::Call::kDescribeDaemon:
    case v1::Call::kListTenants:
    case v1::Call::kLimitSession:
    case v1::Call::kDrain:
    case v1::Call::kStartTrace:
    case v1::Call::kReadTrace:
    case v1::Call::kSnapshot:
    case v1::Call::kListAllRuns:
    case v1::Call::kOrderRun:
      return true;
    default:
      return false;
  }
}

absl::Status AdminCalls::Answer(const v1::Call& call, const PeerInfo& peer, const Tenant& who,
                                v1::Reply* reply) {
  switch (call.method_case()) {
    case v1::Call::kKillSession:
      return Audited(peer, "kill_session", call.kill_session().number(),
                     KillSession(manager_, who, call.kill_session()));
    case v1::Call::kLimitSession:
      return Audited(peer, absl::StrCat("limit_session to ", call.limit_session().memory_bytes()),
                     call.limit_session().number(),
                     LimitSession(manager_, who, call.limit_session()));
    case v1::Call::kDrain: {
      absl::Status status = CheckRunsDaemon(who);
      if (status.ok()) status = Drain();
      return Audited(peer, "drain", 0, std::move(status));
    }
    case v1::Call::kStartTrace: {
      absl::Status status = CheckRunsDaemon(who);
      if (status.ok()) status = StartTrace(manager_, call.start_trace());
      return Audited(peer, "start_trace", call.start_trace().session(), std::move(status));
    }
    case v1::Call::kSnapshot:
      return Audited(peer, "snapshot", call.snapshot().number(),
                     TakeSnapshot(call.snapshot(), who, reply->mutable_snapshot()));
    case v1::Call::kOrderRun:
      return Audited(peer, DescribeOrder(call.order_run()), call.order_run().session(),
                     OrderRun(manager_, who, call.order_run()));
    default:
      return Look(call, who, reply);
  }
}

absl::Status AdminCalls::Look(const v1::Call& call, const Tenant& who, v1::Reply* reply) {
  switch (call.method_case()) {
    case v1::Call::kListDevices:
      ListDevices(*manager_, reply->mutable_list_devices());
      return absl::OkStatus();
    case v1::Call::kListSessions:
      ListSessions(manager_, who, reply->mutable_list_sessions());
      return absl::OkStatus();
    case v1::Call::kListTenants:
      ListTenants(manager_, who, callers_->tenants(), reply->mutable_list_tenants());
      return absl::OkStatus();
    case v1::Call::kDescribeDaemon: {
      v1::DescribeDaemonReply* const description = reply->mutable_describe_daemon();
      DescribeDaemon(manager_, description);
      description->set_uptime_seconds(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count());
      return absl::OkStatus();
    }
    case v1::Call::kListAllRuns:
      ListAllRuns(manager_, who, reply->mutable_list_all_runs());
      return absl::OkStatus();
    case v1::Call::kReadTrace:
      CHX_RETURN_IF_ERROR(CheckRunsDaemon(who));
      return ReadTrace(manager_, reply->mutable_read_trace());
    default:
      return absl::UnimplementedError("this daemon does not know the call");
  }
}

absl::Status AdminCalls::TakeSnapshot(const v1::SnapshotRequest& request, const Tenant& who,
                                      v1::SnapshotReply* reply) const {
  CHX_RETURN_IF_ERROR(CheckRunsDaemon(who));
  if (snapshot_ == nullptr) {
    return absl::FailedPreconditionError("[snapshot] expects a daemon with --state-dir");
  }
  return snapshot_(request.number(), reply);
}

absl::Status AdminCalls::Drain() {
  manager_->StartDraining();
  if (on_drain_) on_drain_();
  return absl::OkStatus();
}

}  // namespace chx::server
