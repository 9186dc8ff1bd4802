#include "server/front/relay.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "server/front/would_block.h"

namespace chx::server {
namespace {

constexpr int kRounds = 8;

}  // namespace

Relay::Relay(int remote, std::unique_ptr<FrontTlsStream> stream, int local, std::string received)
    : remote_(remote), local_(local), stream_(std::move(stream)), up_(std::move(received)) {}

Relay::~Relay() {
  stream_ = nullptr;
  close(remote_);
  close(local_);
}

uint32_t Relay::RemoteEvents() const {
  const bool reads = up_.empty() && !remote_ended_;
  return (reads ? EPOLLIN : 0u) | (down_.empty() ? 0u : EPOLLOUT);
}

uint32_t Relay::LocalEvents() const {
  const bool reads = down_.empty() && !local_ended_;
  return (reads ? EPOLLIN : 0u) | (up_.empty() ? 0u : EPOLLOUT);
}

bool Relay::Pump(Way way, char* buffer) {
  again_ = false;
  if (way != Way::kDown && !PumpUp(buffer)) return false;
  if (way != Way::kUp && !PumpDown(buffer)) return false;
  return !(remote_ended_ && local_ended_);
}

void Relay::SendUp(const char* data, size_t size) {
  const ssize_t sent = send(local_, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && !WouldBlock()) {
    // It may have written why, which the peer should still get.
    local_deaf_ = true;
    up_ = std::string();
    return;
  }
  const size_t done = sent < 0 ? 0 : static_cast<size_t>(sent);
  up_ = done == size ? std::string() : std::string(data + done, size - done);
}

bool Relay::PumpUp(char* buffer) {
  if (!up_.empty()) {
    const std::string up = std::move(up_);
    SendUp(up.data(), up.size());
  }
  for (int round = 0; up_.empty() && !remote_ended_; ++round) {
    if (round == kRounds) {
      again_ = true;
      return true;
    }
    size_t size = 0;
    const IoResult read = stream_->Read(buffer, kBytes, &size);
    if (read == IoResult::kBroken) return false;
    if (read == IoResult::kWait) return true;
    if (read == IoResult::kAgain) continue;
    if (read == IoResult::kEnd) {
      remote_ended_ = true;
      shutdown(local_, SHUT_WR);
      return true;
    }
    if (!local_deaf_) SendUp(buffer, size);
    if (!stream_->HasPending()) return true;  // epoll tells when there is more
  }
  return true;
}

bool Relay::PumpDown(char* buffer) {
  for (int round = 0; round < kRounds && !local_ended_; ++round) {
    if (!down_.empty()) {
      const IoResult written = stream_->Write(down_.data(), down_.size());
      if (written != IoResult::kDone) return written == IoResult::kWait;
      down_ = std::string();
    }
    const ssize_t size = recv(local_, buffer, kBytes, MSG_DONTWAIT);
    if (size < 0 && WouldBlock()) return true;
    if (size <= 0) {
      local_ended_ = local_deaf_ = true;
      local_end_ = std::chrono::steady_clock::now();
      stream_->End();
      shutdown(remote_, SHUT_WR);
      return true;
    }
    const IoResult written = stream_->Write(buffer, static_cast<size_t>(size));
    if (written == IoResult::kWait) {
      down_.assign(buffer, static_cast<size_t>(size));
      return true;
    }
    if (written != IoResult::kDone) return false;
    if (static_cast<size_t>(size) < kBytes && !local_hung_up_) return true;
  }
  again_ = again_ || (local_hung_up_ && !local_ended_);
  return true;
}

}  // namespace chx::server
