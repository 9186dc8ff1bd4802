// What a node does at this moment, for its operator: metrics, and what the status page shows.
#ifndef CHX_SERVER_RPC_NODE_STATUS_H_
#define CHX_SERVER_RPC_NODE_STATUS_H_

#include "proto/chxd.pb.h"
#include "server/session/session_manager.h"

namespace chx::server {

// Neither waits for a session.
void FillMetrics(SessionManager* manager, v1::MetricsReply* reply);
void FillNodeStatus(SessionManager* manager, v1::NodeStatusReply* reply);

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_NODE_STATUS_H_
