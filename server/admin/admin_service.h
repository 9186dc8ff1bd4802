// AdminService over gRPC: what the node holds, for operators.
#ifndef CHX_SERVER_ADMIN_ADMIN_SERVICE_H_
#define CHX_SERVER_ADMIN_ADMIN_SERVICE_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "proto/admin.grpc.pb.h"
#include "proto/frame_caller.h"

namespace chx::server {

// Asks the daemon, by the call of the same name.
class AdminServiceImpl final : public v1::AdminService::Service {
 public:
  // As FrameCaller. `by_tenant`: calls go on with their own tokens.
  AdminServiceImpl(int daemon, const std::string& token, bool by_tenant = false)
      : daemon_(daemon, token), by_tenant_(by_tenant) {}

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
  grpc::Status Snapshot(grpc::ServerContext* context, const v1::SnapshotRequest* request,
                        v1::SnapshotReply* reply) override;
  grpc::Status StartTrace(grpc::ServerContext* context, const v1::StartTraceRequest* request,
                          v1::StartTraceReply* reply) override;
  grpc::Status ReadTrace(grpc::ServerContext* context, const v1::ReadTraceRequest* request,
                         v1::ReadTraceReply* reply) override;
  grpc::Status ListAllRuns(grpc::ServerContext* context, const v1::ListAllRunsRequest* request,
                           v1::ListAllRunsReply* reply) override;
  grpc::Status OrderRun(grpc::ServerContext* context, const v1::OrderRunRequest* request,
                        v1::OrderRunReply* reply) override;

 private:
  // Asks by `call`; if there is an answer, `take` gets it.
  grpc::Status Ask(const grpc::ServerContext& context, v1::Call call,
                   absl::FunctionRef<void(v1::Reply*)> take);

  FrameCaller daemon_;
  const bool by_tenant_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ADMIN_ADMIN_SERVICE_H_
