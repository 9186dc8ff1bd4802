#include "server/admin/admin_supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "server/admin/admin.h"
#include "server/admin/control.pb.h"
#include "server/log/log.h"
#include "server/process/packets.h"

namespace chx::server {

AdminSupervisor::AdminSupervisor(AdminOptions options)
    : options_(std::move(options)), wanted_access_(options_.access), access_(options_.access) {}

absl::StatusOr<std::unique_ptr<AdminSupervisor>> AdminSupervisor::Start(AdminOptions options) {
  std::unique_ptr<AdminSupervisor> supervisor(new AdminSupervisor(std::move(options)));
  supervisor->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (supervisor->wake_ < 0) return absl::UnavailableError("cannot make an eventfd");
  supervisor->thread_ = std::thread([self = supervisor.get()] { self->Run(); });
  return supervisor;
}

AdminSupervisor::~AdminSupervisor() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
  if (wake_ >= 0) close(wake_);
}

void AdminSupervisor::Adopt(int socket) {
  {
    MutexLock lock(&mutex_);
    if (new_.size() >= options_.max_connections) {
      close(socket);
      return;
    }
    new_.push_back(socket);
  }
  Wake();
}

void AdminSupervisor::SetServing(bool serving) {
  {
    MutexLock lock(&mutex_);
    wanted_serving_ = serving;
  }
  Wake();
}

void AdminSupervisor::SetDevices(std::map<std::string, bool> devices) {
  {
    MutexLock lock(&mutex_);
    wanted_devices_ = std::move(devices);
  }
  Wake();
}

void AdminSupervisor::SetAccess(AdminAccess access) {
  {
    MutexLock lock(&mutex_);
    wanted_access_ = std::move(access);
  }
  Wake();
}

pid_t AdminSupervisor::pid() const {
  MutexLock lock(&mutex_);
  return pid_;
}

void AdminSupervisor::Wake() const {
  if (wake_ >= 0) eventfd_write(wake_, 1);
}

void AdminSupervisor::Run() {
  std::vector<pollfd> watched;
  while (TakeOrders()) {
    HandOver();
    watched = {{wake_, POLLIN, 0}, {child_ == nullptr ? -1 : child_->control(), POLLIN, 0}};
    for (const int connection : connections_) watched.push_back({connection, POLLRDHUP, 0});
    int timeout = -1;
    if (const absl::optional<Clock::time_point> next = NextTime()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
      timeout = static_cast<int>(std::max<int64_t>(left.count(), 0));
    }
    poll(watched.data(), watched.size(), timeout);
    if (watched[1].revents != 0) {
      Log(LogLevel::kWarning, "the admin process has ended; gRPC's connections are cut");
      Lose();
      not_before_ = Clock::now() + pause_.Next();
      continue;
    }
    for (size_t i = connections_.size(); i > 0; --i) {
      if (watched[i + 1].revents != 0) DropConnection(i - 1);
    }
    if (child_ != nullptr && connections_.empty() && Clock::now() >= idle_since_ + options_.idle) {
      Lose();
    }
  }
  Lose();
  for (const int socket : waiting_) close(socket);
}

absl::optional<AdminSupervisor::Clock::time_point> AdminSupervisor::NextTime() const {
  if (!waiting_.empty()) return not_before_;
  if (child_ != nullptr && connections_.empty()) return idle_since_ + options_.idle;
  return absl::nullopt;
}

bool AdminSupervisor::TakeOrders() {
  eventfd_t count;
  eventfd_read(wake_, &count);
  bool changed = false;
  bool other_access = false;
  {
    MutexLock lock(&mutex_);
    waiting_.insert(waiting_.end(), new_.begin(), new_.end());
    new_.clear();
    if (stop_) return false;
    changed = serving_ != wanted_serving_ || devices_ != wanted_devices_;
    serving_ = wanted_serving_;
    devices_ = wanted_devices_;
    other_access = !(access_ == wanted_access_);
    access_ = wanted_access_;
  }
  if (other_access && child_ != nullptr) Lose();
  // One that does not take it in would go on to say what was true before.
  if (changed && child_ != nullptr && !SendSettings(-1)) Lose();
  while (waiting_.size() > options_.max_connections) {
    close(waiting_.front());
    waiting_.erase(waiting_.begin());
  }
  return true;
}

void AdminSupervisor::HandOver() {
  if (waiting_.empty() || Clock::now() < not_before_) return;
  if (child_ == nullptr && !Spawn()) return;
  while (connections_.size() + waiting_.size() > options_.max_connections) DropConnection(0);
  for (const int socket : waiting_) {
    // gRPC wants sockets that do not block.
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
    connections_.push_back(socket);
    if (!SendPacket(child_->control(), admin::Packet(), {socket})) {
      DropConnection(connections_.size() - 1);
    }
  }
  waiting_.clear();
}

bool AdminSupervisor::Spawn() {
  int pair[2] = {-1, -1};
  absl::StatusOr<std::unique_ptr<Child>> child =
      Child::Start(options_.program, "chxd-admin", kAdminArgument);
  if (!child.ok() || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    CloseWaiting(child.ok() ? "no socket for the admin process" : child.status().message());
    return false;
  }
  child_ = *std::move(child);
  // One that reads nothing must not hold up the daemon's end.
  fcntl(child_->control(), F_SETFL, O_NONBLOCK);
  pause_.Started();
  idle_since_ = Clock::now();
  SendSettings(pair[1]);
  close(pair[1]);
  try {
    calls_ = std::thread([this, socket = pair[0]] { options_.serve(socket); });
  } catch (const std::system_error&) {
    close(pair[0]);
    child_ = nullptr;
    CloseWaiting("no thread for the admin process");
    return false;
  }
  MutexLock lock(&mutex_);
  pid_ = child_->pid();
  return true;
}

void AdminSupervisor::CloseWaiting(absl::string_view why) {
  static auto* const limit = new LogLimit;  // whoever connects can cause it
  Log(limit, LogLevel::kError, "the admin process cannot be started", {{"reason", why}});
  for (const int socket : waiting_) close(socket);
  waiting_.clear();
}

bool AdminSupervisor::SendSettings(int daemon) const {
  admin::Packet packet;
  packet.mutable_settings()->set_token(access_.token);
  packet.mutable_settings()->set_asks_token(access_.asks_token());
  packet.mutable_settings()->set_by_tenant(access_.by_tenant);
  for (const std::string& hash : access_.token_hashes) {
    packet.mutable_settings()->add_token_hashes(hash);
  }
  packet.mutable_settings()->set_serving(serving_);
  for (const auto& [name, works] : devices_) {
    if (works) {
      packet.mutable_settings()->add_working_devices(name);
    } else {
      packet.mutable_settings()->add_lost_devices(name);
    }
  }
  return SendPacket(child_->control(), packet, absl::MakeConstSpan(&daemon, daemon < 0 ? 0 : 1));
}

void AdminSupervisor::Lose() {
  child_ = nullptr;
  if (calls_.joinable()) calls_.join();
  while (!connections_.empty()) DropConnection(connections_.size() - 1);
  MutexLock lock(&mutex_);
  pid_ = 0;
}

// gRPC may still have it: its peer is to see the end.
void AdminSupervisor::DropConnection(size_t index) {
  shutdown(connections_[index], SHUT_RDWR);
  close(connections_[index]);
  connections_.erase(connections_.begin() + static_cast<ptrdiff_t>(index));
  idle_since_ = Clock::now();
}

}  // namespace chx::server
