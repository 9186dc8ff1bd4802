#include "server/rpc/frame_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <utility>

#include "proto/messages.h"

namespace chx::server {
namespace {

constexpr std::chrono::milliseconds kLinger(1000);

// `which`: SO_RCVTIMEO or SO_SNDTIMEO.
void SetTimeout(int socket, int which, std::chrono::milliseconds timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const auto rest = std::chrono::duration_cast<std::chrono::microseconds>(timeout - seconds);
  const timeval value = {seconds.count(), rest.count()};
  setsockopt(socket, SOL_SOCKET, which, &value, sizeof(value));
}

}  // namespace

FrameConnection::FrameConnection(int socket, FrameBudget* budget, FramePatience patience)
    : socket_(socket),
      patience_(patience),
      closer_{socket},
      stream_(socket),
      share_(this, budget),
      reader_(&stream_, kMaxHelloBytes, budget == nullptr ? nullptr : &share_) {}

bool FrameConnection::Share::Reserve(size_t bytes, const void* reader) {
  if (!budget_->Reserve(bytes, reader)) return false;
  connection_->SetReceiveTimeout(connection_->patience_.stall);
  connection_->reader_.set_deadline(std::chrono::steady_clock::now() +
                                    connection_->patience_.whole_frame);
  return true;
}

void FrameConnection::Share::Release(size_t bytes, const void* reader) {
  connection_->SetReceiveTimeout(std::chrono::milliseconds(0));
  connection_->reader_.set_deadline(absl::nullopt);
  budget_->Release(bytes, reader);
}

FrameConnection::Closer::~Closer() { close(socket); }

bool FrameConnection::Send(FrameKind kind, const google::protobuf::MessageLite& message) {
  MutexLock lock(&write_mutex_);
  return WriteFrame(&stream_, kind, message, &buffer_) && SendPending();
}

bool FrameConnection::SendReply(const absl::Status& status, v1::Reply* reply) {
  if (!status.ok()) *reply->mutable_status() = wire::ToMessage(status);
  return Send(FrameKind::kReply, *reply);
}

bool FrameConnection::SendData(absl::string_view data) {
  MutexLock lock(&write_mutex_);
  return WriteFrame(&stream_, FrameKind::kData, data);
}

void FrameConnection::EnterStream(bool streaming) {
  MutexLock lock(&state_mutex_);
  streaming_ = streaming;
}

// Whoever holds the write mutex, perhaps for long, sends the word after its own.
void FrameConnection::TellDraining() {
  {
    MutexLock lock(&state_mutex_);
    if (!streaming_) return;
    tell_ = true;
  }
  if (!write_mutex_.TryLock()) return;
  pollfd room = {socket_, POLLOUT, 0};
  if (poll(&room, 1, 0) > 0) SendPending();
  write_mutex_.Unlock();
}

bool FrameConnection::SendPending() {
  {
    MutexLock lock(&state_mutex_);
    if (!std::exchange(tell_, false) || !streaming_) return true;
  }
  v1::Event event;
  event.set_draining(true);
  return WriteFrame(&stream_, FrameKind::kMessage, event, &buffer_);
}

void FrameConnection::SetReceiveTimeout(std::chrono::milliseconds timeout) const {
  SetTimeout(socket_, SO_RCVTIMEO, timeout);
}

void FrameConnection::SetSendTimeout(std::chrono::milliseconds timeout) const {
  SetTimeout(socket_, SO_SNDTIMEO, timeout);
}

bool FrameConnection::HungUp() const {
  pollfd state = {socket_, POLLRDHUP, 0};
  return poll(&state, 1, 0) > 0;
}

void FrameConnection::Cut() const { shutdown(socket_, SHUT_RDWR); }

void FrameConnection::Linger() {
  shutdown(socket_, SHUT_WR);
  const auto end = std::chrono::steady_clock::now() + kLinger;
  SetReceiveTimeout(kLinger);
  char ignored[4096];
  while (stream_.Receive(ignored, sizeof(ignored), true) > 0 &&
         std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace chx::server
