// AdminService over gRPC: what the node holds, for operators.
#ifndef CHX_SERVER_ADMIN_ADMIN_SERVICE_H_
#define CHX_SERVER_ADMIN_ADMIN_SERVICE_H_

#include <string>

#include "proto/admin.grpc.pb.h"
#include "proto/frame_caller.h"

namespace chx::server {

// Asks the daemon, by the call of the same name.
class AdminServiceImpl final : public v1::AdminService::Service {
 public:
  // As FrameCaller.
  AdminServiceImpl(int daemon, const std::string& token) : daemon_(daemon, token) {}

  grpc::Status ListDevices(grpc::ServerContext* context, const v1::ListDevicesRequest* request,
                           v1::ListDevicesReply* reply) override;
  grpc::Status ListSessions(grpc::ServerContext* context, const v1::ListSessionsRequest* request,
                            v1::ListSessionsReply* reply) override;
  grpc::Status KillSession(grpc::ServerContext* context, const v1::KillSessionRequest* request,
                           v1::KillSessionReply* reply) override;

 private:
  FrameCaller daemon_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ADMIN_ADMIN_SERVICE_H_
