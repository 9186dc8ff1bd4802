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

}  // namespace chx::server
