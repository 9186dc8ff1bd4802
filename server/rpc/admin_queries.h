// What the node holds, for administrators, as messages: by frames and by gRPC.
#ifndef CHX_SERVER_RPC_ADMIN_QUERIES_H_
#define CHX_SERVER_RPC_ADMIN_QUERIES_H_

#include "absl/status/status.h"
#include "proto/chxd.pb.h"
#include "server/session/session_manager.h"

namespace chx::server {

void ListDevices(const SessionManager& manager, v1::ListDevicesReply* reply);
void FillSessionInfo(const SessionSnapshot& session, v1::SessionInfo* info);
// Those that `who` may administer, here and below. A session of others is NOT_FOUND.
void ListSessions(SessionManager* manager, const Tenant& who, v1::ListSessionsReply* reply);
// Those that have sessions, and those that the daemon's tenants file names.
void ListTenants(SessionManager* manager, const Tenant& who, const std::vector<TenantPtr>& named,
                 v1::ListTenantsReply* reply);
// All but the uptime.
void DescribeDaemon(SessionManager* manager, v1::DescribeDaemonReply* reply);
absl::Status KillSession(SessionManager* manager, const Tenant& who,
                         const v1::KillSessionRequest& request);
absl::Status LimitSession(SessionManager* manager, const Tenant& who,
                          const v1::LimitSessionRequest& request);
absl::Status StartTrace(SessionManager* manager, const v1::StartTraceRequest& request);
absl::Status ReadTrace(SessionManager* manager, v1::ReadTraceReply* reply);

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_ADMIN_QUERIES_H_
