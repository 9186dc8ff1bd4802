#include "server/admin/admin.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/version_info.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/admin/admin_service.h"
#include "server/admin/auth.h"
#include "server/admin/control.pb.h"
#include "server/log/log.h"
#include "server/process/child.h"
#include "server/process/confine.h"
#include "server/process/library_log.h"
#include "server/process/packets.h"

#if GRPC_CPP_VERSION_MINOR < 65
#include <grpc/support/log.h>
#endif

namespace chx::server {
namespace {

// Threads' stacks are counted, too.
constexpr size_t kMemoryBytes = 128 << 20;
constexpr size_t kStackBytes = 256 << 10;
constexpr int kThreads = 64;
constexpr int kNiceness = 5;  // whoever floods it, sessions come first

void BoundStacks() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

std::shared_ptr<grpc::ServerCredentials> CredentialsFor(const admin::Packet::Settings& settings) {
  if (!settings.asks_token()) return grpc::InsecureServerCredentials();
  // Plaintext too, but with a place for the token's check.
  auto credentials = grpc::experimental::LocalServerCredentials(UDS);
  credentials->SetAuthMetadataProcessor(
      std::make_shared<TokenProcessor>(absl::flat_hash_set<std::string>(
          settings.token_hashes().begin(), settings.token_hashes().end())));
  return credentials;
}

// gRPC listens nowhere itself.
class Server {
 public:
  Server(int daemon, const admin::Packet::Settings& settings)
      : service_(daemon, settings.token(), settings.by_tenant()) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    using FromFd = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
    connections_ = builder.experimental().AddExternalConnectionAcceptor(FromFd::FROM_FD,
                                                                        CredentialsFor(settings));
    builder.RegisterService(&service_);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8 << 10);
    builder.SetMaxReceiveMessageSize(64 << 10);
    grpc::ResourceQuota quota("admin");
    quota.SetMaxThreads(kThreads);
    builder.SetResourceQuota(quota);
    server_ = builder.BuildAndStart();
  }

  bool started() const { return server_ != nullptr; }
  void SetServing(const admin::Packet::Settings& settings) {
    grpc::HealthCheckServiceInterface& health = *server_->GetHealthCheckService();
    health.SetServingStatus(settings.serving());  // of all services, so it comes first
    for (const std::string& device : settings.working_devices()) {
      health.SetServingStatus(device, settings.serving());
    }
    for (const std::string& device : settings.lost_devices()) {
      health.SetServingStatus(device, false);
    }
  }
  void Serve(int socket) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = socket;
    connections_->HandleNewConnection(&connection);
  }

 private:
  AdminServiceImpl service_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

int RunAdmin() {
  ConfigureLogFromEnvironment("chxd-admin");
  RouteLibraryLogs();
#if GRPC_CPP_VERSION_MINOR < 65  // of version 1; later ones log by Abseil
  gpr_set_log_function([](gpr_log_func_args* line) {
    LogOfLibrary(line->severity == GPR_LOG_SEVERITY_ERROR, line->message);
  });
#endif
  BoundStacks();
  ConfineProcess(kMemoryBytes);
  setpriority(PRIO_PROCESS, 0, kNiceness);
  admin::Packet packet;
  std::vector<int> sockets;
  if (ReceivePacket(kControlDescriptor, &packet, &sockets) != PacketResult::kPacket ||
      sockets.size() != 1) {
    return 1;
  }
  // Never destroyed: calls that wait do not keep the process from ending.
  auto& server = *new Server(sockets[0], packet.settings());
  if (!server.started()) return 1;
  server.SetServing(packet.settings());
  while (ReceivePacket(kControlDescriptor, &packet, &sockets) == PacketResult::kPacket) {
    if (packet.has_settings()) server.SetServing(packet.settings());
    for (const int socket : sockets) server.Serve(socket);
  }
  _exit(0);
}

}  // namespace chx::server
