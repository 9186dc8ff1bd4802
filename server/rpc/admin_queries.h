// What the node holds, for operators, as messages: by frames and by gRPC.
#ifndef CHX_SERVER_RPC_ADMIN_QUERIES_H_
#define CHX_SERVER_RPC_ADMIN_QUERIES_H_

#include "absl/status/status.h"
#include "proto/chxd.pb.h"
#include "server/session/session_manager.h"

namespace chx::server {

void ListDevices(const SessionManager& manager, v1::ListDevicesReply* reply);
void FillSessionInfo(const SessionSnapshot& session, v1::SessionInfo* info);
// Those that `who` may administer.
void ListSessions(SessionManager* manager, const Tenant& who, v1::ListSessionsReply* reply);
// NOT_FOUND also for a session that `who` may not administer.
absl::Status KillSession(SessionManager* manager, const Tenant& who,
                         const v1::KillSessionRequest& request);

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_ADMIN_QUERIES_H_
