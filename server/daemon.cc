#include "server/daemon.h"

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/rpc/auth.h"
#include "server/rpc/limits.h"

namespace chx {
namespace {

// gRPC would remove the socket of a daemon that still listens.
bool SomebodyListens(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return connected;
}

std::shared_ptr<grpc::ServerCredentials> CredentialsFor(const Listener& listener,
                                                        const Options& options) {
  const bool tls = !listener.unix_socket && !options.tls_cert.empty();
  std::shared_ptr<grpc::ServerCredentials> credentials;
  if (tls) {
    grpc::SslServerCredentialsOptions ssl;
    ssl.pem_key_cert_pairs.push_back({options.tls_key, options.tls_cert});
    credentials = grpc::SslServerCredentials(ssl);
  } else if (options.token.empty()) {
    return grpc::InsecureServerCredentials();
  } else {
    // Plaintext too, but with a place for the token's check.
    credentials =
        grpc::experimental::LocalServerCredentials(listener.unix_socket ? UDS : LOCAL_TCP);
  }
  if (!options.token.empty()) {
    credentials->SetAuthMetadataProcessor(std::make_shared<TokenProcessor>(options.token));
  }
  return credentials;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Options& options,
                                                      const std::vector<Backend*>& backends) {
  // Else each bad string that a client sends is a line in the log.
  google::protobuf::SetLogHandler(nullptr);
  std::unique_ptr<Daemon> daemon(new Daemon);
  CHX_RETURN_IF_ERROR(daemon->devices_.Open(options.devices, backends));
  ManagerOptions manager;
  manager.session.memory_bytes = options.session_memory;
  manager.session.function_deadline = options.function_deadline;
  manager.lease = options.lease;
  daemon->manager_ = std::make_unique<SessionManager>(&daemon->devices_, manager);
  daemon->sessions_ = std::make_unique<SessionServiceImpl>(daemon->manager_.get());
  daemon->transfers_ = std::make_unique<TransferServiceImpl>(daemon->manager_.get());
  daemon->admin_ = std::make_unique<AdminServiceImpl>(daemon->manager_.get());
  CHX_RETURN_IF_ERROR(daemon->Listen(options));
  return daemon;
}

absl::Status Daemon::Listen(const Options& options) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  std::vector<int> ports(options.listeners.size(), 0);
  for (size_t i = 0; i < options.listeners.size(); ++i) {
    const Listener& listener = options.listeners[i];
    if (listener.unix_socket && SomebodyListens(listener.address)) {
      return absl::AlreadyExistsError(
          absl::StrCat("somebody already listens on ", listener.address));
    }
    builder.AddListeningPort(listener.Target(), CredentialsFor(listener, options), &ports[i]);
  }
  builder.RegisterService(sessions_.get());
  builder.RegisterService(transfers_.get());
  builder.RegisterService(admin_.get());
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxBatchBytes) + 4096);
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 128);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Finds peers that went without a word, which a Unix socket's cannot.
  const auto is_tcp = [](const Listener& listener) { return !listener.unix_socket; };
  if (std::any_of(options.listeners.begin(), options.listeners.end(), is_tcp)) {
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 30000);
  }
  // Threads: one for each stream, and some for what comes between.
  grpc::ResourceQuota quota("chxd");
  quota.SetMaxThreads(2048);
  builder.SetResourceQuota(quota);
  CHX_RETURN_IF_ERROR(StartBesides(options));
  // Sockets are made with mode 0600: nobody else can connect, not even for a moment.
  const mode_t old_mask = umask(0177);
  server_ = builder.BuildAndStart();
  umask(old_mask);
  if (server_ == nullptr) return absl::UnavailableError("cannot listen; is the address in use?");
  for (size_t i = 0; i < options.listeners.size(); ++i) {
    const Listener& listener = options.listeners[i];
    const std::string host = listener.address.substr(0, listener.address.rfind(':'));
    addresses_.push_back(listener.unix_socket ? listener.Target()
                                              : absl::StrCat(host, ":", ports[i]));
  }
  server_->GetHealthCheckService()->SetServingStatus(true);
  return absl::OkStatus();
}

// Where a path is too long for more sockets beside it, arrays are copied, as over TCP, and streams
// are gRPC's. Other reasons are errors: somebody else may have taken the places, to be asked
// instead.
absl::Status Daemon::StartBesides(const Options& options) {
  std::vector<std::string> sockets;
  for (const Listener& listener : options.listeners) {
    if (listener.unix_socket) sockets.push_back(listener.address);
  }
  if (sockets.empty()) return absl::OkStatus();
  auto segments = SegmentServer::Start(sockets, manager_.get());
  if (segments.ok()) {
    segments_ = *std::move(segments);
    sessions_->AllowSharedMemory();
  } else if (!absl::IsInvalidArgument(segments.status())) {
    return segments.status();
  }
  auto streams = LocalStreamServer::Start(sockets, manager_.get());
  if (streams.ok()) {
    local_streams_ = *std::move(streams);
  } else if (!absl::IsInvalidArgument(streams.status())) {
    return streams.status();
  }
  return absl::OkStatus();
}

void Daemon::Drain(std::chrono::milliseconds timeout) {
  server_->GetHealthCheckService()->SetServingStatus(false);
  sessions_->StopOpening();
  const auto end = std::chrono::steady_clock::now() + timeout;
  const auto busy = [this] {
    for (const SessionRecordPtr& record : manager_->List()) {
      if (manager_->attached(record)) return true;
    }
    return false;
  };
  while (busy() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  local_streams_ = nullptr;
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
}

Daemon::~Daemon() {
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }
}

}  // namespace chx
