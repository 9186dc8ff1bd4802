#include "server/daemon.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/sanitizers.h"
#include "ops/error.h"
#include "server/engine/host_memory.h"
#include "server/log/log.h"
#include "server/process/library_log.h"
#include "server/rpc/limits.h"
#include "server/rpc/local_socket.h"

namespace chx::server {
namespace {

// Who binds removes what is there; not the socket of a daemon that still listens.
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

// Connections take half of the descriptors at most: sessions have others, for their memory.
AdmissionLimits LimitsFor(const Options& options) {
  AdmissionLimits limits;
  limits.sessions = options.max_sessions;
  limits.sessions_per_peer = options.max_sessions_per_peer;
  rlimit descriptors = {};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  const size_t spare = 64;
  const size_t half = (std::max<size_t>(descriptors.rlim_cur, 2 * spare) - spare) / 2;
  limits.connections = std::min(2 * limits.sessions, half);
  limits.connections_per_peer = std::min(2 * limits.sessions_per_peer, half - half / 8);
  return limits;
}

constexpr size_t kMaxFormerTokens = 8;

// What libraries' buffers, stacks and connections may take beside what is counted.
constexpr int64_t kUncounted = int64_t{32} << 20;

absl::StatusOr<std::unique_ptr<MemoryBudget>> NewBudget(int64_t limit, HeapTrimmer* trimmer) {
  HeapWatch heap;
  if (!kSanitized) heap.resident = ResidentBytes;
  heap.trim = [trimmer] { return trimmer->Trim(); };
  heap.freed = [trimmer](int64_t bytes) { trimmer->Freed(bytes); };
  auto budget = std::make_unique<MemoryBudget>(limit, std::move(heap));
  // With what the devices have opened.
  const int64_t own = kUncounted + ResidentBytes();
  if (own + kSessionBytes > limit) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "--memory=", limit, " leaves no room for a session: the daemon itself takes ", own));
  }
  budget->Charge(own);
  return budget;
}

bool ComputeOnHost(const Devices& devices) {
  for (int i = 0; i < devices.size(); ++i) {
    if (!devices.shares_memory(i)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Options& options,
                                                      const std::vector<Backend*>& backends) {
  RouteLibraryLogs();
  std::unique_ptr<Daemon> daemon(new Daemon);
  daemon->credentials_ = options.credentials;
  CHX_RETURN_IF_ERROR(daemon->devices_.Open(options.devices, backends));
  ManagerOptions manager;
  CHX_ASSIGN_OR_RETURN(daemon->budget_, NewBudget(options.memory, &daemon->trimmer_));
  manager.budget = daemon->budget_.get();
  if (ComputeOnHost(daemon->devices_)) {
    daemon->compute_slots_ =
        std::make_unique<ComputeSlots>(ComputeSlots::DefaultSlots(), ComputeSlots::MostSlots());
    manager.session.compute_slots = daemon->compute_slots_.get();
  }
  manager.session.memory_bytes = std::min(options.session_memory, options.memory);
  manager.session.function_deadline = options.function_deadline;
  manager.session.max_command_time = options.max_command_time;
  manager.lease = options.lease;
  manager.max_sessions = options.max_sessions;
  daemon->manager_ = std::make_unique<SessionManager>(&daemon->devices_, manager);
  AdmissionLimits limits = LimitsFor(options);
  limits.memory = daemon->budget_.get();
  daemon->admission_ = std::make_unique<Admission>(limits);
  FrameServiceOptions frames;
  frames.token = options.credentials.token;
  frames.budget = daemon->admission_.get();
  frames.admit_session = [admission = daemon->admission_.get()](const PeerInfo& peer) {
    return admission->AdmitSession(peer);
  };
  daemon->frames_ = std::make_unique<FrameService>(daemon->manager_.get(), std::move(frames));
  CHX_RETURN_IF_ERROR(daemon->Listen(options));
  return daemon;
}

absl::Status Daemon::Listen(const Options& options) {
  for (const Listener& listener : options.listeners) {
    if (!listener.unix_socket) continue;
    CHX_RETURN_IF_ERROR(MakeSocketFolder(listener.address));
    if (SomebodyListens(listener.address)) {
      return absl::AlreadyExistsError(
          absl::StrCat("cannot listen on unix:", listener.address,
                       ": another chxd listens there; stop it, or give this one another --listen"));
    }
  }
  AdminOptions admin;
  admin.program = options.helper_program;
  admin.token = options.credentials.token;
  admin.serve = [this](int socket) {
    PeerInfo peer;
    peer.admin = true;
    frames_->Serve(socket, peer);
  };
  CHX_ASSIGN_OR_RETURN(admin_, AdminSupervisor::Start(std::move(admin)));
  return ListenForFrames(options);
}

absl::Status Daemon::ListenForFrames(const Options& options) {
  AcceptorOptions acceptor;
  FrontOptions front;
  for (const Listener& listener : options.listeners) {
    if (listener.unix_socket) {
      acceptor.paths.push_back(listener.address);
    } else {
      front.listeners.push_back({listener.address, !credentials_.tls_cert.empty()});
    }
  }
  if (!acceptor.paths.empty()) {
    // Where a path is too long for one beside it, arrays are copied, as over TCP. Other reasons are
    // errors: somebody else may have taken the place, to be asked instead.
    auto segments = SegmentServer::Start(acceptor.paths, manager_.get());
    if (segments.ok()) {
      segments_ = *std::move(segments);
      frames_->AllowSharedMemory();
    } else if (!absl::IsInvalidArgument(segments.status())) {
      return segments.status();
    }
  }
  acceptor.admission = admission_.get();
  acceptor.serve = [this](int socket, const PeerInfo& peer) { frames_->Serve(socket, peer); };
  acceptor.serve_http2 = [this](int socket) { admin_->Adopt(socket); };
  acceptor.stop = [this] { frames_->Stop(); };
  CHX_ASSIGN_OR_RETURN(acceptor_, Acceptor::Start(std::move(acceptor)));
  if (!front.listeners.empty()) {
    front.tls_cert = credentials_.tls_cert;
    front.tls_key = credentials_.tls_key;
    if (!credentials_.token.empty()) front.tokens = {credentials_.token};
    front.program = options.helper_program;
    if (front.program.empty()) return absl::UnimplementedError("no program for the front");
    CHX_ASSIGN_OR_RETURN(front_, Supervisor::Start(front, [this](int socket, const PeerInfo& peer) {
                           acceptor_->Adopt(socket, peer);
                         }));
  }
  size_t next = 0;
  for (const Listener& listener : options.listeners) {
    const std::string host = listener.address.substr(0, listener.address.rfind(':'));
    addresses_.push_back(listener.unix_socket ? listener.Target()
                                              : absl::StrCat(host, ":", front_->ports()[next++]));
  }
  return absl::OkStatus();
}

absl::Status Daemon::SetCredentials(const Credentials& credentials) {
  if (front_ != nullptr && !credentials.tls_cert.empty()) {
    CHX_RETURN_IF_ERROR(front_->Reload(credentials.tls_cert, credentials.tls_key));
  }
  const std::string former = credentials_.token;
  credentials_ = credentials;
  if (credentials.token == former) return absl::OkStatus();
  former_tokens_.erase(
      std::remove_if(former_tokens_.begin(), former_tokens_.end(),
                     [&](const FormerToken& each) { return each.token == credentials.token; }),
      former_tokens_.end());
  if (former_tokens_.size() >= kMaxFormerTokens) former_tokens_.erase(former_tokens_.begin());
  former_tokens_.push_back({former, std::chrono::steady_clock::now()});
  AnnounceTokens();
  admin_->SetToken(credentials.token);
  return absl::OkStatus();
}

void Daemon::AnnounceTokens() {
  Tokens tokens = {credentials_.token, {}};
  std::vector<std::string> all = {credentials_.token};
  for (const FormerToken& each : former_tokens_) {
    tokens.former.push_back(each.token);
    all.push_back(each.token);
  }
  // The daemon decides, so it is told first.
  frames_->SetTokens(std::move(tokens));
  if (front_ != nullptr) front_->SetTokens(std::move(all));
}

void Daemon::ForgetFormerTokens() {
  if (former_tokens_.empty()) return;
  auto oldest = std::chrono::steady_clock::time_point::max();
  for (const SessionRecordPtr& record : manager_->List()) oldest = std::min(oldest, record->opened);
  const size_t before = former_tokens_.size();
  former_tokens_.erase(
      std::remove_if(former_tokens_.begin(), former_tokens_.end(),
                     [oldest](const FormerToken& each) { return each.replaced <= oldest; }),
      former_tokens_.end());
  if (former_tokens_.size() != before) AnnounceTokens();
}

void Daemon::Drain(std::chrono::milliseconds timeout) {
  Log(LogLevel::kInfo, "draining",
      {{"sessions", manager_->List().size()}, {"seconds", timeout.count() / 1000}});
  admin_->SetServing(false);
  manager_->StartDraining();
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
  manager_->StopAll();  // nobody waits any more
  StopListening();
}

void Daemon::StopListening() {
  front_ = nullptr;  // before the acceptor, which takes what it lets in
  acceptor_ = nullptr;
  admin_ = nullptr;  // after it: the acceptor hands connections over
}

Daemon::~Daemon() {
  if (manager_ != nullptr) manager_->StopAll();
  StopListening();
}

}  // namespace chx::server
