// Protobuf messages on a stream socket between processes of one host: the op stream without HTTP/2,
// which takes more time than most batches. Each has a header of two u32, in the host's byte order.
#ifndef CHX_PROTO_FRAME_H_
#define CHX_PROTO_FRAME_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace google {
namespace protobuf {
class MessageLite;
}  // namespace protobuf
}  // namespace google

namespace chx {

// Beside the daemon's own socket.
inline std::string StreamSocketOf(const std::string& socket) { return socket + ".ops"; }

enum class FrameKind : uint32_t {
  kMessage = 1,  // a Submit to the daemon, an Event from it
  kEnd = 2,      // a StreamEnd, the last frame from the daemon
};

// Sends one frame, and waits while the peer does not read. False: the connection is cut. `buffer`
// is kept from one call to the next.
bool WriteFrame(int socket, FrameKind kind, const google::protobuf::MessageLite& message,
                std::string* buffer);
// The same; where it would wait it calls `wait`, and tries again if that has returned true.
bool WriteFrame(int socket, FrameKind kind, const google::protobuf::MessageLite& message,
                std::string* buffer, absl::FunctionRef<bool()> wait);

// Receives frames; used by one thread at a time.
class FrameReader {
 public:
  // kBad: no frame begins here, or one that is too large. kNothing: nothing yet.
  enum class Result { kFrame, kCut, kBad, kNothing };
  // What to do where a signal or the socket's timeout ends a wait.
  enum class OnTimeout { kCut, kWaitOn, kReturn };

  // Frames of more than `max_bytes` are refused before there is memory for them.
  FrameReader(int socket, size_t max_bytes) : socket_(socket), max_bytes_(max_bytes) {}
  void set_max_bytes(size_t max_bytes) { max_bytes_ = max_bytes; }
  // Waits for the next frame. `payload` lives until the next call. kCut ignores signals.
  Result Next(FrameKind* kind, absl::string_view* payload, OnTimeout on_timeout = OnTimeout::kCut);
  // Takes in what is there, without waiting, for a later Next.
  void Receive();

 private:
  // Receives until `bytes` are there; kFrame if they are.
  Result Fill(size_t bytes, OnTimeout on_timeout);
  // One call of recv, with its flags: what that returns.
  ssize_t ReceiveOnce(int flags);

  const int socket_;
  size_t max_bytes_;
  std::string buffer_;  // its size is its capacity; what is received lies in [begin_, end_)
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace chx

#endif  // CHX_PROTO_FRAME_H_
