#include "server/rpc/admin_queries.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/rpc/version.h"
#include "server/trace/tracer.h"

namespace chx::server {
namespace {

using Seconds = std::chrono::duration<double>;

// Of one reply: a megabyte or so.
constexpr size_t kSpansInAReply = 16 << 10;

uint64_t Bytes(int64_t bytes) { return static_cast<uint64_t>(std::max<int64_t>(bytes, 0)); }

absl::Status NoSession(uint64_t number) {
  return absl::NotFoundError(absl::StrCat("there is no session number ", number));
}

void FillUsage(const SessionSnapshot& session, v1::SessionUsage* usage) {
  const MemoryAccount& account = *session.account;
  usage->set_host_array_bytes(
      Bytes(account.used_for(MemoryUse::kArrays) + account.used_for(MemoryUse::kAway)));
  usage->set_device_array_bytes(Bytes(account.used_for(MemoryUse::kDeviceArrays)));
  usage->set_record_bytes(Bytes(account.used_for(MemoryUse::kRecords)));
  usage->set_transfer_bytes(Bytes(account.used_for(MemoryUse::kTransfers)));
  usage->set_compute_seconds(Seconds(session.activity.computed).count());
  usage->set_device_seconds(Seconds(session.stats.device_time).count());
}

const char* NameOf(Priority priority) {
  switch (priority) {
    case Priority::kLow:
      return "low";
    case Priority::kHigh:
      return "high";
    default:
      return "normal";
  }
}

// Empty if the system does not tell it.
std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

void FillSpan(const Span& span, TraceClock::time_point began,
              std::map<absl::string_view, uint32_t>* names, v1::TracedSpan* out) {
  const auto nanoseconds = [](TraceClock::duration time) {
    return Bytes(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
  };
  const auto name = names->emplace(span.name, static_cast<uint32_t>(names->size())).first;
  out->set_kind(static_cast<uint32_t>(span.kind));
  out->set_name(name->second);
  out->set_begin_ns(nanoseconds(span.begin - began));
  out->set_duration_ns(nanoseconds(span.end - span.begin));
  out->set_batch(span.batch);
  out->set_bytes(span.bytes);
  out->set_device(static_cast<uint32_t>(span.device + 1));
}

}  // namespace

void ListDevices(const SessionManager& manager, v1::ListDevicesReply* reply) {
  const Devices& devices = manager.devices();
  for (int i = 0; i < devices.size(); ++i) {
    v1::DeviceInfo* info = reply->add_devices();
    info->set_name(devices.at(i).name());
    info->set_memory_bytes(devices.at(i).memory_bytes());
    info->set_used_bytes(static_cast<uint64_t>(devices.slot(i).used_bytes.load()));
    info->set_lost(std::string(devices.at(i).health().status().message()));
  }
}

void FillSessionInfo(const SessionSnapshot& session, v1::SessionInfo* info) {
  const auto now = std::chrono::steady_clock::now();
  info->set_number(session.number);
  info->set_client_name(session.client_name);
  info->set_age_seconds(Seconds(now - session.opened).count());
  info->set_attached(session.attached);
  info->set_handles(static_cast<uint64_t>(session.stats.handles));
  info->set_memory_bytes(static_cast<uint64_t>(session.stats.memory_bytes));
  info->set_memory_limit_bytes(static_cast<uint64_t>(session.account->limit()));
  info->set_array_bytes(static_cast<uint64_t>(session.stats.array_bytes));
  info->set_spilled_bytes(static_cast<uint64_t>(session.stats.spilled_bytes));
  info->set_shared_bytes(static_cast<uint64_t>(session.stats.shared_bytes));
  info->set_commands(static_cast<uint64_t>(session.stats.commands));
  info->set_errors(static_cast<uint64_t>(session.stats.errors));
  info->set_tenant(session.tenant->name);
  info->set_peer(session.peer);
  info->set_busy(session.activity.busy);
  const auto last = std::max(session.opened, session.activity.last_active);
  info->set_idle_seconds(session.activity.busy ? 0 : Seconds(now - last).count());
  info->set_last_operator(std::string(session.activity.last_command));
  FillUsage(session, info->mutable_usage());
}

void ListSessions(SessionManager* manager, const Tenant& who, v1::ListSessionsReply* reply) {
  for (const SessionSnapshot& session : manager->Snapshots()) {
    if (MayAdminister(who, *session.tenant)) FillSessionInfo(session, reply->add_sessions());
  }
  if (const MemoryBudget* budget = manager->options().budget) {
    reply->set_memory_bytes(static_cast<uint64_t>(budget->used()));
    reply->set_memory_limit_bytes(static_cast<uint64_t>(budget->limit()));
  }
}

void ListTenants(SessionManager* manager, const Tenant& who, const std::vector<TenantPtr>& named,
                 v1::ListTenantsReply* reply) {
  std::map<std::string, v1::TenantInfo> tenants;
  const auto entry = [&tenants](const Tenant& tenant) {
    v1::TenantInfo* info = &tenants[tenant.name];
    info->set_name(tenant.name);
    info->set_weight(tenant.weight);
    info->set_priority(NameOf(tenant.priority));
    info->set_max_sessions(static_cast<uint64_t>(tenant.max_sessions));
    info->set_memory_limit_bytes(static_cast<uint64_t>(tenant.memory_bytes));
    info->set_session_memory_limit_bytes(static_cast<uint64_t>(tenant.session_memory_bytes));
    return info;
  };
  for (const SessionSnapshot& session : manager->Snapshots()) {
    if (!MayAdminister(who, *session.tenant)) continue;
    v1::TenantInfo* info = entry(*session.tenant);
    info->set_sessions(info->sessions() + 1);
    info->set_memory_bytes(info->memory_bytes() + Bytes(session.stats.memory_bytes));
    info->set_commands(info->commands() + Bytes(session.stats.commands));
    info->set_compute_seconds(info->compute_seconds() + Seconds(session.activity.computed).count());
  }
  // What the file says now counts, where a session has kept what it said when it was opened.
  for (const TenantPtr& tenant : named) {
    if (MayAdminister(who, *tenant)) entry(*tenant);
  }
  for (auto& tenant : tenants) *reply->add_tenants() = std::move(tenant.second);
}

void DescribeDaemon(SessionManager* manager, v1::DescribeDaemonReply* reply) {
  const ManagerOptions& options = manager->options();
  reply->set_version(kVersion);
  reply->set_draining(manager->draining());
  reply->set_tracing(options.session.tracer != nullptr && options.session.tracer->running());
  uint64_t attached = 0;
  const std::vector<SessionSnapshot> sessions = manager->Snapshots();
  for (const SessionSnapshot& session : sessions) attached += session.attached ? 1 : 0;
  reply->set_sessions(sessions.size());
  reply->set_attached(attached);
  reply->set_max_sessions(options.max_sessions);
  reply->set_lease_seconds(Seconds(options.lease).count());
  if (options.budget != nullptr) {
    reply->set_memory_bytes(Bytes(options.budget->used()));
    reply->set_memory_limit_bytes(Bytes(options.budget->limit()));
  }
}

absl::Status KillSession(SessionManager* manager, const Tenant& who,
                         const v1::KillSessionRequest& request) {
  return manager->Kill(request.number(), [&](const SessionRecord& record) {
    return MayAdminister(who, *record.owner.tenant);
  });
}

absl::Status LimitSession(SessionManager* manager, const Tenant& who,
                          const v1::LimitSessionRequest& request) {
  const SessionRecordPtr record = manager->FindByNumber(request.number());
  if (record == nullptr || !MayAdminister(who, *record->owner.tenant)) {
    return NoSession(request.number());
  }
  const MemoryBudget* budget = manager->options().budget;
  const int64_t most = budget == nullptr ? INT64_MAX : budget->limit();
  if (request.memory_bytes() == 0 || request.memory_bytes() > static_cast<uint64_t>(most)) {
    return ValueError("[limit_session] expects at least 1 byte and at most the daemon's --memory, ",
                      most, ", got ", request.memory_bytes());
  }
  record->session->account()->set_limit(static_cast<int64_t>(request.memory_bytes()));
  return absl::OkStatus();
}

absl::Status StartTrace(SessionManager* manager, const v1::StartTraceRequest& request) {
  Tracer* const tracer = manager->options().session.tracer;
  if (tracer == nullptr) return absl::UnimplementedError("[trace] this daemon does not trace");
  if (request.session() != 0 && manager->FindByNumber(request.session()) == nullptr) {
    return NoSession(request.session());
  }
  TraceRequest trace;
  trace.session = request.session();
  // What is no number, or too large for one of milliseconds, is 0, which is refused.
  const double milliseconds = request.seconds() * 1000;
  if (milliseconds > 0 && milliseconds < 1e12) {
    trace.length = std::chrono::milliseconds(static_cast<int64_t>(std::ceil(milliseconds)));
  }
  return tracer->Start(trace);
}

absl::Status ReadTrace(SessionManager* manager, v1::ReadTraceReply* reply) {
  Tracer* const tracer = manager->options().session.tracer;
  if (tracer == nullptr) return absl::UnimplementedError("[trace] this daemon does not trace");
  CHX_ASSIGN_OR_RETURN(const TracePart part, tracer->Read(kSpansInAReply));
  reply->set_start_unix_ns(
      Bytes(std::chrono::duration_cast<std::chrono::nanoseconds>(part.began_at.time_since_epoch())
                .count()));
  reply->set_more(part.more);
  reply->set_version(kVersion);
  reply->set_host(HostName());
  reply->set_epoch(manager->epoch());
  const Devices& devices = manager->devices();
  for (int i = 0; i < devices.size(); ++i) reply->add_devices(devices.at(i).name());
  for (const TracePart::Session& session : part.sessions) {
    v1::TracedSession* traced = reply->add_sessions();
    traced->set_number(session.number);
    traced->set_client_name(session.name.client);
    traced->set_tenant(session.name.tenant);
    traced->set_dropped(session.dropped);
    std::map<absl::string_view, uint32_t> names;
    for (const Span& span : session.spans) FillSpan(span, part.began, &names, traced->add_spans());
    std::vector<std::string> in_order(names.size());
    for (const auto& [name, index] : names) in_order[index] = std::string(name);
    for (std::string& name : in_order) traced->add_names(std::move(name));
  }
  return absl::OkStatus();
}

}  // namespace chx::server
