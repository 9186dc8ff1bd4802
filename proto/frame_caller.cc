#include "proto/frame_caller.h"

#include <unistd.h>

#include "proto/messages.h"

namespace chx {
namespace {

constexpr size_t kMaxReplyBytes = 32 << 20;

}  // namespace

FrameCaller::FrameCaller(int socket, const std::string& token)
    : socket_(socket), stream_(socket), reader_(&stream_, kMaxReplyBytes) {
  v1::Hello hello;
  hello.set_min_protocol(wire::kProtocolVersion);
  hello.set_max_protocol(wire::kProtocolVersion);
  hello.set_token(token);
  std::string bytes;
  // A Hello that is not taken shows at the first call.
  if (AppendFrame(FrameKind::kHello, hello, &bytes)) SendAll(&stream_, bytes);
}

FrameCaller::~FrameCaller() { close(socket_); }

absl::Status FrameCaller::Call(const v1::Call& call, v1::Reply* reply) {
  MutexLock lock(&mutex_);
  FrameKind kind;
  absl::string_view payload;
  if (!WriteFrame(&stream_, FrameKind::kCall, call, &buffer_) ||
      reader_.Next(&kind, &payload) != FrameReader::Result::kFrame || kind != FrameKind::kReply ||
      !reply->ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::UnavailableError("the daemon is gone");
  }
  return wire::FromMessage(reply->status());
}

}  // namespace chx
