#include "proto/frame.h"

#include <google/protobuf/message_lite.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

namespace chx {
namespace {

struct FrameHeader {
  uint32_t bytes;
  uint32_t kind;
};

constexpr size_t kSmallBuffer = 64 << 10;

}  // namespace

namespace {

bool Write(int socket, FrameKind kind, const google::protobuf::MessageLite& message,
           std::string* buffer, int flags, absl::FunctionRef<bool()> wait) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes > static_cast<size_t>(std::numeric_limits<int>::max())) return false;
  const FrameHeader header = {static_cast<uint32_t>(bytes), static_cast<uint32_t>(kind)};
  buffer->resize(sizeof(header) + bytes);
  std::memcpy(&(*buffer)[0], &header, sizeof(header));
  message.SerializeWithCachedSizesToArray(
      reinterpret_cast<uint8_t*>(&(*buffer)[0] + sizeof(header)));
  absl::string_view left = *buffer;
  while (!left.empty()) {
    const ssize_t sent = send(socket, left.data(), left.size(), MSG_NOSIGNAL | flags);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && flags != 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!wait()) return false;
      continue;
    }
    if (sent <= 0) return false;
    left.remove_prefix(static_cast<size_t>(sent));
  }
  if (buffer->capacity() > 16 * kSmallBuffer) *buffer = std::string();
  return true;
}

}  // namespace

bool WriteFrame(int socket, FrameKind kind, const google::protobuf::MessageLite& message,
                std::string* buffer) {
  return Write(socket, kind, message, buffer, 0, [] { return false; });
}

bool WriteFrame(int socket, FrameKind kind, const google::protobuf::MessageLite& message,
                std::string* buffer, absl::FunctionRef<bool()> wait) {
  return Write(socket, kind, message, buffer, MSG_DONTWAIT, wait);
}

FrameReader::Result FrameReader::Next(FrameKind* kind, absl::string_view* payload,
                                      OnTimeout on_timeout) {
  FrameHeader header;
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (buffer_.size() > 4 * kSmallBuffer) buffer_ = std::string();  // a large frame's memory
  }
  Result filled = Fill(sizeof(header), on_timeout);
  if (filled != Result::kFrame) return filled;
  std::memcpy(&header, &buffer_[begin_], sizeof(header));
  if (header.bytes > max_bytes_ || (header.kind != static_cast<uint32_t>(FrameKind::kMessage) &&
                                    header.kind != static_cast<uint32_t>(FrameKind::kEnd))) {
    return Result::kBad;
  }
  filled = Fill(sizeof(header) + header.bytes, on_timeout);
  if (filled != Result::kFrame) return filled;
  *kind = static_cast<FrameKind>(header.kind);
  *payload = absl::string_view(&buffer_[begin_] + sizeof(header), header.bytes);
  begin_ += sizeof(header) + header.bytes;
  return Result::kFrame;
}

FrameReader::Result FrameReader::Fill(size_t bytes, OnTimeout on_timeout) {
  while (end_ - begin_ < bytes) {
    if (ReceiveOnce(0) > 0) continue;
    const bool signalled = errno == EINTR;
    if (!signalled && errno != EAGAIN && errno != EWOULDBLOCK) return Result::kCut;
    if (!signalled && on_timeout == OnTimeout::kCut) return Result::kCut;
    if (on_timeout == OnTimeout::kReturn) return Result::kNothing;
  }
  return Result::kFrame;
}

void FrameReader::Receive() { ReceiveOnce(MSG_DONTWAIT); }

ssize_t FrameReader::ReceiveOnce(int flags) {
  if (end_ == buffer_.size()) {
    if (begin_ > buffer_.size() / 2) {
      std::memmove(&buffer_[0], &buffer_[begin_], end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    } else {  // as bytes arrive, not as a header promises
      buffer_.resize(std::max(kSmallBuffer, 2 * buffer_.size()));
    }
  }
  errno = 0;  // the peer's end is no error
  const ssize_t received = recv(socket_, &buffer_[end_], buffer_.size() - end_, flags);
  if (received > 0) end_ += static_cast<size_t>(received);
  return received;
}

}  // namespace chx
