// The socket over which a client gets the file descriptors of its session's memory: one request and
// one reply a connection, as packets (SOCK_SEQPACKET) in the host's byte order.
#ifndef CHX_PROTO_SEGMENT_SOCKET_H_
#define CHX_PROTO_SEGMENT_SOCKET_H_

#include <cstdint>
#include <string>

namespace chx {

// Beside the daemon's own socket.
inline std::string SegmentSocketOf(const std::string& socket) { return socket + ".shm"; }

constexpr uint32_t kSegmentMagic = 0x31786863;  // "chx1"

struct SegmentRequest {
  uint32_t magic;
  uint32_t segment;
  char session_id[16];
};

// A descriptor comes along if `found`. Unknown sessions and unknown segments look the same.
struct SegmentReply {
  uint32_t magic;
  uint32_t found;
  uint64_t bytes;
};

}  // namespace chx

#endif  // CHX_PROTO_SEGMENT_SOCKET_H_
