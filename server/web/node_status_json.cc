#include <nlohmann/json.hpp>

#include <string>

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
                     {"op_groups", OfOpGroups(status)},
                     {"slow_commands", OfSlowCommands(status)}};
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace chx::server
