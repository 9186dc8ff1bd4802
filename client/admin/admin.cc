#include "client/admin/admin.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/call_channel.h"
#include "ops/error.h"
#include "proto/messages.h"

namespace chx {
namespace {

constexpr std::chrono::seconds kTimeout(10);
// The daemon waits for sessions that are busy, and then for its disk.
constexpr std::chrono::minutes kSnapshotTimeout(10);
constexpr int kTries = 3;

SessionStatus ToStatus(const v1::SessionInfo& info) {
  SessionStatus session;
  session.number = info.number();
  session.client_name = info.client_name();
  session.tenant = info.tenant();
  session.peer = info.peer();
  session.state = info.busy() ? "busy" : info.attached() ? "attached" : "detached";
  session.age_seconds = info.age_seconds();
  session.idle_seconds = info.idle_seconds();
  session.memory_bytes = info.memory_bytes();
  session.memory_limit_bytes = info.memory_limit_bytes();
  session.host_array_bytes = info.usage().host_array_bytes();
  session.device_array_bytes = info.usage().device_array_bytes();
  session.record_bytes = info.usage().record_bytes();
  session.transfer_bytes = info.usage().transfer_bytes();
  session.handles = info.handles();
  session.commands = info.commands();
  session.errors = info.errors();
  session.compute_seconds = info.usage().compute_seconds();
  session.device_seconds = info.usage().device_seconds();
  session.last_operator = info.last_operator();
  return session;
}

TenantStatus ToStatus(const v1::TenantInfo& info) {
  TenantStatus tenant;
  tenant.name = info.name();
  tenant.weight = info.weight();
  tenant.priority = info.priority();
  tenant.sessions = info.sessions();
  tenant.max_sessions = info.max_sessions();
  tenant.memory_bytes = info.memory_bytes();
  tenant.memory_limit_bytes = info.memory_limit_bytes();
  tenant.session_memory_limit_bytes = info.session_memory_limit_bytes();
  tenant.commands = info.commands();
  tenant.compute_seconds = info.compute_seconds();
  return tenant;
}

template <typename Names, typename Values>
RunStatus::Metrics Join(const Names& names, const Values& values) {
  RunStatus::Metrics metrics;
  for (int i = 0; i < std::min(names.size(), values.size()); ++i) {
    metrics.emplace_back(names[i], values[i]);
  }
  return metrics;
}

RunStatus ToStatus(const v1::RunStatus& message) {
  const v1::RunInfo& info = message.run();
  const char* const states[] = {"running", "paused", "ended", "suspended"};
  RunStatus run;
  run.session = message.session();
  run.session_name = message.session_name();
  run.tenant = message.tenant();
  run.name = info.name();
  run.state = info.state() < std::size(states) ? states[info.state()] : "unknown";
  run.step = info.step();
  run.steps = info.steps();
  run.epoch = static_cast<double>(info.step()) /
              static_cast<double>(std::max<int64_t>(info.steps_per_epoch(), 1));
  run.age_seconds = message.age_seconds();
  run.left_seconds = message.left_seconds();
  run.metrics = Join(info.metrics(), message.metrics());
  run.evaluation_metrics = Join(info.evaluation_metrics(), message.evaluation_metrics());
  run.reason = message.reason();
  run.message = message.text();
  return run;
}

}  // namespace

Admin::Admin(std::string address, ConnectOptions options)
    : address_(std::move(address)), options_(std::move(options)) {}
Admin::~Admin() = default;

absl::StatusOr<std::unique_ptr<Admin>> Admin::Connect(const std::string& address,
                                                      const ConnectOptions& options) {
  std::unique_ptr<Admin> admin(new Admin(address, options));
  CHX_ASSIGN_OR_RETURN(admin->dialer_, Dialer::For(address, options.tls_roots));
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<Socket> socket,
                       admin->dialer_->Dial(std::chrono::steady_clock::now() + kTimeout));
  admin->channel_ = std::make_unique<CallChannel>(std::move(socket), options.token);
  return admin;
}

absl::Status Admin::Explained(const absl::Status& status) const {
  const std::string text = absl::StrCat("chxd at ", address_, ": ", status.message());
  if (absl::IsUnavailable(status)) return MakeError(ErrorKind::kConnection, text);
  if (absl::IsUnauthenticated(status)) {
    return absl::UnauthenticatedError(absl::StrCat(
        text, ", the one in its --token-file; give it with --token-file, or in $CHX_TOKEN"));
  }
  return status;
}

absl::Status Admin::Ask(const v1::Call& call, bool repeatable, v1::Reply* reply) {
  return Ask(call, repeatable, reply, kTimeout);
}

absl::Status Admin::Ask(const v1::Call& call, bool repeatable, v1::Reply* reply,
                        std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  // The daemon may have closed one that was silent. What may be done once only goes over a new one.
  if (!repeatable) channel_ = nullptr;
  for (int tries = repeatable ? kTries : 1; tries > 0; --tries) {
    if (channel_ == nullptr) {
      CHX_ASSIGN_OR_RETURN(std::unique_ptr<Socket> socket, dialer_->Dial(deadline));
      channel_ = std::make_unique<CallChannel>(std::move(socket), options_.token);
    }
    if (channel_->Call(call, reply, deadline)) {
      return Explained(wire::FromMessage(reply->status()));
    }
    channel_ = nullptr;
  }
  return MakeError(
      ErrorKind::kConnection,
      absl::StrCat("chxd at ", address_,
                   dialer_->is_plain_tcp()
                       ? ": the connection is cut; if the port expects TLS, give its certificates"
                       : ": the connection is cut"));
}

absl::StatusOr<DaemonStatus> Admin::Describe() {
  v1::Call call;
  v1::Reply reply;
  call.mutable_describe_daemon();
  CHX_RETURN_IF_ERROR(Ask(call, true, &reply));
  const v1::DescribeDaemonReply& daemon = reply.describe_daemon();
  DaemonStatus status;
  status.version = daemon.version();
  status.uptime_seconds = daemon.uptime_seconds();
  status.draining = daemon.draining();
  status.tracing = daemon.tracing();
  status.sessions = daemon.sessions();
  status.attached = daemon.attached();
  status.max_sessions = daemon.max_sessions();
  status.memory_bytes = daemon.memory_bytes();
  status.memory_limit_bytes = daemon.memory_limit_bytes();
  status.lease_seconds = daemon.lease_seconds();
  return status;
}

absl::StatusOr<std::vector<DeviceStatus>> Admin::Devices() {
  v1::Call call;
  v1::Reply reply;
  call.mutable_list_devices();
  CHX_RETURN_IF_ERROR(Ask(call, true, &reply));
  std::vector<DeviceStatus> devices;
  for (const v1::DeviceInfo& info : reply.list_devices().devices()) {
    devices.push_back({info.name(), info.name().substr(0, info.name().find(':')),
                       info.memory_bytes(), info.used_bytes(), info.lost()});
  }
  return devices;
}

absl::StatusOr<std::vector<SessionStatus>> Admin::Sessions() {
  v1::Call call;
  v1::Reply reply;
  call.mutable_list_sessions();
  CHX_RETURN_IF_ERROR(Ask(call, true, &reply));
  std::vector<SessionStatus> sessions;
  for (const v1::SessionInfo& info : reply.list_sessions().sessions()) {
    sessions.push_back(ToStatus(info));
  }
  std::sort(sessions.begin(), sessions.end(),
            [](const SessionStatus& a, const SessionStatus& b) { return a.number < b.number; });
  return sessions;
}

absl::StatusOr<std::vector<TenantStatus>> Admin::Tenants() {
  v1::Call call;
  v1::Reply reply;
  call.mutable_list_tenants();
  CHX_RETURN_IF_ERROR(Ask(call, true, &reply));
  std::vector<TenantStatus> tenants;
  for (const v1::TenantInfo& info : reply.list_tenants().tenants()) {
    tenants.push_back(ToStatus(info));
  }
  return tenants;
}

absl::StatusOr<std::vector<RunStatus>> Admin::Runs() {
  v1::Call call;
  v1::Reply reply;
  call.mutable_list_all_runs();
  CHX_RETURN_IF_ERROR(Ask(call, true, &reply));
  std::vector<RunStatus> runs;
  for (const v1::RunStatus& run : reply.list_all_runs().runs()) runs.push_back(ToStatus(run));
  return runs;
}

absl::Status Admin::OrderRun(uint64_t session, const std::string& name, RunAction order) {
  v1::Call call;
  v1::Reply reply;
  call.mutable_order_run()->set_session(session);
  call.mutable_order_run()->set_name(name);
  call.mutable_order_run()->set_order(static_cast<uint32_t>(order));
  return Ask(call, false, &reply);
}

absl::Status Admin::KillSession(uint64_t number) {
  v1::Call call;
  v1::Reply reply;
  call.mutable_kill_session()->set_number(number);
  return Ask(call, false, &reply);
}

absl::Status Admin::LimitSession(uint64_t number, uint64_t memory_bytes) {
  v1::Call call;
  v1::Reply reply;
  call.mutable_limit_session()->set_number(number);
  call.mutable_limit_session()->set_memory_bytes(memory_bytes);
  return Ask(call, true, &reply);
}

absl::Status Admin::Drain() {
  v1::Call call;
  v1::Reply reply;
  call.mutable_drain();
  return Ask(call, true, &reply);
}

absl::Status Admin::Snapshot() {
  v1::Call call;
  v1::Reply reply;
  call.mutable_snapshot();
  CHX_RETURN_IF_ERROR(Ask(call, false, &reply, kSnapshotTimeout));
  const v1::SnapshotReply& written = reply.snapshot();
  if (written.failed() == 0) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      "[snapshot] could not write ", written.failed(), " of ",
      written.sessions() + written.failed(),
      " sessions: ", written.why().empty() ? "the daemon's log says why" : written.why()));
}

absl::Status Admin::StartTrace(uint64_t session, double seconds) {
  v1::Call call;
  v1::Reply reply;
  call.mutable_start_trace()->set_session(session);
  call.mutable_start_trace()->set_seconds(seconds);
  return Ask(call, false, &reply);
}

absl::StatusOr<std::vector<v1::ReadTraceReply>> Admin::ReadTrace() {
  v1::Call call;
  call.mutable_read_trace();
  std::vector<v1::ReadTraceReply> parts;
  do {
    v1::Reply reply;
    CHX_RETURN_IF_ERROR(Ask(call, false, &reply));
    parts.push_back(std::move(*reply.mutable_read_trace()));
  } while (parts.back().more());
  return parts;
}

}  // namespace chx
