#include "proto/refusal.h"

#include <sys/socket.h>

#include <array>

#include "proto/chxd.pb.h"
#include "proto/frame.h"

namespace chx {

std::string RefusalFrame(const absl::Status& status) {
  v1::Reply reply;
  reply.mutable_status()->set_code(static_cast<uint32_t>(status.code()));
  reply.mutable_status()->set_message(std::string(status.message()));
  std::string frame;
  AppendFrame(FrameKind::kReply, reply, &frame);
  return frame;
}

void DiscardUnread(int socket) {
  std::array<char, 4096> ignored;
  for (int i = 0; i < 64; ++i) {
    if (recv(socket, ignored.data(), ignored.size(), MSG_DONTWAIT) <= 0) return;
  }
}

}  // namespace chx
