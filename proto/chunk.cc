#include "proto/chunk.h"

#include <algorithm>

namespace chx {
namespace {

constexpr char kHeaderTag = (1 << 3) | 2;
constexpr char kDataTag = (2 << 3) | 2;
constexpr size_t kMaxHeader = 4096;

void AppendVarint(uint64_t value, std::string* out) {
  while (value >= 128) {
    out->push_back(static_cast<char>(value | 128));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

// Reads across slices.
class SliceReader {
 public:
  explicit SliceReader(const std::vector<grpc::Slice>& slices) : slices_(slices) { Settle(); }
  bool at_end() const { return index_ == slices_.size(); }
  bool Byte(unsigned char* out) {
    if (at_end()) return false;
    *out = slices_[index_].begin()[offset_++];
    Settle();
    return true;
  }
  bool Varint(uint64_t* out) {
    *out = 0;
    unsigned char byte = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      if (!Byte(&byte)) return false;
      *out |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }
  // Up to `size` bytes that lie together; empty at the end.
  absl::string_view Piece(uint64_t size) {
    if (at_end()) return {};
    const grpc::Slice& slice = slices_[index_];
    const size_t length = static_cast<size_t>(std::min<uint64_t>(size, slice.size() - offset_));
    const absl::string_view piece(reinterpret_cast<const char*>(slice.begin()) + offset_, length);
    offset_ += length;
    Settle();
    return piece;
  }

 private:
  void Settle() {
    while (index_ < slices_.size() && offset_ == slices_[index_].size()) {
      ++index_;
      offset_ = 0;
    }
  }
  const std::vector<grpc::Slice>& slices_;
  size_t index_ = 0;
  size_t offset_ = 0;
};

}  // namespace

grpc::ByteBuffer MakeChunk(absl::string_view header, grpc::Slice data) {
  std::string prefix;
  if (!header.empty()) {
    prefix.push_back(kHeaderTag);
    AppendVarint(header.size(), &prefix);
    prefix.append(header.data(), header.size());
  }
  prefix.push_back(kDataTag);
  AppendVarint(data.size(), &prefix);
  const grpc::Slice slices[] = {grpc::Slice(prefix), std::move(data)};
  return grpc::ByteBuffer(slices, 2);
}

absl::Status ParseChunk(const grpc::ByteBuffer& buffer, ParsedChunk* chunk) {
  const auto malformed = [] {
    return absl::InvalidArgumentError("[transfer] expects a header and data in each chunk");
  };
  chunk->header.clear();
  chunk->pieces.clear();
  if (!buffer.Dump(&chunk->slices).ok()) return malformed();
  SliceReader reader(chunk->slices);
  unsigned char tag = 0;
  uint64_t size = 0;
  if (reader.at_end()) return absl::OkStatus();
  if (!reader.Byte(&tag) || !reader.Varint(&size)) return malformed();
  if (tag == kHeaderTag) {
    if (size > kMaxHeader) return malformed();
    while (chunk->header.size() < size) {
      const absl::string_view piece = reader.Piece(size - chunk->header.size());
      if (piece.empty()) return malformed();
      chunk->header.append(piece.data(), piece.size());
    }
    if (reader.at_end()) return absl::OkStatus();
    if (!reader.Byte(&tag) || !reader.Varint(&size)) return malformed();
  }
  if (tag != kDataTag) return malformed();
  while (size > 0) {
    const absl::string_view piece = reader.Piece(size);
    if (piece.empty()) return malformed();
    chunk->pieces.push_back(piece);
    size -= piece.size();
  }
  return reader.at_end() ? absl::OkStatus() : malformed();
}

}  // namespace chx
