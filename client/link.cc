#include "client/link.h"

#include "proto/messages.h"

namespace chx {
namespace {

constexpr int kRoomPollMs = 1000;

FrameReader::OnTimeout OnTimeoutOf(Link::Wait wait) {
  switch (wait) {
    case Link::Wait::kOn:
      return FrameReader::OnTimeout::kWaitOn;
    case Link::Wait::kAWhile:
      return FrameReader::OnTimeout::kReturn;
    default:
      return FrameReader::OnTimeout::kDoNotWait;
  }
}

}  // namespace

bool Link::Write(const v1::Submit& batch) {
  return WriteFrame(&channel_->socket(), FrameKind::kMessage, batch, &buffer_, [this] {
    WaitForRoom(kRoomPollMs);
    return true;  // were it cut, the next try would tell
  });
}

bool Link::WaitForRoom(int timeout_ms) {
  const Socket::Ready ready = channel_->socket().WaitForRoom(true, timeout_ms);
  if (ready.out || !ready.in) return ready.out;
  // There is something to read. If somebody does, there is soon room, or nobody.
  if (!reading_.TryLock()) return channel_->socket().WaitForRoom(false, 1).out;
  channel_->reader().Receive();
  reading_.Unlock();
  return false;
}

Link::Got Link::Read(v1::Event* event, Wait wait) {
  MutexLock lock(&reading_);
  FrameKind kind;
  absl::string_view payload;
  const FrameReader::Result result = channel_->reader().Next(&kind, &payload, OnTimeoutOf(wait));
  if (result == FrameReader::Result::kNothing) return Got::kNothing;
  const int size = static_cast<int>(payload.size());
  if (result == FrameReader::Result::kFrame && kind == FrameKind::kMessage &&
      event->ParseFromArray(payload.data(), size)) {
    return Got::kEvent;
  }
  v1::Status end;
  if (result == FrameReader::Result::kFrame && kind == FrameKind::kEnd &&
      end.ParseFromArray(payload.data(), size)) {
    end_ = wire::FromMessage(end);
  }
  return Got::kCut;
}

}  // namespace chx
