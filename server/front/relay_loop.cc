#include "server/front/relay_loop.h"

#include <malloc.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <new>
#include <utility>

namespace chx::server {
namespace {

constexpr int kRelayEvents = 64;
constexpr size_t kTrimRelaysAfter = 64;
constexpr uint32_t kUnwatched = ~0u;

}  // namespace

RelayLoop::RelayLoop()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = wake_;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
  thread_ = std::thread([this] { Run(); });
}

RelayLoop::~RelayLoop() {
  stop_ = true;
  eventfd_write(wake_, 1);
  thread_.join();
  close(wake_);
  close(epoll_);
}

void RelayLoop::Adopt(std::unique_ptr<Relay> relay) {
  ++size_;
  {
    MutexLock lock(&mutex_);
    new_.push_back(std::move(relay));
  }
  eventfd_write(wake_, 1);
}

void RelayLoop::Run() {
  std::array<epoll_event, kRelayEvents> events;
  while (!stop_) {
    const int timeout = !again_.empty() ? 0 : lingering_ > 0 ? 200 : -1;
    const int count = epoll_wait(epoll_, events.data(), kRelayEvents, timeout);
    for (int i = 0; i < count; ++i) {
      const int socket = events[i].data.fd;
      if (socket == wake_) {
        TakeIn();
        continue;
      }
      // A socket that was closed in this round may be another relay's by now: a step too many.
      const auto it = relays_.find(socket);
      if (it != relays_.end()) Serve(it->second.get(), socket, events[i].events);
    }
    std::vector<std::shared_ptr<Relay>> again = std::move(again_);
    again_.clear();
    for (const std::shared_ptr<Relay>& relay : again) {
      const auto it = relays_.find(relay->remote());
      if (it != relays_.end() && it->second == relay) Pump(relay.get(), Relay::Way::kBoth);
    }
    if (lingering_ > 0) EndLingering();
    TrimMemory();
  }
}

void RelayLoop::TakeIn() {
  eventfd_t ignored;
  eventfd_read(wake_, &ignored);
  std::vector<std::unique_ptr<Relay>> taken;
  {
    MutexLock lock(&mutex_);
    taken.swap(new_);
  }
  for (std::unique_ptr<Relay>& each : taken) {
    const std::shared_ptr<Relay> relay = std::move(each);
    relays_[relay->remote()] = relay;
    relays_[relay->local()] = relay;
    for (const int socket : {relay->remote(), relay->local()}) {
      epoll_event event = {};
      event.data.fd = socket;
      epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event);
    }
    Pump(relay.get(), Relay::Way::kBoth);
  }
}

void RelayLoop::Serve(Relay* relay, int socket, uint32_t events) {
  const uint32_t hung_up = events & (EPOLLERR | EPOLLHUP);
  if (hung_up != 0 && socket == relay->remote()) {
    Remove(relay);  // in both directions: nobody is there
    return;
  }
  if (hung_up != 0 && relay->local_watched != kUnwatched) {
    epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, nullptr);
    relay->local_watched = kUnwatched;
    relay->SetLocalHungUp();
  }
  // In a ping-pong one side has something and the other has not: that saves a call for each.
  Relay::Way way = Relay::Way::kBoth;
  if (events == EPOLLIN) way = socket == relay->remote() ? Relay::Way::kUp : Relay::Way::kDown;
  Pump(relay, way);
}

void RelayLoop::Pump(Relay* relay, Relay::Way way) {
  const bool lingered = relay->lingers();
  bool goes_on = false;
  try {
    goes_on = relay->Pump(way, buffer_.data());
  } catch (const std::bad_alloc&) {
  }
  if (!lingered && relay->lingers()) ++lingering_;
  if (!goes_on) {
    Remove(relay);
    return;
  }
  Watch(relay, relay->remote(), relay->RemoteEvents(), &relay->remote_watched);
  Watch(relay, relay->local(), relay->LocalEvents(), &relay->local_watched);
  if (relay->again()) again_.push_back(relays_[relay->remote()]);
}

void RelayLoop::Watch(Relay* relay, int socket, uint32_t events, uint32_t* watched) const {
  if (*watched == events || *watched == kUnwatched) return;
  epoll_event event = {};
  event.events = events;
  event.data.fd = socket;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, socket, &event);
  *watched = events;
}

void RelayLoop::Remove(Relay* relay) {
  if (relay->lingers()) --lingering_;
  const auto it = relays_.find(relay->remote());
  const std::shared_ptr<Relay> last = it->second;
  relays_.erase(it);
  relays_.erase(last->local());
  --size_;
  ++ended_;
}

void RelayLoop::TrimMemory() {
  if (ended_ < kTrimRelaysAfter && (ended_ == 0 || !relays_.empty())) return;
  malloc_trim(0);
  ended_ = 0;
}

void RelayLoop::EndLingering() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<Relay>> expired;
  for (const auto& [socket, relay] : relays_) {
    if (socket == relay->remote() && relay->Expired(now)) expired.push_back(relay);
  }
  for (const std::shared_ptr<Relay>& relay : expired) Remove(relay.get());
}

}  // namespace chx::server
