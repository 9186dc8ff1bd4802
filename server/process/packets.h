// Packets between the daemon and a helper process: a message and descriptors that come along.
#ifndef CHX_SERVER_PROCESS_PACKETS_H_
#define CHX_SERVER_PROCESS_PACKETS_H_

#include <vector>

#include "absl/types/span.h"

namespace google {
namespace protobuf {
class MessageLite;
}  // namespace protobuf
}  // namespace google

namespace chx::server {

// Over a SOCK_SEQPACKET socket. The descriptors stay the caller's. False: the other side is gone,
// or, of a socket that does not block, reads too slowly.
bool SendPacket(int socket, const google::protobuf::MessageLite& message,
                absl::Span<const int> descriptors);

// Waits, unless the socket does not block. The descriptors are the caller's to close.
enum class PacketResult { kPacket, kNothing, kEnd };
PacketResult ReceivePacket(int socket, google::protobuf::MessageLite* message,
                           std::vector<int>* descriptors);

}  // namespace chx::server

#endif  // CHX_SERVER_PROCESS_PACKETS_H_
