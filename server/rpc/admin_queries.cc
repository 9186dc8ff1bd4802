#include "server/rpc/admin_queries.h"

#include <chrono>

namespace chx::server {

void ListDevices(const SessionManager& manager, v1::ListDevicesReply* reply) {
  const Devices& devices = manager.devices();
  for (int i = 0; i < devices.size(); ++i) {
    v1::DeviceInfo* info = reply->add_devices();
    info->set_name(devices.at(i).name());
    info->set_memory_bytes(devices.at(i).memory_bytes());
    info->set_used_bytes(static_cast<uint64_t>(devices.slot(i).used_bytes.load()));
  }
}

void FillSessionInfo(const SessionSnapshot& session, v1::SessionInfo* info) {
  const auto now = std::chrono::steady_clock::now();
  info->set_number(session.number);
  info->set_tenant(session.tenant->name);
  info->set_client_name(session.client_name);
  info->set_age_seconds(std::chrono::duration<double>(now - session.opened).count());
  info->set_attached(session.attached);
  info->set_handles(static_cast<uint64_t>(session.stats.handles));
  info->set_memory_bytes(static_cast<uint64_t>(session.stats.memory_bytes));
  info->set_memory_limit_bytes(static_cast<uint64_t>(session.memory_limit_bytes));
  info->set_array_bytes(static_cast<uint64_t>(session.stats.array_bytes));
  info->set_spilled_bytes(static_cast<uint64_t>(session.stats.spilled_bytes));
  info->set_commands(static_cast<uint64_t>(session.stats.commands));
  info->set_errors(static_cast<uint64_t>(session.stats.errors));
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

absl::Status KillSession(SessionManager* manager, const Tenant& who,
                         const v1::KillSessionRequest& request) {
  return manager->Kill(request.number(), [&](const SessionRecord& record) {
    return MayAdminister(who, *record.owner.tenant);
  });
}

}  // namespace chx::server
