// The encoding of SegmentOffset and SharedBlock: 64-bit words.
#include "proto/shared_block.h"

#include <cstring>
#include <vector>

#include "ops/error.h"

namespace chx {

std::string EncodeSegmentOffset(const SegmentOffset& offset) {
  const uint64_t words[] = {offset.segment, offset.offset};
  return std::string(reinterpret_cast<const char*>(words), sizeof(words));
}

absl::StatusOr<SegmentOffset> DecodeSegmentOffset(absl::string_view data) {
  uint64_t words[2];
  if (data.size() != sizeof(words)) {
    return ValueError("[fetch] expects an offset of ", sizeof(words), " bytes, got ", data.size());
  }
  std::memcpy(words, data.data(), sizeof(words));
  if (words[0] > UINT32_MAX) {
    return ValueError("[fetch] expects a segment's number, got ", words[0]);
  }
  return SegmentOffset{static_cast<uint32_t>(words[0]), words[1]};
}

// {segment | copied << 32, offset, bytes, array_offset}, then the strides.
std::string EncodeSharedBlock(const SharedBlock& block) {
  std::vector<uint64_t> words = {block.segment | static_cast<uint64_t>(block.copied) << 32,
                                 block.offset, block.bytes,
                                 static_cast<uint64_t>(block.array_offset)};
  for (int64_t stride : block.strides) words.push_back(static_cast<uint64_t>(stride));
  return std::string(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t));
}

absl::StatusOr<SharedBlock> DecodeSharedBlock(absl::string_view data) {
  constexpr size_t kFixed = 4;
  std::vector<uint64_t> words(data.size() / sizeof(uint64_t));
  if (data.size() % sizeof(uint64_t) != 0 || words.size() < kFixed ||
      words.size() > kFixed + kMaxNdim) {
    return ValueError("[share] expects ", kFixed, " to ", kFixed + kMaxNdim, " words, got ",
                      data.size(), " bytes");
  }
  std::memcpy(words.data(), data.data(), data.size());
  if (words[0] >> 33 != 0) return ValueError("[share] expects a segment's number, got ", words[0]);
  SharedBlock block;
  block.segment = static_cast<uint32_t>(words[0]);
  block.copied = words[0] >> 32 != 0;
  block.offset = words[1];
  block.bytes = words[2];
  block.array_offset = static_cast<int64_t>(words[3]);
  for (size_t i = kFixed; i < words.size(); ++i) {
    block.strides.push_back(static_cast<int64_t>(words[i]));
  }
  return block;
}

}  // namespace chx
