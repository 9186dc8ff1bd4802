#include "server/admin/admin_service.h"

#include "server/admin/auth.h"

namespace chx::server {
namespace {

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace

grpc::Status AdminServiceImpl::Ask(const grpc::ServerContext& context, v1::Call call,
                                   absl::FunctionRef<void(v1::Reply*)> take) {
  if (by_tenant_) call.set_bearer(BearerOf(context.client_metadata()));
  v1::Reply reply;
  const absl::Status status = daemon_.Call(call, &reply);
  if (status.ok()) take(&reply);
  return ToGrpc(status);
}

grpc::Status AdminServiceImpl::ListDevices(grpc::ServerContext* context,
                                           const v1::ListDevicesRequest* request,
                                           v1::ListDevicesReply* reply) {
  v1::Call call;
  *call.mutable_list_devices() = *request;
  return Ask(*context, call,
             [reply](v1::Reply* answer) { reply->Swap(answer->mutable_list_devices()); });
}

grpc::Status AdminServiceImpl::ListSessions(grpc::ServerContext* context,
                                            const v1::ListSessionsRequest* request,
                                            v1::ListSessionsReply* reply) {
  v1::Call call;
  *call.mutable_list_sessions() = *request;
  return Ask(*context, call,
             [reply](v1::Reply* answer) { reply->Swap(answer->mutable_list_sessions()); });
}

grpc::Status AdminServiceImpl::KillSession(grpc::ServerContext* context,
                                           const v1::KillSessionRequest* request,
                                           v1::KillSessionReply* reply) {
  v1::Call call;
  *call.mutable_kill_session() = *request;
  return Ask(*context, call, [](v1::Reply*) {});
}

grpc::Status AdminServiceImpl::DescribeDaemon(grpc::ServerContext* context,
                                              const v1::DescribeDaemonRequest* request,
                                              v1::DescribeDaemonReply* reply) {
  v1::Call call;
  *call.mutable_describe_daemon() = *request;
  return Ask(*context, call,
             [reply](v1::Reply* answer) { reply->Swap(answer->mutable_describe_daemon()); });
}

grpc::Status AdminServiceImpl::ListTenants(grpc::ServerContext* context,
                                           const v1::ListTenantsRequest* request,
                                           v1::ListTenantsReply* reply) {
  v1::Call call;
  *call.mutable_list_tenants() = *request;
  return Ask(*context, call,
             [reply](v1::Reply* answer) { reply->Swap(answer->mutable_list_tenants()); });
}

grpc::Status AdminServiceImpl::LimitSession(grpc::ServerContext* context,
                                            const v1::LimitSessionRequest* request,
                                            v1::LimitSessionReply* reply) {
  v1::Call call;
  *call.mutable_limit_session() = *request;
  return Ask(*context, call, [](v1::Reply*) {});
}

grpc::Status AdminServiceImpl::Drain(grpc::ServerContext* context, const v1::DrainRequest* request,
                                     v1::DrainReply* reply) {
  v1::Call call;
  *call.mutable_drain() = *request;
  return Ask(*context, call, [](v1::Reply*) {});
}

grpc::Status AdminServiceImpl::Snapshot(grpc::ServerContext* context,
                                        const v1::SnapshotRequest* request,
                                        v1::SnapshotReply* reply) {
  v1::Call call;
  *call.mutable_snapshot() = *request;
  return Ask(*context, call,
             [reply](v1::Reply* answer) { reply->Swap(answer->mutable_snapshot()); });
}

grpc::Status AdminServiceImpl::StartTrace(grpc::ServerContext* context,
                                          const v1::StartTraceRequest* request,
                                          v1::StartTraceReply* reply) {
  v1::Call call;
  *call.mutable_start_trace() = *request;
  return Ask(*context, call, [](v1::Reply*) {});
}

grpc::Status AdminServiceImpl::ReadTrace(grpc::ServerContext* context,
                                         const v1::ReadTraceRequest* request,
                                         v1::ReadTraceReply* reply) {
  v1::Call call;
  *call.mutable_read_trace() = *request;
  return Ask(*context, call,
             [reply](v1::Reply* answer) { reply->Swap(answer->mutable_read_trace()); });
}

grpc::Status AdminServiceImpl::ListAllRuns(grpc::ServerContext* context,
                                           const v1::ListAllRunsRequest* request,
                                           v1::ListAllRunsReply* reply) {
  v1::Call call;
  *call.mutable_list_all_runs() = *request;
  return Ask(*context, call,
             [reply](v1::Reply* answer) { reply->Swap(answer->mutable_list_all_runs()); });
}

grpc::Status AdminServiceImpl::OrderRun(grpc::ServerContext* context,
                                        const v1::OrderRunRequest* request,
                                        v1::OrderRunReply* reply) {
  v1::Call call;
  *call.mutable_order_run() = *request;
  return Ask(*context, call, [](v1::Reply*) {});
}

}  // namespace chx::server
