#include "server/front/door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "absl/strings/match.h"
#include "server/log/log.h"
#include "server/process/packets.h"

namespace chx::server {
namespace {

constexpr int kEvents = 64;
constexpr int kAcceptsInARow = 64;
constexpr size_t kRelayThreads = 2;
constexpr size_t kTrimAfter = 64;

void SetOption(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof(value));
}

// Small frames leave at once; a peer that is gone without a word is found within a minute or so.
void Tune(int socket) {
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 60000);
}

// Of an IPv6 address the network, of which one peer may have all addresses.
std::string AddressOf(const sockaddr_storage& peer) {
  char text[INET6_ADDRSTRLEN] = "";
  if (peer.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(peer);
    inet_ntop(AF_INET, &ipv4.sin_addr, text, sizeof(text));
  } else if (peer.ss_family == AF_INET6) {
    in6_addr ipv6 = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&ipv6)) {
      inet_ntop(AF_INET, &ipv6.s6_addr[12], text, sizeof(text));
    } else {
      if (!IN6_IS_ADDR_LOOPBACK(&ipv6)) std::fill(&ipv6.s6_addr[8], &ipv6.s6_addr[16], 0);
      inet_ntop(AF_INET6, &ipv6, text, sizeof(text));
    }
  }
  return text;
}

void Watch(int epoll, int socket, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = socket;
  epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
}

Guests GuestsOf(const front::Config& config) {
  Guests guests;
  guests.open = config.open();
  for (const front::Config::Token& token : config.tokens()) {
    guests.tokens[token.sha256()] =
        token.expires() == 0 ? absl::InfiniteFuture() : absl::FromUnixSeconds(token.expires());
  }
  if (!config.service_keys().empty()) {
    auto keys = ServiceKeys::Parse(config.service_keys());
    if (keys.ok()) guests.service_keys = *std::move(keys);  // the daemon has checked them
  }
  return guests;
}

}  // namespace

Door::Door(int control, const Strangers::Limits& strangers, size_t max_relays)
    : control_(control),
      max_relays_(max_relays),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      strangers_(strangers) {
  Watch(epoll_, control_, EPOLLIN);
  relays_.reserve(kRelayThreads);
  for (size_t i = 0; i < kRelayThreads; ++i) relays_.push_back(std::make_unique<RelayLoop>());
}

Door::~Door() {
  close(epoll_);
  for (const Listener& listener : listeners_) close(listener.socket);
}

void Door::Run() {
  std::array<epoll_event, kEvents> events;
  while (!daemon_gone_) {
    const int timeout = by_age_.empty() && ended_ == 0 ? -1 : 250;
    const int count = epoll_wait(epoll_, events.data(), kEvents, timeout);
    for (int i = 0; i < count; ++i) {
      const int socket = events[i].data.fd;
      if (socket == control_) {
        Control();
        continue;
      }
      const auto listener =
          std::find_if(listeners_.begin(), listeners_.end(),
                       [socket](const Listener& each) { return each.socket == socket; });
      if (listener != listeners_.end()) {
        Accept(*listener);
      } else {
        Advance(socket);
      }
    }
    DropLate();
    TrimMemory();
  }
}

void Door::Control() {
  front::Config config;
  std::vector<int> sockets;
  const PacketResult result = ReceivePacket(control_, &config, &sockets);
  if (result == PacketResult::kEnd) daemon_gone_ = true;
  if (result == PacketResult::kPacket) Configure(config, sockets);
}

void Door::Configure(const front::Config& config, const std::vector<int>& sockets) {
  if (!config.tls_cert().empty()) {
    auto tls = FrontTls::Create({config.tls_cert(), config.tls_key(), config.client_ca()});
    if (tls.ok()) tls_ = *std::move(tls);  // the daemon has checked them
  }
  guests_ = GuestsOf(config);
  patience_ = std::chrono::milliseconds(config.patience_milliseconds());
  for (size_t i = 0; i < sockets.size(); ++i) {
    const bool known = i < static_cast<size_t>(config.listeners_size());
    const bool tls = known && config.listeners(static_cast<int>(i)).tls();
    if (!known || (tls && tls_ == nullptr)) {
      close(sockets[i]);
      continue;
    }
    listeners_.push_back({sockets[i], tls});
    Watch(epoll_, sockets[i], EPOLLIN);
  }
}

void Door::Accept(const Listener& listener) {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof(peer);
    const int socket = accept4(listener.socket, reinterpret_cast<sockaddr*>(&peer), &size,
                               SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return;
      // Out of descriptors in spite of all limits: those who wait longest make room.
      const auto greediest = strangers_.Greediest();
      if (!greediest.has_value()) {
        usleep(10000);
        return;
      }
      Drop(*greediest);
      continue;
    }
    try {
      Tune(socket);
      const std::string address = AddressOf(peer);
      const uint64_t id = next_id_++;
      auto stranger =
          std::make_unique<Stranger>(id, socket, address, listener.tls ? tls_ : nullptr);
      const auto dropped = strangers_.Enter(id, address);
      if (dropped.has_value()) MakeRoom(*dropped);
      by_age_[id] = socket;
      by_socket_[socket] = std::move(stranger);
    } catch (const std::bad_alloc&) {
      return;
    }
    // Edge-triggered: what was looked at and left in the socket does not wake us again. This tells
    // at once if there is something already.
    Watch(epoll_, socket, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
  }
}

std::unique_ptr<Stranger> Door::Take(int socket) {
  const auto it = by_socket_.find(socket);
  if (it == by_socket_.end()) return nullptr;
  std::unique_ptr<Stranger> stranger = std::move(it->second);
  by_socket_.erase(it);
  by_age_.erase(stranger->id);
  strangers_.Leave(stranger->id, stranger->address);
  ++ended_;
  return stranger;
}

void Door::Advance(int socket) {
  const auto it = by_socket_.find(socket);
  if (it == by_socket_.end()) return;
  Stranger::Step step = Stranger::Step::kGone;
  try {
    step = it->second->Advance(guests_);
  } catch (const std::bad_alloc&) {
  }
  if (step == Stranger::Step::kWait) {
    if (it->second->spoken()) strangers_.Speaks(it->second->id, it->second->address);
    return;
  }
  std::unique_ptr<Stranger> stranger = Take(socket);
  if (step != Stranger::Step::kGood) return;
  try {
    LetIn(std::move(stranger));
  } catch (const std::bad_alloc&) {
  }
}

bool Door::Announce(const Stranger& stranger, int socket) {
  front::Arrival arrival;
  arrival.set_address(stranger.address);
  arrival.set_tls_subject(stranger.proof().tls_subject);
  arrival.set_service_account(stranger.proof().service_account);
  return SendPacket(control_, arrival, {socket});
}

void Door::LetIn(std::unique_ptr<Stranger> stranger) {
  epoll_ctl(epoll_, EPOLL_CTL_DEL, stranger->socket(), nullptr);
  std::unique_ptr<FrontTlsStream> stream = stranger->ReleaseStream();
  if (stream == nullptr) {
    const int flags = fcntl(stranger->socket(), F_GETFL);
    fcntl(stranger->socket(), F_SETFL, flags & ~O_NONBLOCK);
    Announce(*stranger, stranger->socket());
    return;
  }
  RelayLoop* const loop =
      std::min_element(relays_.begin(), relays_.end(), [](const auto& a, const auto& b) {
        return a->size() < b->size();
      })->get();
  size_t relays = 0;
  for (const auto& each : relays_) relays += each->size();
  int pair[2];
  if (relays >= max_relays_ || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    static auto* const limit = new LogLimit;
    Log(limit, LogLevel::kWarning, "client refused",
        {{"peer", stranger->address}, {"reason", "there are too many TLS connections"}});
    stream->End();
    return;
  }
  const bool announced = Announce(*stranger, pair[1]);
  close(pair[1]);
  fcntl(pair[0], F_SETFL, O_NONBLOCK);
  auto relay = std::make_unique<Relay>(stranger->ReleaseSocket(), std::move(stream), pair[0],
                                       stranger->received());
  if (announced) loop->Adopt(std::move(relay));
}

// A Hello that is there already is not lost for that.
void Door::MakeRoom(uint64_t id) {
  static auto* const limit = new LogLimit;
  Log(limit, LogLevel::kWarning, "many connections show no token; the oldest make room");
  const auto it = by_age_.find(id);
  if (it != by_age_.end()) Advance(it->second);
  Drop(id);
}

void Door::Drop(uint64_t id) {
  const auto it = by_age_.find(id);
  if (it != by_age_.end()) Take(it->second);
}

void Door::DropLate() {
  const auto now = std::chrono::steady_clock::now();
  while (!by_age_.empty()) {
    const int socket = by_age_.begin()->second;
    if (now - by_socket_[socket]->began < patience_) return;
    Take(socket);
  }
}

// After a flood.
void Door::TrimMemory() {
  const auto now = std::chrono::steady_clock::now();
  if (ended_ == 0 || now - trimmed_ < std::chrono::seconds(1)) return;
  if (ended_ >= kTrimAfter || by_age_.empty()) {
    malloc_trim(0);
    ended_ = 0;
  }
  trimmed_ = now;
}

}  // namespace chx::server
