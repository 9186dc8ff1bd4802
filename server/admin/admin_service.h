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
  grpc::Status DescribeDaemon(grpc::ServerContext* context,
                              const v1::DescribeDaemonRequest* request,
                              v1::DescribeDaemonReply* reply) override;
  grpc::Status ListTenants(grpc::ServerContext* context, const v1::ListTenantsRequest* request,
                           v1::ListTenantsReply* reply) override;
  grpc::Status LimitSession(grpc::ServerContext* context, const v1::LimitSessionRequest* request,
                            v1::LimitSessionReply* reply) override;
  grpc::Status Drain(grpc::ServerContext* context, const v1::DrainRequest* request,
                     v1::DrainReply* reply) override;
  grpc::Status StartTrace(grpc::ServerContext* context, const v1::StartTraceRequest* request,
                          v1::StartTraceReply* reply) override;
  grpc::Status ReadTrace(grpc::ServerContext* context, const v1::ReadTraceRequest* request,
                         v1::ReadTraceReply* reply) override;

 private:
  FrameCaller daemon_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ADMIN_ADMIN_SERVICE_H_
