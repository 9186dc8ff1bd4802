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

bool WriteFrame(int socket, FrameKind kind, const google::protobuf::MessageLite& message,
                std::string* buffer) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes > static_cast<size_t>(std::numeric_limits<int>::max())) return false;
  const FrameHeader header = {static_cast<uint32_t>(bytes), static_cast<uint32_t>(kind)};
  buffer->resize(sizeof(header) + bytes);
  std::memcpy(&(*buffer)[0], &header, sizeof(header));
  message.SerializeWithCachedSizesToArray(
      reinterpret_cast<uint8_t*>(&(*buffer)[0] + sizeof(header)));
  absl::string_view left = *buffer;
  while (!left.empty()) {
    const ssize_t sent = send(socket, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    left.remove_prefix(static_cast<size_t>(sent));
  }
  if (buffer->capacity() > 16 * kSmallBuffer) *buffer = std::string();
  return true;
}

FrameReader::Result FrameReader::Next(FrameKind* kind, absl::string_view* payload) {
  FrameHeader header;
  Compact();
  if (!Fill(sizeof(header))) return Result::kCut;
  std::memcpy(&header, &buffer_[begin_], sizeof(header));
  if (header.bytes > max_bytes_ || (header.kind != static_cast<uint32_t>(FrameKind::kMessage) &&
                                    header.kind != static_cast<uint32_t>(FrameKind::kEnd))) {
    return Result::kBad;
  }
  if (!Fill(sizeof(header) + header.bytes)) return Result::kCut;
  *kind = static_cast<FrameKind>(header.kind);
  *payload = absl::string_view(&buffer_[begin_] + sizeof(header), header.bytes);
  begin_ += sizeof(header) + header.bytes;
  return Result::kFrame;
}

// What is left moves to the front, and a large frame's memory goes.
void FrameReader::Compact() {
  const size_t left = end_ - begin_;
  if (buffer_.size() > 4 * kSmallBuffer && left <= kSmallBuffer) {
    std::string small(kSmallBuffer, '\0');
    std::memcpy(&small[0], &buffer_[begin_], left);
    buffer_ = std::move(small);
  } else if (begin_ != 0 && left != 0) {
    std::memmove(&buffer_[0], &buffer_[begin_], left);
  }
  begin_ = 0;
  end_ = left;
}

bool FrameReader::Fill(size_t bytes) {
  while (end_ - begin_ < bytes) {
    // Grows as bytes arrive, not as the header promises.
    if (end_ == buffer_.size()) buffer_.resize(std::max(kSmallBuffer, 2 * buffer_.size()));
    const ssize_t received = recv(socket_, &buffer_[end_], buffer_.size() - end_, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    end_ += static_cast<size_t>(received);
  }
  return true;
}

}  // namespace chx
