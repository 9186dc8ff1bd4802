#include "client/admin/json.h"

namespace chx {

Json ToJson(const DaemonStatus& daemon) {
  return {{"version", daemon.version},
          {"uptime_seconds", daemon.uptime_seconds},
          {"draining", daemon.draining},
          {"tracing", daemon.tracing},
          {"sessions", daemon.sessions},
          {"attached", daemon.attached},
          {"max_sessions", daemon.max_sessions},
          {"memory_bytes", daemon.memory_bytes},
          {"memory_limit_bytes", daemon.memory_limit_bytes},
          {"lease_seconds", daemon.lease_seconds}};
}

Json ToJson(const DeviceStatus& device) {
  return {{"name", device.name},
          {"kind", device.kind},
          {"memory_bytes", device.memory_bytes},
          {"used_bytes", device.used_bytes},
          {"lost", device.lost}};
}

Json ToJson(const SessionStatus& session) {
  return {{"number", session.number},
          {"client_name", session.client_name},
          {"tenant", session.tenant},
          {"peer", session.peer},
          {"state", session.state},
          {"age_seconds", session.age_seconds},
          {"idle_seconds", session.idle_seconds},
          {"memory_bytes", session.memory_bytes},
          {"memory_limit_bytes", session.memory_limit_bytes},
          {"host_array_bytes", session.host_array_bytes},
          {"device_array_bytes", session.device_array_bytes},
          {"record_bytes", session.record_bytes},
          {"transfer_bytes", session.transfer_bytes},
          {"handles", session.handles},
          {"commands", session.commands},
          {"errors", session.errors},
          {"compute_seconds", session.compute_seconds},
          {"device_seconds", session.device_seconds},
          {"last_operator", session.last_operator}};
}

Json ToJson(const TenantStatus& tenant) {
  return {{"name", tenant.name},
          {"weight", tenant.weight},
          {"priority", tenant.priority},
          {"sessions", tenant.sessions},
          {"max_sessions", tenant.max_sessions},
          {"memory_bytes", tenant.memory_bytes},
          {"memory_limit_bytes", tenant.memory_limit_bytes},
          {"session_memory_limit_bytes", tenant.session_memory_limit_bytes},
          {"commands", tenant.commands},
          {"compute_seconds", tenant.compute_seconds}};
}

namespace {

Json MetricsToJson(const RunStatus::Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = value;
  return json;
}

}  // namespace

Json ToJson(const RunStatus& run) {
  return {{"session", run.session},
          {"session_name", run.session_name},
          {"tenant", run.tenant},
          {"name", run.name},
          {"state", run.state},
          {"step", run.step},
          {"steps", run.steps},
          {"epoch", run.epoch},
          {"age_seconds", run.age_seconds},
          {"left_seconds", run.left_seconds},
          {"metrics", MetricsToJson(run.metrics)},
          {"evaluation_metrics", MetricsToJson(run.evaluation_metrics)},
          {"reason", run.reason},
          {"message", run.message}};
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace chx
