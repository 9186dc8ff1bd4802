#include "server/rpc/admin_service.h"

namespace chx {

grpc::Status AdminServiceImpl::ListDevices(grpc::ServerContext* context,
                                           const v1::ListDevicesRequest* request,
                                           v1::ListDevicesReply* reply) {
  const Devices& devices = manager_->devices();
  for (int i = 0; i < devices.size(); ++i) {
    v1::DeviceInfo* info = reply->add_devices();
    info->set_name(devices.at(i).name());
    info->set_memory_bytes(devices.at(i).memory_bytes());
    info->set_used_bytes(static_cast<uint64_t>(devices.slot(i).used_bytes.load()));
  }
  return grpc::Status::OK;
}

grpc::Status AdminServiceImpl::ListSessions(grpc::ServerContext* context,
                                            const v1::ListSessionsRequest* request,
                                            v1::ListSessionsReply* reply) {
  const auto now = std::chrono::steady_clock::now();
  for (const SessionRecordPtr& record : manager_->List()) {
    const SessionStats stats = record->session->stats();
    v1::SessionInfo* info = reply->add_sessions();
    info->set_client_name(record->client_name);
    info->set_age_seconds(std::chrono::duration<double>(now - record->opened).count());
    info->set_attached(manager_->attached(record));
    info->set_handles(static_cast<uint64_t>(stats.handles));
    info->set_memory_bytes(static_cast<uint64_t>(stats.memory_bytes));
    info->set_memory_limit_bytes(static_cast<uint64_t>(record->session->limits().memory_bytes));
    info->set_commands(static_cast<uint64_t>(stats.commands));
    info->set_errors(static_cast<uint64_t>(stats.errors));
  }
  return grpc::Status::OK;
}

}  // namespace chx
