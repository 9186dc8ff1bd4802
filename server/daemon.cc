#include "server/daemon.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "ops/error.h"
#include "server/collectives/mesh_library.h"
#include "server/daemon_limits.h"
#include "server/log/log.h"
#include "server/process/library_log.h"
#include "server/rpc/limits.h"
#include "server/rpc/local_socket.h"
#include "server/rpc/op_stream.h"
#include "server/tenancy/service_token.h"
#include "server/tenancy/token_hash.h"

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

constexpr size_t kMaxFormerTokens = 8;

// A limit for a device that is not there would limit nothing.
absl::Status CheckDevices(const std::vector<Tenant>& tenants, const Devices& devices) {
  std::set<std::string> names;
  for (int i = 0; i < devices.size(); ++i) names.insert(devices.at(i).name());
  for (const Tenant& tenant : tenants) {
    for (const auto& limited : tenant.device_memory) {
      if (names.count(limited.first) > 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "[tenants] expects device_memory for devices that the daemon serves (",
          absl::StrJoin(names, ", "), "), got '", limited.first, "' in '", tenant.name, "'"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StateStore>> OpenState(const Options& options,
                                                      const Tenants* tenants, Runs* runs) {
  StateOptions state;
  state.folder = options.state_dir;
  state.interval = options.snapshot_interval;
  state.keep = options.state_keep;
  state.find_tenant = [tenants](const std::string& name) -> TenantPtr {
    if (tenants == nullptr) return name == DefaultTenant()->name ? DefaultTenant() : nullptr;
    for (const TenantPtr& tenant : tenants->List()) {
      if (tenant->name == name) return tenant;
    }
    return nullptr;
  };
  state.read_stream = ReadStreamState;
  state.on_restored = [runs](const SessionRecordPtr& record) {
    runs->Resume(record->session, CheckAllowed(*record->owner.tenant, Feature::kDataFiles, "runs"),
                 PlaceOfRun(*record));
  };
  return StateStore::Open(std::move(state));
}

// How long an administrator's snapshot waits for sessions that are busy.
constexpr std::chrono::seconds kSnapshotPatience(30);

absl::Status Snapshot(StateStore* state, uint64_t number, v1::SnapshotReply* reply) {
  SnapshotCounts counts;
  if (number == 0) {
    counts = state->SnapshotAll(kSnapshotPatience);
  } else {
    CHX_ASSIGN_OR_RETURN(counts, state->SnapshotOne(number, kSnapshotPatience));
  }
  reply->set_sessions(static_cast<uint32_t>(counts.sessions));
  reply->set_failed(static_cast<uint32_t>(counts.failed));
  reply->set_bytes(counts.bytes);
  reply->set_why(std::string(counts.why.message()));
  return absl::OkStatus();
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
  CHX_RETURN_IF_ERROR(daemon->OpenSpillFolder(options));
  ManagerOptions manager;
  CHX_ASSIGN_OR_RETURN(daemon->budget_, NewBudget(options.memory, &daemon->trimmer_));
  manager.budget = daemon->budget_.get();
  manager.sharing = &daemon->sharing_;
  if (!options.peers.listen.empty()) {
    CHX_ASSIGN_OR_RETURN(daemon->peers_,
                         DaemonGroups::Start(options.peers, MeshesFrom(options.mesh_libraries),
                                             options.collective_timeout));
  }
  daemon->groups_ =
      std::make_unique<ProcessGroups>(options.collective_timeout, daemon->remote_groups());
  manager.groups = daemon->groups_.get();
  if (ComputeOnHost(daemon->devices_)) {
    daemon->compute_slots_ =
        std::make_unique<ComputeSlots>(ComputeSlots::DefaultSlots(), ComputeSlots::MostSlots());
    manager.session.compute_slots = daemon->compute_slots_.get();
  }
  manager.session.memory_bytes = std::min(options.session_memory, options.memory);
  manager.session.function_deadline = options.function_deadline;
  manager.session.max_command_time = options.max_command_time;
  manager.session.slow_command = options.slow_command;
  manager.session.recognize_windows = options.recognize_windows;
  manager.metrics = std::make_shared<Metrics>(daemon->devices_.size());
  daemon->tracer_ = std::make_unique<Tracer>(daemon->budget_.get());
  manager.session.tracer = daemon->tracer_.get();
  manager.lease = options.lease;
  manager.named_lease = options.named_lease;
  manager.max_sessions = options.max_sessions;
  if (!options.credentials.tenants.empty()) {
    daemon->tenants_ = std::make_unique<Tenants>(options.credentials.tenants);
  }
  if (!options.data_root.empty()) {
    CHX_ASSIGN_OR_RETURN(daemon->data_, DataRoot::Open(options.data_root));
  }
  RunsOptions runs;
  runs.data = daemon->data_.get();
  if (!options.state_dir.empty()) {
    runs.snapshot = [state = &daemon->state_](const Session* session) {
      (*state)->SnapshotSoon(session);
    };
    daemon->runs_ = std::make_unique<Runs>(runs);
    CHX_ASSIGN_OR_RETURN(daemon->state_,
                         OpenState(options, daemon->tenants_.get(), daemon->runs_.get()));
    manager.survives_restart = true;
    manager.on_ended = [state = daemon->state_.get()](const std::string& key) {
      state->Forget(key);
    };
  }
  daemon->manager_ = std::make_unique<SessionManager>(&daemon->devices_, manager);
  AdmissionLimits limits = LimitsFor(options);
  limits.memory = daemon->budget_.get();
  daemon->admission_ = std::make_unique<Admission>(limits);
  FrameServiceOptions frames;
  frames.token = options.credentials.token;
  frames.data = daemon->data_.get();
  if (daemon->state_ != nullptr) {
    daemon->state_->Start(daemon->manager_.get());
    frames.snapshot = [state = daemon->state_.get()](uint64_t number, v1::SnapshotReply* reply) {
      return Snapshot(state, number, reply);
    };
  }
  frames.budget = daemon->admission_.get();
  frames.admit_session = [admission = daemon->admission_.get()](const PeerInfo& peer) {
    return admission->AdmitSession(peer);
  };
  if (daemon->runs_ == nullptr) daemon->runs_ = std::make_unique<Runs>(runs);
  daemon->frames_ = std::make_unique<FrameService>(daemon->manager_.get(), daemon->runs_.get(),
                                                   std::move(frames));
  if (daemon->tenants_ != nullptr) {
    CHX_RETURN_IF_ERROR(daemon->SetTenants(options.credentials));
    daemon->frames_->callers().SetTenants(daemon->tenants_.get());
  }
  CHX_RETURN_IF_ERROR(daemon->Listen(options));
  CHX_RETURN_IF_ERROR(daemon->ListenForHttp(options));
  daemon->WatchDevices(options.on_useless);
  daemon->runs_->Serve();
  return daemon;
}

absl::Status Daemon::OpenSpillFolder(const Options& options) {
  if (options.spill_dir.empty()) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(spill_, SpillFolder::Open(options.spill_dir, options.spill_size));
  for (int i = 0; i < devices_.size(); ++i) devices_.slot(i).spill = spill_.get();
  return absl::OkStatus();
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
  admin.access = AccessOfAdmins();
  admin.serve = [this](int socket) {
    PeerInfo peer;
    peer.admin = true;
    frames_->Serve(socket, peer);
  };
  CHX_ASSIGN_OR_RETURN(admin_, AdminSupervisor::Start(std::move(admin)));
  frames_->SetOnDrain([admin = admin_.get()] { admin->SetServing(false); });
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
    auto segments = SegmentServer::Start(acceptor.paths, manager_.get(), {options.socket_group});
    if (segments.ok()) {
      segments_ = *std::move(segments);
      frames_->AllowSharedMemory();
    } else if (!absl::IsInvalidArgument(segments.status())) {
      return segments.status();
    }
  }
  acceptor.users.group = options.socket_group;
  acceptor.admission = admission_.get();
  acceptor.serve = [this](int socket, const PeerInfo& peer) { frames_->Serve(socket, peer); };
  acceptor.serve_http2 = [this](int socket) { admin_->Adopt(socket); };
  acceptor.stop = [this] { frames_->Stop(); };
  CHX_ASSIGN_OR_RETURN(acceptor_, Acceptor::Start(std::move(acceptor)));
  if (!front.listeners.empty()) {
    front.tls_cert = credentials_.tls_cert;
    front.tls_key = credentials_.tls_key;
    front.guests = Guests();
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

absl::Status Daemon::ListenForHttp(const Options& options) {
  WebOptions web;
  const std::string& metrics = options.metrics_listener.address;
  const std::string& status = options.status_listener.address;
  if (!metrics.empty()) web.listeners.push_back({metrics, true, options.metrics_open});
  if (!status.empty()) web.listeners.push_back({status, false, false});
  if (web.listeners.empty()) return absl::OkStatus();
  web.tls_cert = credentials_.tls_cert;
  web.tls_key = credentials_.tls_key;
  web.guests = web_guests_ = GuestsOfWeb();
  web.program = options.helper_program;
  if (web.program.empty()) return absl::UnimplementedError("no program for HTTP");
  web.serve = [this](int socket) {
    PeerInfo peer;
    peer.viewer = true;
    frames_->Serve(socket, peer);
  };
  CHX_ASSIGN_OR_RETURN(web_, WebSupervisor::Start(std::move(web)));
  for (size_t i = 0; i < web_->ports().size(); ++i) {
    const std::string& address = i == 0 && !metrics.empty() ? metrics : status;
    web_addresses_.push_back(
        absl::StrCat(address.substr(0, address.rfind(':')), ":", web_->ports()[i]));
  }
  return absl::OkStatus();
}

absl::Status Daemon::SetCredentials(const Credentials& credentials) {
  if (tenants_ != nullptr) CHX_RETURN_IF_ERROR(CheckDevices(credentials.tenants, devices_));
  if (front_ != nullptr && !credentials.tls_cert.empty()) {
    CHX_RETURN_IF_ERROR(front_->Reload(credentials.tls_cert, credentials.tls_key));
  }
  if (tenants_ != nullptr) return SetTenants(credentials);
  const std::string former = credentials_.token;
  credentials_ = credentials;
  RenewWeb(/*certificate=*/true);
  if (credentials.token == former) return absl::OkStatus();
  former_tokens_.erase(
      std::remove_if(former_tokens_.begin(), former_tokens_.end(),
                     [&](const FormerToken& each) { return each.token == credentials.token; }),
      former_tokens_.end());
  if (former_tokens_.size() >= kMaxFormerTokens) former_tokens_.erase(former_tokens_.begin());
  former_tokens_.push_back({former, std::chrono::steady_clock::now()});
  AnnounceTokens();
  return absl::OkStatus();
}

absl::Status Daemon::SetTenants(const Credentials& credentials) {
  CHX_RETURN_IF_ERROR(CheckDevices(credentials.tenants, devices_));
  tenants_->Replace(credentials.tenants, absl::Now());
  manager_->tenants().SetLimits(tenants_->List());
  std::shared_ptr<const ServiceKeys> keys;
  if (!credentials.service_keys.empty()) {
    CHX_ASSIGN_OR_RETURN(keys, ServiceKeys::Parse(credentials.service_keys));
  }
  frames_->callers().SetServiceKeys(std::move(keys));
  credentials_ = credentials;
  AnnounceTokens();
  RenewWeb(/*certificate=*/true);
  return absl::OkStatus();
}

WebGuests Daemon::GuestsOfWeb() const {
  WebGuests guests;
  if (tenants_ == nullptr) {
    guests.everybody = credentials_.token.empty();
    if (!guests.everybody) guests.token_hashes = {HashToken(credentials_.token)};
    return guests;
  }
  // What they show is of all tenants.
  for (const TenantPtr& tenant : tenants_->List()) {
    for (const TokenHash& token : tenant->tokens) {
      if (tenant->admin && token.expires > absl::Now()) guests.token_hashes.push_back(token.sha256);
    }
  }
  return guests;
}

void Daemon::RenewWeb(bool certificate) {
  if (web_ == nullptr) return;
  WebGuests guests = GuestsOfWeb();
  if (!certificate && guests == web_guests_) return;
  web_guests_ = std::move(guests);
  web_->SetCredentials(credentials_.tls_cert, credentials_.tls_key, web_guests_);
}

FrontGuests Daemon::Guests() const {
  std::vector<std::string> tokens;
  if (!credentials_.token.empty()) tokens.push_back(credentials_.token);
  for (const FormerToken& each : former_tokens_) tokens.push_back(each.token);
  if (tenants_ == nullptr) return FrontGuests::ByTokens(tokens);
  FrontGuests guests;
  for (const TokenHash& token : tenants_->Tokens()) {
    guests.tokens.push_back({token.sha256, token.expires});
  }
  guests.client_ca = credentials_.client_ca;
  guests.service_keys = credentials_.service_keys;
  return guests;
}

AdminAccess Daemon::AccessOfAdmins() const {
  AdminAccess access;
  access.by_tenant = tenants_ != nullptr;
  if (tenants_ != nullptr) {
    for (const TokenHash& token : tenants_->Tokens()) access.token_hashes.push_back(token.sha256);
  } else if (!credentials_.token.empty()) {
    access.token = credentials_.token;
    access.token_hashes = {HashToken(credentials_.token)};
  }
  return access;
}

void Daemon::AnnounceTokens() {
  // The daemon decides, so it is told first.
  if (tenants_ == nullptr) {
    Tokens tokens = {credentials_.token, {}};
    for (const FormerToken& each : former_tokens_) tokens.former.push_back(each.token);
    frames_->callers().SetTokens(std::move(tokens));
  }
  if (front_ != nullptr) {
    const absl::Status status = front_->SetGuests(Guests());
    if (!status.ok()) {
      Log(LogLevel::kError, "the front process keeps the former tokens",
          {{"reason", status.message()}});
    }
  }
  if (admin_ != nullptr) admin_->SetAccess(AccessOfAdmins());
}

void Daemon::ForgetFormerTokens() {
  RenewWeb(/*certificate=*/false);
  if (tenants_ != nullptr) {
    ForgetFormerIdentities();
    return;
  }
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

void Daemon::ForgetFormerIdentities() {
  const absl::Time now = absl::Now();
  const auto steady_now = std::chrono::steady_clock::now();
  absl::optional<std::map<std::string, absl::Time>> oldest;  // of each tenant's sessions
  const auto list = [&] {
    oldest.emplace();
    for (const SessionSnapshot& session : manager_->Snapshots()) {
      const absl::Time opened = now - absl::FromChrono(steady_now - session.opened);
      absl::Time& first = oldest->emplace(session.tenant->name, opened).first->second;
      first = std::min(first, opened);
    }
  };
  const bool changed = tenants_->Forget(
      [&](const std::string& tenant, absl::Time ended) {
        if (!oldest.has_value()) list();  // mostly nobody asks
        const auto found = oldest->find(tenant);
        return found != oldest->end() && found->second < ended;
      },
      now);
  if (changed) AnnounceTokens();
}

void Daemon::Drain(std::chrono::milliseconds timeout) {
  Log(LogLevel::kInfo, "draining",
      {{"sessions", manager_->List().size()}, {"seconds", timeout.count() / 1000}});
  admin_->SetServing(false);
  manager_->StartDraining();
  if (state_ != nullptr) {
    runs_->AskToEnd();  // before it waits for a snapshot that waits for a step
    state_->Stop();
    StopListeningWithin(timeout);
    runs_->EndWithin(timeout);
    state_->SnapshotAll(timeout);
    return;
  }
  const auto end = std::chrono::steady_clock::now() + timeout;
  runs_->AskToEnd();
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
  ForgetDevices();  // which tells the admin process
  web_ = nullptr;
  front_ = nullptr;  // before the acceptor, which takes what it lets in
  acceptor_ = nullptr;
  admin_ = nullptr;  // after it: the acceptor hands connections over
}

void Daemon::StopListeningWithin(std::chrono::milliseconds patience) {
  Mutex mutex;
  CondVar wake;
  bool done = false;
  std::thread stopper([&] {
    MutexLock lock(&mutex);
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!done && std::chrono::steady_clock::now() < end) wake.wait_until(mutex, end);
    if (!done) manager_->StopAll();
  });
  StopListening();
  {
    MutexLock lock(&mutex);
    done = true;
  }
  wake.notify_all();
  stopper.join();
}

Daemon::~Daemon() {
  if (state_ != nullptr) state_->Stop();
  if (manager_ != nullptr) manager_->StopAll();
  StopListening();
}

}  // namespace chx::server
