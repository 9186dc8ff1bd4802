#include "server/process/packets.h"

#include <google/protobuf/message_lite.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "proto/descriptors.h"

namespace chx::server {
namespace {

constexpr size_t kMaxPacketBytes = 192 << 10;  // within the system's default for a socket

}  // namespace

bool SendPacket(int socket, const google::protobuf::MessageLite& message,
                absl::Span<const int> descriptors) {
  std::string bytes = message.SerializeAsString();
  bytes.push_back('\0');  // A packet without bytes would look like the end.
  if (bytes.size() > kMaxPacketBytes) {
    errno = EMSGSIZE;
    return false;
  }
  return SendWithDescriptors(socket, bytes, descriptors, 0) == static_cast<ssize_t>(bytes.size());
}

PacketResult ReceivePacket(int socket, google::protobuf::MessageLite* message,
                           std::vector<int>* descriptors) {
  std::string bytes(kMaxPacketBytes, '\0');
  iovec data = {&bytes[0], bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxSentDescriptors * sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t size;
  do {
    size = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return PacketResult::kNothing;
  // Out of descriptors the kernel leaves those out that have no place: the packet counts.
  descriptors->clear();
  for (cmsghdr* part = size < 0 ? nullptr : CMSG_FIRSTHDR(&header); part != nullptr;
       part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int descriptor;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      descriptors->push_back(descriptor);
    }
  }
  if (size <= 0 || !message->ParseFromArray(bytes.data(), static_cast<int>(size) - 1)) {
    return PacketResult::kEnd;
  }
  return PacketResult::kPacket;
}

}  // namespace chx::server
