// Frames: what a client and the daemon send each other over a byte stream. Each has a header of two
// little-endian u32, its payload's length and its kind. See docs/protocol.md.
#ifndef CHX_PROTO_FRAME_H_
#define CHX_PROTO_FRAME_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/byte_stream.h"

namespace google {
namespace protobuf {
class MessageLite;
}  // namespace protobuf
}  // namespace google

namespace chx {

enum class FrameKind : uint32_t {
  kMessage = 1,  // op stream: a Submit to the daemon, an Event from it
  kEnd = 2,      // op stream: a Status, the daemon's last frame
  kHello = 3,    // a Hello, the client's first frame
  kCall = 4,     // a Call to the daemon
  kReply = 5,    // a Reply from it
  kData = 6,     // elements of an array as they are; an empty one ends an upload
};

struct FrameHeader {
  uint32_t bytes;  // of the payload
  uint32_t kind;
};
inline constexpr size_t kFrameHeaderBytes = sizeof(FrameHeader);
inline constexpr size_t kMaxHelloBytes = 4096;
// Of the data frames that we send, and the most that is accepted.
inline constexpr size_t kChunkBytes = 512 << 10;
inline constexpr size_t kMaxDataBytes = 4 << 20;

// Appends a frame to `out`. False: the message is too large for one.
bool AppendFrame(FrameKind kind, const google::protobuf::MessageLite& message, std::string* out);

// Sends all of it, and waits while the peer does not read. False: the connection is cut.
bool SendAll(ByteStream* stream, absl::string_view bytes);
// The same; where it would wait it calls `wait`, and tries again if that has returned true.
bool SendAll(ByteStream* stream, absl::string_view bytes, absl::FunctionRef<bool()> wait);

// One frame, by SendAll. `buffer` is kept from one call to the next.
bool WriteFrame(ByteStream* stream, FrameKind kind, const google::protobuf::MessageLite& message,
                std::string* buffer);
bool WriteFrame(ByteStream* stream, FrameKind kind, const google::protobuf::MessageLite& message,
                std::string* buffer, absl::FunctionRef<bool()> wait);
// A frame whose payload is not copied.
bool WriteFrame(ByteStream* stream, FrameKind kind, absl::string_view payload);
bool WriteFrame(ByteStream* stream, FrameKind kind, absl::string_view payload,
                absl::FunctionRef<bool()> wait);

// Memory of frames that have not arrived whole yet, of many connections. Thread-safe.
class FrameBudget {
 public:
  virtual ~FrameBudget() = default;
  // For one more part of the frame that `reader` receives. False: there is none left.
  virtual bool Reserve(size_t bytes, const void* reader) = 0;
  // All that the reader has.
  virtual void Release(size_t bytes, const void* reader) = 0;
};

// Receives frames; used by one thread at a time.
class FrameReader {
 public:
  // kBad: no frame begins here, or one that is too large or that there is no memory for. kNothing:
  // nothing yet.
  enum class Result { kFrame, kCut, kBad, kNothing };
  // What to do where a signal or the socket's timeout ends a wait. kDoNotWait: there is none.
  enum class OnTimeout { kCut, kWaitOn, kReturn, kDoNotWait };
  using TimePoint = std::chrono::steady_clock::time_point;

  // Frames of more than `max_bytes` are refused before there is memory for them. Memory beyond a
  // small buffer is taken as bytes arrive, not as a header promises, and from `budget`.
  FrameReader(ByteStream* stream, size_t max_bytes, FrameBudget* budget = nullptr)
      : stream_(stream), budget_(budget), max_bytes_(max_bytes) {}
  ~FrameReader();
  FrameReader(const FrameReader&) = delete;

  void set_max_bytes(size_t max_bytes) { max_bytes_ = max_bytes; }
  // What has not arrived by then is a cut, however slowly bytes come.
  void set_deadline(absl::optional<TimePoint> deadline) { deadline_ = deadline; }

  // Waits for the next frame. `payload` lives until the next call. kCut ignores signals.
  Result Next(FrameKind* kind, absl::string_view* payload, OnTimeout on_timeout = OnTimeout::kCut);
  // Waits for the header of the next frame, which stays the next one.
  Result Peek(FrameKind* kind, size_t* bytes, OnTimeout on_timeout = OnTimeout::kCut);
  // Takes the frame that Peek has shown, its payload straight into place.
  Result TakeInto(char* out, OnTimeout on_timeout = OnTimeout::kCut);
  // Takes in what is there, without waiting, for a later Next. False: the stream is at its end.
  bool Receive();

 private:
  // Receives until `bytes` are there; kFrame if they are.
  Result Fill(size_t bytes, OnTimeout on_timeout);
  // What a call that has brought nothing means; kFrame: once more.
  Result AfterNothing(OnTimeout on_timeout) const;
  bool IsLate() const;
  // One call of the stream's. `wanted`: how large the buffer will have to be, or 0.
  ssize_t ReceiveOnce(bool wait, size_t wanted);
  bool Grow(size_t bytes);
  void DropLargeBuffer();

  ByteStream* const stream_;
  FrameBudget* const budget_;
  size_t max_bytes_;
  absl::optional<TimePoint> deadline_;
  std::string buffer_;  // its size is its capacity; what is received lies in [begin_, end_)
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t reserved_ = 0;  // of the budget
};

}  // namespace chx

#endif  // CHX_PROTO_FRAME_H_
