#include "server/rpc/acceptor.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <system_error>
#include <utility>

#include "absl/strings/string_view.h"
#include "ops/error.h"
#include "server/rpc/refusal.h"

namespace chx::server {
namespace {

constexpr int kEvents = 64;
constexpr int kAcceptsInARow = 64;
// False: there can be no more threads.
bool StartDetached(std::function<void()> run) {
  try {
    std::thread(std::move(run)).detach();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

void TurnAway(int socket, const PeerInfo& peer, const absl::Status& status) {
  LogRefusal(peer, status);
  Refuse(socket, status);
}

}  // namespace

Acceptor::Acceptor(AcceptorOptions options)
    : options_(std::move(options)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Start(AcceptorOptions options) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(std::move(options)));
  CHX_RETURN_IF_ERROR(acceptor->Listen());
  acceptor->thread_ = std::thread([self = acceptor.get()] { self->Loop(); });
  return acceptor;
}

absl::Status Acceptor::Listen() {
  if (pipe2(stop_, O_CLOEXEC) != 0) return absl::UnavailableError("cannot make a pipe");
  Watch(stop_[0], EPOLLIN);
  for (const std::string& path : options_.paths) {
    CHX_ASSIGN_OR_RETURN(const int listener, ListenLocally(path, SOCK_STREAM, options_.users));
    listeners_.push_back(listener);
    Watch(listener, EPOLLIN);
  }
  return absl::OkStatus();
}

Acceptor::~Acceptor() {
  if (stop_[1] >= 0) close(stop_[1]);
  if (thread_.joinable()) thread_.join();
  if (stop_[0] >= 0) close(stop_[0]);
  // At once: clients that reconnect meanwhile should not wait here.
  for (size_t i = 0; i < listeners_.size(); ++i) {
    close(listeners_[i]);
    unlink(options_.paths[i].c_str());
  }
  for (const auto& [socket, silent] : silent_) close(socket);
  close(epoll_);
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }
  options_.stop();
  MutexLock lock(&mutex_);
  while (threads_ > 0) ended_.wait(mutex_);
}

void Acceptor::Watch(int socket, uint32_t events) const {
  epoll_event event = {};
  event.events = events;
  event.data.fd = socket;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event);
}

void Acceptor::Loop() {
  std::array<epoll_event, kEvents> events;
  for (;;) {
    const int count = epoll_wait(epoll_, events.data(), kEvents, by_age_.empty() ? -1 : 250);
    for (int i = 0; i < count; ++i) {
      const int socket = events[i].data.fd;
      if (socket == stop_[0]) return;
      if (silent_.contains(socket)) {
        Look(socket);
      } else if (std::find(listeners_.begin(), listeners_.end(), socket) != listeners_.end()) {
        Accept(socket);
      }
    }
    DropLate();
  }
}

void Acceptor::Accept(int listener) {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    int socket = -1;
    Silent silent = {next_id_, 0, std::chrono::steady_clock::now()};
    const Accepted accepted = AcceptLocal(listener, options_.users, 0, &socket, &silent.uid);
    if (accepted == Accepted::kNoDescriptor) {
      if (DropOldestSilent()) continue;
      spare_.Give();
      if (AcceptLocal(listener, options_.users, 0, &socket, &silent.uid) == Accepted::kConnection) {
        PeerInfo peer;
        peer.uid = silent.uid;
        TurnAway(socket, peer, absl::ResourceExhaustedError("the daemon has no descriptor left"));
      }
      spare_.Refill();
      return;
    }
    if (accepted == Accepted::kNobody) return;
    if (silent_.size() >= options_.max_silent) DropOldestSilent();
    silent_[socket] = silent;
    by_age_[next_id_++] = socket;
    // Edge-triggered, for what is looked at and left there.
    Watch(socket, EPOLLIN | EPOLLRDHUP | EPOLLET);
  }
}

void Acceptor::Look(int socket) {
  std::array<char, 2> first;
  const ssize_t size = recv(socket, first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // "PRI * HTTP/2.0": as a frame's length its second byte is more than a Hello may have.
  if (size == 1 && first[0] == 'P') return;
  const Silent silent = silent_[socket];
  silent_.erase(socket);
  by_age_.erase(silent.id);
  epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, nullptr);
  if (size <= 0) {
    close(socket);
  } else if (size == 2 && absl::string_view(first.data(), 2) == "PR") {
    options_.serve_http2(socket);
  } else {
    PeerInfo peer;
    peer.uid = silent.uid;
    Begin(socket, peer);
  }
}

bool Acceptor::DropOldestSilent() {
  if (by_age_.empty()) return false;
  const int socket = by_age_.begin()->second;
  by_age_.erase(by_age_.begin());
  silent_.erase(socket);
  close(socket);
  return true;
}

void Acceptor::DropLate() {
  const auto now = std::chrono::steady_clock::now();
  while (!by_age_.empty() && now - silent_[by_age_.begin()->second].since > options_.patience) {
    DropOldestSilent();
  }
}

void Acceptor::Adopt(int socket, const PeerInfo& peer) { Begin(socket, peer); }

void Acceptor::Begin(int socket, const PeerInfo& peer) {
  absl::StatusOr<Admission::Ticket> ticket = options_.admission->AdmitConnection(peer);
  if (!ticket.ok()) {
    TurnAway(socket, peer, ticket.status());
    return;
  }
  {
    MutexLock lock(&mutex_);
    if (stopped_) {
      close(socket);
      return;
    }
    ++threads_;
  }
  const bool started = StartDetached([this, socket, peer, ticket = *ticket]() mutable {
    options_.serve(socket, peer);
    ticket = nullptr;
    Leave();
  });
  if (started) return;
  TurnAway(socket, peer, absl::ResourceExhaustedError("the daemon can start no more threads"));
  Leave();
}

void Acceptor::Leave() {
  MutexLock lock(&mutex_);
  if (--threads_ == 0) ended_.notify_all();
}

}  // namespace chx::server
