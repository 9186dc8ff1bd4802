#include "server/rpc/node_status.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/observability/collector.h"
#include "server/observability/process_stats.h"
#include "server/rpc/admin_queries.h"
#include "server/rpc/run_listing.h"
#include "server/rpc/version.h"

namespace chx::server {
namespace {

// A page shows no more, and the reply stays small.
constexpr int kMaxSessions = 200;

MetricSources SourcesOf(const SessionManager& manager) {
  MetricSources sources;
  sources.metrics = manager.options().metrics.get();
  sources.devices = &manager.devices();
  sources.budget = manager.options().budget;
  const ComputeSlots* const slots = manager.options().session.compute_slots;
  if (slots != nullptr) sources.waiting = slots->waiting();
  sources.version = kVersion;
  return sources;
}

uint64_t Unsigned(int64_t value) { return static_cast<uint64_t>(std::max<int64_t>(value, 0)); }

template <typename Counters>
int64_t SumOf(const Counters& counters) {
  int64_t sum = 0;
  for (const auto& each : counters) sum += each.value();
  return sum;
}

void FillDevices(const Devices& devices, const SessionCounters& all, v1::NodeStatusReply* reply) {
  for (int i = 0; i < devices.size(); ++i) {
    v1::DeviceStatus* const device = reply->add_devices();
    device->set_name(devices.at(i).name());
    device->set_memory_bytes(devices.at(i).memory_bytes());
    device->set_used_bytes(Unsigned(devices.slot(i).used_bytes.load()));
    device->set_live_bytes(Unsigned(all.devices[i].live_bytes.value()));
  }
}

void AddTenant(const SessionCounters& counters, v1::TenantStatus* tenant) {
  const int64_t sessions = counters.opened.value() - SumOf(counters.ended);
  int64_t live = 0;
  for (const DeviceCounters& device : counters.devices) live += device.live_bytes.value();
  tenant->set_sessions(tenant->sessions() + static_cast<uint32_t>(Unsigned(sessions)));
  tenant->set_live_bytes(tenant->live_bytes() + Unsigned(live));
  tenant->set_commands(tenant->commands() + Unsigned(counters.commands.value()));
  tenant->set_errors(tenant->errors() + Unsigned(SumOf(counters.errors)));
}

void FillOpGroups(const SessionCounters& all, v1::NodeStatusReply* reply) {
  const OpGroups& groups = OpGroups::Global();
  for (int g = 0; g < groups.size(); ++g) {
    int64_t kernels = 0;
    int64_t nanoseconds = 0;
    for (const DeviceCounters& device : all.devices) {
      kernels += device.groups[g].kernels.value();
      nanoseconds += device.groups[g].nanoseconds.value();
    }
    v1::OpGroupStatus* const group = reply->add_op_groups();
    group->set_name(groups.name(g));
    group->set_kernels(Unsigned(kernels));
    group->set_seconds(static_cast<double>(nanoseconds) * 1e-9);
  }
}

void FillSessions(SessionManager* manager, v1::NodeStatusReply* reply) {
  std::vector<SessionSnapshot> sessions = manager->Snapshots();
  reply->set_num_sessions(static_cast<uint32_t>(sessions.size()));
  const auto larger = [](const SessionSnapshot& a, const SessionSnapshot& b) {
    return a.stats.memory_bytes > b.stats.memory_bytes;
  };
  if (sessions.size() > kMaxSessions) {
    std::partial_sort(sessions.begin(), sessions.begin() + kMaxSessions, sessions.end(), larger);
    sessions.resize(kMaxSessions);
  }
  for (const SessionSnapshot& session : sessions) {
    v1::SessionStatus* const status = reply->add_sessions();
    FillSessionInfo(session, status->mutable_info());
    status->set_tenant(session.tenant->name);
  }
}

void FillSlowCommands(const Metrics& metrics, v1::NodeStatusReply* reply) {
  for (const SlowCommand& slow : metrics.SlowCommands()) {
    v1::SlowCommandStatus* const status = reply->add_slow_commands();
    status->set_session(slow.session);
    status->set_tenant(slow.tenant);
    status->set_op(slow.op);
    status->set_inputs(slow.inputs);
    status->set_location(slow.location);
    status->set_seconds(static_cast<double>(slow.milliseconds) * 1e-3);
    status->set_ended(std::chrono::duration<double>(slow.ended.time_since_epoch()).count());
  }
}

}  // namespace

void FillMetrics(SessionManager* manager, v1::MetricsReply* reply) {
  if (manager->options().metrics == nullptr) return;
  reply->set_text(ToPrometheusText(CollectFamilies(SourcesOf(*manager))));
}

void FillNodeStatus(SessionManager* manager, v1::NodeStatusReply* reply) {
  const ManagerOptions& options = manager->options();
  reply->set_version(kVersion);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  reply->set_uptime_seconds(std::max(now - ReadProcessStats().start_time, 0.0));
  reply->set_serving(!manager->draining());
  if (options.budget != nullptr) {
    reply->set_memory_bytes(Unsigned(options.budget->used()));
    reply->set_memory_limit_bytes(Unsigned(options.budget->limit()));
  }
  reply->set_waiting(static_cast<uint32_t>(SourcesOf(*manager).waiting));
  const std::chrono::duration<double> slow = options.session.slow_command;
  reply->set_slow_command_seconds(slow.count());
  FillSessions(manager, reply);
  FillRuns(manager, reply);
  if (options.metrics == nullptr) return;
  SessionCounters all(manager->devices().size());
  std::map<std::string, v1::TenantStatus> tenants;
  for (const auto& [labels, counters] : options.metrics->Sum()) {
    all.Add(*counters);
    AddTenant(*counters, &tenants[labels.tenant]);
  }
  for (auto& [name, tenant] : tenants) {
    tenant.set_name(name);
    *reply->add_tenants() = std::move(tenant);
  }
  FillDevices(manager->devices(), all, reply);
  FillOpGroups(all, reply);
  FillSlowCommands(*options.metrics, reply);
}

}  // namespace chx::server
