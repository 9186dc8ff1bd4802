// AdminService: what the node holds, for operators.
#ifndef CHX_SERVER_RPC_ADMIN_SERVICE_H_
#define CHX_SERVER_RPC_ADMIN_SERVICE_H_

#include "proto/chxd.grpc.pb.h"
#include "server/session/session_manager.h"

namespace chx {

class AdminServiceImpl final : public v1::AdminService::Service {
 public:
  explicit AdminServiceImpl(SessionManager* manager) : manager_(manager) {}

  grpc::Status ListDevices(grpc::ServerContext* context, const v1::ListDevicesRequest* request,
                           v1::ListDevicesReply* reply) override;
  grpc::Status ListSessions(grpc::ServerContext* context, const v1::ListSessionsRequest* request,
                            v1::ListSessionsReply* reply) override;

 private:
  SessionManager* const manager_;
};

}  // namespace chx

#endif  // CHX_SERVER_RPC_ADMIN_SERVICE_H_
