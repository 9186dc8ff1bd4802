#include <nlohmann/json.hpp>

#include <iterator>
#include <string>
#include <utility>

#include "server/web/daemon_link.h"

namespace chx::server {
namespace {

using Json = nlohmann::json;

Json OfDevices(const v1::NodeStatusReply& status) {
  Json list = Json::array();
  for (const v1::DeviceStatus& device : status.devices()) {
    list.push_back({{"name", device.name()},
                    {"memory_bytes", device.memory_bytes()},
                    {"used_bytes", device.used_bytes()},
                    {"live_bytes", device.live_bytes()}});
  }
  return list;
}

Json OfTenants(const v1::NodeStatusReply& status) {
  Json list = Json::array();
  for (const v1::TenantStatus& tenant : status.tenants()) {
    list.push_back({{"name", tenant.name()},
                    {"sessions", tenant.sessions()},
                    {"live_bytes", tenant.live_bytes()},
                    {"commands", tenant.commands()},
                    {"errors", tenant.errors()}});
  }
  return list;
}

Json OfSessions(const v1::NodeStatusReply& status) {
  Json list = Json::array();
  for (const v1::SessionStatus& session : status.sessions()) {
    const v1::SessionInfo& info = session.info();
    list.push_back({{"number", info.number()},
                    {"client", info.client_name()},
                    {"tenant", session.tenant()},
                    {"age_seconds", info.age_seconds()},
                    {"attached", info.attached()},
                    {"handles", info.handles()},
                    {"memory_bytes", info.memory_bytes()},
                    {"memory_limit_bytes", info.memory_limit_bytes()},
                    {"commands", info.commands()},
                    {"errors", info.errors()}});
  }
  return list;
}

Json OfOpGroups(const v1::NodeStatusReply& status) {
  Json list = Json::array();
  for (const v1::OpGroupStatus& group : status.op_groups()) {
    list.push_back(
        {{"name", group.name()}, {"kernels", group.kernels()}, {"seconds", group.seconds()}});
  }
  return list;
}

Json OfSlowCommands(const v1::NodeStatusReply& status) {
  Json list = Json::array();
  for (const v1::SlowCommandStatus& slow : status.slow_commands()) {
    list.push_back({{"session", slow.session()},
                    {"tenant", slow.tenant()},
                    {"op", slow.op()},
                    {"inputs", slow.inputs()},
                    {"location", slow.location()},
                    {"seconds", slow.seconds()},
                    {"ended", slow.ended()}});
  }
  return list;
}

// Values that are not finite are null.
Json OfRuns(const v1::NodeStatusReply& status) {
  const char* const states[] = {"running", "paused", "ended", "suspended"};
  Json list = Json::array();
  for (const v1::RunStatus& run : status.runs()) {
    const v1::RunInfo& info = run.run();
    Json curves = Json::array();
    for (const v1::RunCurve& curve : run.curves()) {
      curves.push_back(
          {{"metric", curve.metric()}, {"steps", curve.steps()}, {"values", curve.values()}});
    }
    list.push_back({{"session", run.session()},
                    {"session_name", run.session_name()},
                    {"tenant", run.tenant()},
                    {"name", info.name()},
                    {"state", states[info.state() % std::size(states)]},
                    {"step", info.step()},
                    {"steps", info.steps()},
                    {"steps_per_epoch", info.steps_per_epoch()},
                    {"age_seconds", run.age_seconds()},
                    {"left_seconds", run.left_seconds()},
                    {"reason", run.reason()},
                    {"message", run.text()},
                    {"curves", std::move(curves)}});
  }
  return list;
}

}  // namespace

std::string NodeStatusJson(const v1::NodeStatusReply& status) {
  const Json json = {{"version", status.version()},
                     {"uptime_seconds", status.uptime_seconds()},
                     {"serving", status.serving()},
                     {"memory_bytes", status.memory_bytes()},
                     {"memory_limit_bytes", status.memory_limit_bytes()},
                     {"waiting", status.waiting()},
                     {"slow_command_seconds", status.slow_command_seconds()},
                     {"num_sessions", status.num_sessions()},
                     {"devices", OfDevices(status)},
                     {"tenants", OfTenants(status)},
                     {"sessions", OfSessions(status)},
                     {"num_runs", status.num_runs()},
                     {"runs", OfRuns(status)},
                     {"op_groups", OfOpGroups(status)},
                     {"slow_commands", OfSlowCommands(status)}};
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace chx::server
