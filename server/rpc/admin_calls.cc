#include "server/rpc/admin_calls.h"

#include <string>

#include "server/log/log.h"
#include "server/rpc/admin_queries.h"
#include "server/rpc/admission.h"

namespace chx::server {
namespace {

// Few enough that a line for each fills no disk, also if a program calls again and again.
LogLimit* NewLimit() { return new LogLimit(/*burst=*/100, std::chrono::milliseconds(100)); }

void Audit(const PeerInfo& peer, const char* action, uint64_t session, uint64_t value,
           const absl::Status& status) {
  static LogLimit* const limit = NewLimit();
  Log(limit, LogLevel::kInfo, "admin action",
      {{"action", action},
       {"peer", peer.admin ? "gRPC on the Unix socket" : PeerName(peer)},
       {"session", session},
       {"value", value},
       {"result", status.ok() ? absl::string_view("done") : status.message()}});
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
      return true;
    default:
      return false;
  }
}

absl::Status AdminCalls::Answer(const v1::Call& call, const PeerInfo& peer, v1::Reply* reply) {
  const char* action = nullptr;
  uint64_t session = 0;
  uint64_t value = 0;
  absl::Status status;
  switch (call.method_case()) {
    case v1::Call::kKillSession:
      action = "kill session";
      session = call.kill_session().number();
      status = KillSession(manager_, call.kill_session());
      break;
    case v1::Call::kLimitSession:
      action = "limit session's memory";
      session = call.limit_session().number();
      value = call.limit_session().memory_bytes();
      status = LimitSession(manager_, call.limit_session());
      break;
    case v1::Call::kDrain:
      action = "drain";
      status = Drain();
      break;
    case v1::Call::kStartTrace:
      action = "start trace";
      session = call.start_trace().session();
      status = StartTrace(manager_, call.start_trace());
      break;
    default:
      return Look(call, reply);
  }
  Audit(peer, action, session, value, status);
  return status;
}

absl::Status AdminCalls::Look(const v1::Call& call, v1::Reply* reply) {
  switch (call.method_case()) {
    case v1::Call::kListDevices:
      ListDevices(*manager_, reply->mutable_list_devices());
      return absl::OkStatus();
    case v1::Call::kListSessions:
      ListSessions(manager_, reply->mutable_list_sessions());
      return absl::OkStatus();
    case v1::Call::kListTenants:
      ListTenants(manager_, reply->mutable_list_tenants());
      return absl::OkStatus();
    case v1::Call::kDescribeDaemon: {
      v1::DescribeDaemonReply* const description = reply->mutable_describe_daemon();
      DescribeDaemon(manager_, description);
      description->set_uptime_seconds(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count());
      return absl::OkStatus();
    }
    case v1::Call::kReadTrace:
      return ReadTrace(manager_, reply->mutable_read_trace());
    default:
      return absl::UnimplementedError("this daemon does not know the call");
  }
}

absl::Status AdminCalls::Drain() {
  manager_->StartDraining();
  if (on_drain_) on_drain_();
  return absl::OkStatus();
}

}  // namespace chx::server
