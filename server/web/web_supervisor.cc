#include "server/web/web_supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/front/listeners.h"
#include "server/log/log.h"
#include "server/process/packets.h"
#include "server/process/restart_pause.h"
#include "server/web/control.pb.h"
#include "server/web/web.h"

namespace chx::server {

WebSupervisor::WebSupervisor(WebOptions options) : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<WebSupervisor>> WebSupervisor::Start(WebOptions options) {
  std::unique_ptr<WebSupervisor> supervisor(new WebSupervisor(std::move(options)));
  const absl::Status status = supervisor->Bind();
  if (!status.ok()) return status;
  supervisor->renew_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (supervisor->renew_ < 0 || pipe2(supervisor->stop_, O_CLOEXEC) != 0) {
    return absl::UnavailableError("cannot make a pipe");
  }
  supervisor->thread_ = std::thread([self = supervisor.get()] { self->Run(); });
  return supervisor;
}

absl::Status WebSupervisor::Bind() {
  for (size_t i = 0; i < options_.listeners.size(); ++i) {
    const absl::StatusOr<int> port = ListenOn(options_.listeners[i].address, &sockets_);
    if (!port.ok()) return port.status();
    ports_.push_back(*port);
    listener_of_.resize(sockets_.size(), i);
  }
  return absl::OkStatus();
}

WebSupervisor::~WebSupervisor() {
  if (stop_[1] >= 0) close(stop_[1]);
  if (thread_.joinable()) thread_.join();
  if (stop_[0] >= 0) close(stop_[0]);
  if (renew_ >= 0) close(renew_);
  for (const int socket : sockets_) close(socket);
}

void WebSupervisor::SetCredentials(const std::string& tls_cert, const std::string& tls_key,
                                   const WebGuests& guests) {
  {
    MutexLock lock(&mutex_);
    options_.tls_cert = tls_cert;
    options_.tls_key = tls_key;
    options_.guests = guests;
  }
  eventfd_write(renew_, 1);
}

pid_t WebSupervisor::pid() const {
  MutexLock lock(&mutex_);
  return pid_;
}

void WebSupervisor::Run() {
  RestartPause pause;
  do {
    pause.Started();
    if (!RunOne()) return;
  } while (Pause(pause.Next()));
}

bool WebSupervisor::RunOne() {
  int pair[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return true;
  absl::StatusOr<std::unique_ptr<Child>> child = Spawn(pair[1]);
  close(pair[1]);
  std::thread calls;
  absl::Status status = child.status();
  if (status.ok()) {
    try {
      calls = std::thread([this, socket = pair[0]] { options_.serve(socket); });
    } catch (const std::system_error&) {
      status = absl::UnavailableError("no thread for it");
    }
  }
  if (!status.ok()) {
    close(pair[0]);
    static auto* const limit = new LogLimit;
    Log(limit, LogLevel::kError, "the web process cannot be started",
        {{"reason", status.message()}});
    return true;
  }
  {
    MutexLock lock(&mutex_);
    pid_ = (*child)->pid();
  }
  pollfd ready[3] = {{stop_[0], POLLIN, 0}, {(*child)->control(), POLLIN, 0}, {renew_, POLLIN, 0}};
  while (poll(ready, 3, -1) < 0) {
  }
  const bool stop = ready[0].revents != 0;
  eventfd_t count;
  const bool renew = eventfd_read(renew_, &count) == 0;
  if (!stop && !renew) Log(LogLevel::kWarning, "the web process has ended and is started again");
  {
    MutexLock lock(&mutex_);
    pid_ = 0;
  }
  // Killed, it has its end of the pair no more, and so the thread ends.
  *child = nullptr;
  calls.join();
  return !stop;
}

absl::StatusOr<std::unique_ptr<Child>> WebSupervisor::Spawn(int daemon) {
  absl::StatusOr<std::unique_ptr<Child>> child =
      Child::Start(options_.program, "chxd-web", kWebArgument);
  if (!child.ok()) return child;
  web::Settings settings;
  {
    MutexLock lock(&mutex_);
    settings.set_everybody(options_.guests.everybody);
    for (const std::string& hash : options_.guests.token_hashes) settings.add_token_hashes(hash);
    settings.set_tls_cert(options_.tls_cert);
    settings.set_tls_key(options_.tls_key);
  }
  std::vector<int> descriptors = {daemon};
  for (size_t i = 0; i < sockets_.size(); ++i) {
    const WebOptions::Listener& listener = options_.listeners[listener_of_[i]];
    web::Settings::Listener* const entry = settings.add_listeners();
    entry->set_metrics(listener.metrics);
    entry->set_open(listener.open);
    entry->set_tls(!settings.tls_cert().empty() && !listener.open);
    entry->set_host(listener.address.substr(0, listener.address.rfind(':')));
    descriptors.push_back(sockets_[i]);
  }
  if (SendPacket((*child)->control(), settings, descriptors)) return child;
  return absl::UnavailableError(std::strerror(errno));
}

bool WebSupervisor::Pause(std::chrono::milliseconds duration) const {
  pollfd stop = {stop_[0], POLLIN, 0};
  return poll(&stop, 1, static_cast<int>(duration.count())) == 0;
}

}  // namespace chx::server
