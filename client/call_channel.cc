#include "client/call_channel.h"

#include <limits>
#include <utility>

#include "client/waiting.h"
#include "proto/messages.h"

namespace chx {
namespace {

// The daemon's limits are its own; this is what a message can have.
constexpr size_t kMaxBytes = std::numeric_limits<int>::max();
constexpr int kPollMs = 200;

}  // namespace

CallChannel::CallChannel(std::unique_ptr<Socket> socket, const std::string& token)
    : socket_(std::move(socket)), reader_(socket_.get(), kMaxBytes) {
  v1::Hello hello;
  hello.set_min_protocol(wire::kProtocolVersion);
  hello.set_max_protocol(wire::kProtocolVersion);
  hello.set_token(token);
  AppendFrame(FrameKind::kHello, hello, &buffer_);
}

bool CallChannel::GoesOn() {
  if (deadline_.has_value()) return std::chrono::steady_clock::now() < *deadline_;
  interrupted_ = Interruption::Asked();
  return !interrupted_;
}

bool CallChannel::WaitForRoom() { return socket_->WaitForRoom(false, kPollMs).out || GoesOn(); }

bool CallChannel::Call(const v1::Call& call, v1::Reply* reply, TimePoint deadline) {
  deadline_ = deadline;
  reader_.set_deadline(deadline);
  // A daemon that turns the connection away may have said why, and closed it, before we write.
  const bool sent = Send(call);
  const bool answered = Receive(reply) && (sent || reply->has_status());
  deadline_.reset();
  reader_.set_deadline(absl::nullopt);
  return answered;
}

bool CallChannel::Send(const v1::Call& call) {
  const bool sent = AppendFrame(FrameKind::kCall, call, &buffer_) &&
                    SendAll(socket_.get(), buffer_, [this] { return WaitForRoom(); });
  buffer_.clear();
  return sent;
}

bool CallChannel::SendData(absl::string_view data) {
  return WriteFrame(socket_.get(), FrameKind::kData, data, [this] { return WaitForRoom(); });
}

bool CallChannel::Receive(v1::Reply* reply) {
  FrameKind kind;
  absl::string_view payload;
  FrameReader::Result result;
  do {
    result = reader_.Next(&kind, &payload, FrameReader::OnTimeout::kReturn);
  } while (result == FrameReader::Result::kNothing && GoesOn());
  return result == FrameReader::Result::kFrame && kind == FrameKind::kReply &&
         reply->ParseFromArray(payload.data(), static_cast<int>(payload.size()));
}

bool CallChannel::ReceiveData(char* out, size_t bytes) {
  while (bytes != 0) {
    FrameKind kind;
    size_t size = 0;
    if (reader_.Peek(&kind, &size, FrameReader::OnTimeout::kWaitOn) !=
            FrameReader::Result::kFrame ||
        kind != FrameKind::kData || size > bytes ||
        reader_.TakeInto(out, FrameReader::OnTimeout::kWaitOn) != FrameReader::Result::kFrame) {
      return false;
    }
    out += size;
    bytes -= size;
  }
  return true;
}

}  // namespace chx
