#include "proto/frame.h"

#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

namespace chx {
namespace {

static_assert(sizeof(FrameHeader) == kFrameHeaderBytes, "as on the wire");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are copied as they are");

constexpr size_t kSmallBuffer = 64 << 10;
constexpr size_t kKeptBuffer = 16 * kSmallBuffer;

bool IsKind(uint32_t kind) {
  return kind >= static_cast<uint32_t>(FrameKind::kMessage) &&
         kind <= static_cast<uint32_t>(FrameKind::kData);
}

bool WouldWait() { return errno == EAGAIN || errno == EWOULDBLOCK; }

// `wait`: null where the stream itself waits.
bool Send(ByteStream* stream, absl::string_view left, bool more,
          const absl::FunctionRef<bool()>* wait) {
  while (!left.empty()) {
    errno = 0;
    const ssize_t sent = stream->Send(left.data(), left.size(), wait == nullptr, more);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && wait != nullptr && WouldWait()) {
      if (!(*wait)()) return false;
      continue;
    }
    if (sent <= 0) return false;
    left.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool Serialize(FrameKind kind, const google::protobuf::MessageLite& message, std::string* buffer) {
  buffer->clear();
  return AppendFrame(kind, message, buffer);
}

bool WriteData(ByteStream* stream, FrameKind kind, absl::string_view payload,
               const absl::FunctionRef<bool()>* wait) {
  if (payload.size() > std::numeric_limits<uint32_t>::max()) return false;
  const FrameHeader header = {static_cast<uint32_t>(payload.size()), static_cast<uint32_t>(kind)};
  char bytes[sizeof(header)];
  std::memcpy(bytes, &header, sizeof(header));
  return Send(stream, absl::string_view(bytes, sizeof(bytes)), !payload.empty(), wait) &&
         Send(stream, payload, false, wait);
}

void Trim(std::string* buffer) {
  if (buffer->capacity() > kKeptBuffer) *buffer = std::string();
}

}  // namespace

bool AppendFrame(FrameKind kind, const google::protobuf::MessageLite& message, std::string* out) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes > static_cast<size_t>(std::numeric_limits<int>::max())) return false;
  const FrameHeader header = {static_cast<uint32_t>(bytes), static_cast<uint32_t>(kind)};
  const size_t at = out->size();
  out->resize(at + sizeof(header) + bytes);
  std::memcpy(&(*out)[at], &header, sizeof(header));
  message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(&(*out)[at] + sizeof(header)));
  return true;
}

bool SendAll(ByteStream* stream, absl::string_view bytes) {
  return Send(stream, bytes, false, nullptr);
}

bool SendAll(ByteStream* stream, absl::string_view bytes, absl::FunctionRef<bool()> wait) {
  return Send(stream, bytes, false, &wait);
}

bool WriteFrame(ByteStream* stream, FrameKind kind, const google::protobuf::MessageLite& message,
                std::string* buffer) {
  if (!Serialize(kind, message, buffer) || !Send(stream, *buffer, false, nullptr)) return false;
  Trim(buffer);
  return true;
}

bool WriteFrame(ByteStream* stream, FrameKind kind, const google::protobuf::MessageLite& message,
                std::string* buffer, absl::FunctionRef<bool()> wait) {
  if (!Serialize(kind, message, buffer) || !Send(stream, *buffer, false, &wait)) return false;
  Trim(buffer);
  return true;
}

bool WriteFrame(ByteStream* stream, FrameKind kind, absl::string_view payload) {
  return WriteData(stream, kind, payload, nullptr);
}

bool WriteFrame(ByteStream* stream, FrameKind kind, absl::string_view payload,
                absl::FunctionRef<bool()> wait) {
  return WriteData(stream, kind, payload, &wait);
}

FrameReader::~FrameReader() { DropLargeBuffer(); }

FrameReader::Result FrameReader::Peek(FrameKind* kind, size_t* bytes, OnTimeout on_timeout) {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (reserved_ != 0 || buffer_.size() > 4 * kSmallBuffer) DropLargeBuffer();
  }
  FrameHeader header;
  const Result filled = Fill(sizeof(header), on_timeout);
  if (filled != Result::kFrame) return filled;
  std::memcpy(&header, &buffer_[begin_], sizeof(header));
  if (header.bytes > max_bytes_ || !IsKind(header.kind)) return Result::kBad;
  *kind = static_cast<FrameKind>(header.kind);
  *bytes = header.bytes;
  return Result::kFrame;
}

FrameReader::Result FrameReader::Next(FrameKind* kind, absl::string_view* payload,
                                      OnTimeout on_timeout) {
  size_t bytes = 0;
  const Result peeked = Peek(kind, &bytes, on_timeout);
  if (peeked != Result::kFrame) return peeked;
  const Result filled = Fill(kFrameHeaderBytes + bytes, on_timeout);
  if (filled != Result::kFrame) return filled;
  *payload = absl::string_view(&buffer_[begin_] + kFrameHeaderBytes, bytes);
  begin_ += kFrameHeaderBytes + bytes;
  return Result::kFrame;
}

FrameReader::Result FrameReader::TakeInto(char* out, OnTimeout on_timeout) {
  FrameHeader header;
  std::memcpy(&header, &buffer_[begin_], sizeof(header));
  begin_ += sizeof(header);
  size_t done = std::min<size_t>(header.bytes, end_ - begin_);
  if (done != 0) std::memcpy(out, &buffer_[begin_], done);
  begin_ += done;
  while (done < header.bytes) {
    if (IsLate()) return Result::kCut;
    errno = 0;
    const ssize_t received = stream_->Receive(out + done, header.bytes - done, true);
    if (received > 0) {
      done += static_cast<size_t>(received);
      continue;
    }
    const Result next = AfterNothing(on_timeout);
    if (next != Result::kFrame) return Result::kCut;  // half a frame is none
  }
  return Result::kFrame;
}

FrameReader::Result FrameReader::Fill(size_t bytes, OnTimeout on_timeout) {
  while (end_ - begin_ < bytes) {
    if (IsLate()) return Result::kCut;
    if (ReceiveOnce(on_timeout != OnTimeout::kDoNotWait, bytes) > 0) continue;
    if (errno == ENOMEM) return Result::kBad;
    const Result next = AfterNothing(on_timeout);
    if (next != Result::kFrame) return next;
  }
  return Result::kFrame;
}

FrameReader::Result FrameReader::AfterNothing(OnTimeout on_timeout) const {
  const bool signalled = errno == EINTR;
  if (!signalled && !WouldWait()) return Result::kCut;
  // Nobody who has only this connection to wait for has to do with a signal.
  if (on_timeout == OnTimeout::kCut) return signalled ? Result::kFrame : Result::kCut;
  return on_timeout == OnTimeout::kWaitOn ? Result::kFrame : Result::kNothing;
}

bool FrameReader::IsLate() const {
  return deadline_.has_value() && std::chrono::steady_clock::now() >= *deadline_;
}

bool FrameReader::Receive() { return ReceiveOnce(false, 0) > 0 || WouldWait() || errno == EINTR; }

ssize_t FrameReader::ReceiveOnce(bool wait, size_t wanted) {
  if (end_ == buffer_.size()) {
    if (begin_ > 0) {
      std::memmove(&buffer_[0], &buffer_[begin_], end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (end_ == buffer_.size()) {
      const size_t twice = std::max(kSmallBuffer, 2 * buffer_.size());
      if (!Grow(wanted > buffer_.size() ? std::min(twice, std::max(kSmallBuffer, wanted))
                                        : twice)) {
        errno = ENOMEM;
        return -1;
      }
    }
  }
  errno = 0;  // the peer's end is no error
  const ssize_t received = stream_->Receive(&buffer_[end_], buffer_.size() - end_, wait);
  if (received > 0) end_ += static_cast<size_t>(received);
  return received;
}

bool FrameReader::Grow(size_t bytes) {
  if (budget_ != nullptr && bytes > kSmallBuffer) {
    if (!budget_->Reserve(bytes - reserved_, this)) return false;
    reserved_ = bytes;
  }
  buffer_.resize(bytes);
  return true;
}

void FrameReader::DropLargeBuffer() {
  buffer_ = std::string();
  if (reserved_ != 0) budget_->Release(reserved_, this);
  reserved_ = 0;
}

}  // namespace chx
