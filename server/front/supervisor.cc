#include "server/front/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "server/front/control.pb.h"
#include "server/front/front.h"
#include "server/front/listeners.h"
#include "server/front/tls.h"
#include "server/log/log.h"
#include "server/process/packets.h"
#include "server/process/restart_pause.h"
#include "server/tenancy/token_hash.h"

namespace chx::server {

FrontGuests FrontGuests::ByTokens(const std::vector<std::string>& tokens) {
  FrontGuests guests;
  guests.open = tokens.empty();
  for (const std::string& token : tokens) guests.tokens.push_back({HashToken(token)});
  return guests;
}

Supervisor::Supervisor(const FrontOptions& options, Arrive arrive)
    : options_(options),
      arrive_(std::move(arrive)),
      tls_cert_(options.tls_cert),
      tls_key_(options.tls_key),
      guests_(options.guests) {}

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Start(const FrontOptions& options,
                                                              Arrive arrive) {
  std::unique_ptr<Supervisor> supervisor(new Supervisor(options, std::move(arrive)));
  absl::Status status;
  if (!options.tls_cert.empty()) {
    status =
        FrontTls::Create({options.tls_cert, options.tls_key, options.guests.client_ca}).status();
  }
  if (status.ok()) status = supervisor->Bind();
  if (!status.ok()) return status;
  if (pipe2(supervisor->stop_, O_CLOEXEC) != 0) return absl::UnavailableError("cannot make a pipe");
  supervisor->thread_ = std::thread([self = supervisor.get()] { self->Run(); });
  return supervisor;
}

absl::Status Supervisor::Bind() {
  for (const FrontOptions::Listener& listener : options_.listeners) {
    const absl::StatusOr<int> port = ListenOn(listener.address, &sockets_);
    if (!port.ok()) return port.status();
    ports_.push_back(*port);
    sockets_tls_.resize(sockets_.size(), listener.tls);
  }
  return absl::OkStatus();
}

Supervisor::~Supervisor() {
  if (stop_[1] >= 0) close(stop_[1]);
  if (thread_.joinable()) thread_.join();
  if (stop_[0] >= 0) close(stop_[0]);
  for (const int socket : sockets_) close(socket);
}

pid_t Supervisor::pid() const {
  MutexLock lock(&mutex_);
  return child_ == nullptr ? 0 : child_->pid();
}

absl::Status Supervisor::Reload(const std::string& tls_cert, const std::string& tls_key) {
  MutexLock lock(&mutex_);
  const absl::Status status = FrontTls::Create({tls_cert, tls_key, guests_.client_ca}).status();
  if (!status.ok()) return status;
  tls_cert_ = tls_cert;
  tls_key_ = tls_key;
  if (child_ != nullptr) Configure(/*with_listeners=*/false);
  return absl::OkStatus();
}

absl::Status Supervisor::SetGuests(FrontGuests guests) {
  MutexLock lock(&mutex_);
  if (!tls_cert_.empty()) {
    const absl::Status status = FrontTls::Create({tls_cert_, tls_key_, guests.client_ca}).status();
    if (!status.ok()) return status;
  }
  std::swap(guests_, guests);
  if (child_ == nullptr || Configure(/*with_listeners=*/false)) return absl::OkStatus();
  if (errno != EMSGSIZE) return absl::OkStatus();  // it is gone, and the next one is told
  std::swap(guests_, guests);
  return absl::InvalidArgumentError(
      "tokens, certificates and keys are too many for the front process");
}

void Supervisor::Run() {
  RestartPause pause;
  for (;;) {
    pause.Started();
    const bool again = !Spawn() || Serve();
    {
      MutexLock lock(&mutex_);
      child_ = nullptr;
    }
    if (!again) return;
    Log(LogLevel::kWarning, "the front process has ended and is started again");
    if (!Pause(pause.Next())) return;
  }
}

bool Supervisor::Spawn() {
  absl::StatusOr<std::unique_ptr<Child>> child =
      Child::Start(options_.program, "chxd-front", kFrontArgument);
  absl::Status status = child.status();
  if (status.ok()) {
    MutexLock lock(&mutex_);
    child_ = *std::move(child);
    if (Configure(/*with_listeners=*/true)) return true;
    status = absl::UnavailableError(std::strerror(errno));
  }
  Log(LogLevel::kError, "the front process cannot be started",
      {{"reason", std::string(status.message())}});
  return false;
}

bool Supervisor::Configure(bool with_listeners) {
  const int control = child_->control();
  front::Config config;
  config.set_tls_cert(tls_cert_);
  config.set_tls_key(tls_key_);
  config.set_open(guests_.open);
  config.set_client_ca(guests_.client_ca);
  config.set_service_keys(guests_.service_keys);
  for (const FrontGuests::Token& token : guests_.tokens) {
    front::Config::Token* const added = config.add_tokens();
    added->set_sha256(token.sha256);
    if (token.expires != absl::InfiniteFuture()) {
      added->set_expires(std::max<int64_t>(absl::ToUnixSeconds(token.expires), 1));
    }
  }
  config.set_patience_milliseconds(static_cast<uint32_t>(options_.patience.count()));
  if (!with_listeners) return SendPacket(control, config, {});
  for (const bool tls : sockets_tls_) config.add_listeners()->set_tls(tls);
  return SendPacket(control, config, sockets_);
}

int Supervisor::Control() const {
  MutexLock lock(&mutex_);
  return child_->control();
}

bool Supervisor::Serve() {
  const int control = Control();
  pollfd ready[2] = {{stop_[0], POLLIN, 0}, {control, POLLIN, 0}};
  for (;;) {
    if (poll(ready, 2, -1) < 0) continue;
    if (ready[0].revents != 0) return false;
    front::Arrival arrival;
    std::vector<int> sockets;
    const PacketResult result = ReceivePacket(control, &arrival, &sockets);
    if (result == PacketResult::kEnd) {
      for (const int socket : sockets) close(socket);
      return true;
    }
    PeerInfo peer;
    peer.kind = PeerInfo::kTcp;
    peer.address = arrival.address();
    peer.tls_subject = arrival.tls_subject();
    peer.service_account = arrival.service_account();
    if (!options_.guests.open) peer.token_label = "default";
    for (const int socket : sockets) arrive_(socket, peer);
  }
}

bool Supervisor::Pause(std::chrono::milliseconds duration) const {
  pollfd stop = {stop_[0], POLLIN, 0};
  return poll(&stop, 1, static_cast<int>(duration.count())) == 0;
}

}  // namespace chx::server
