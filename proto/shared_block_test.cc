#include "proto/shared_block.h"

#include <gtest/gtest.h>

#include <string>

namespace chx {
namespace {

TEST(SharedBlock, SegmentOffsets) {
  const absl::StatusOr<SegmentOffset> offset =
      DecodeSegmentOffset(EncodeSegmentOffset({UINT32_MAX, uint64_t{1} << 63}));
  ASSERT_TRUE(offset.ok()) << offset.status();
  EXPECT_EQ(offset->segment, UINT32_MAX);
  EXPECT_EQ(offset->offset, uint64_t{1} << 63);
  EXPECT_FALSE(DecodeSegmentOffset("").ok());
  EXPECT_FALSE(DecodeSegmentOffset(EncodeSegmentOffset({1, 2}) + "x").ok());
  EXPECT_FALSE(DecodeSegmentOffset(std::string(16, '\xff')).ok());
}

TEST(SharedBlock, Blocks) {
  const SharedBlock block = {UINT32_MAX,        true, uint64_t{1} << 63,
                             uint64_t{1} << 40, -4,   Strides({-8, 4})};
  const std::string data = EncodeSharedBlock(block);
  const absl::StatusOr<SharedBlock> decoded = DecodeSharedBlock(data);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->segment, block.segment);
  EXPECT_EQ(decoded->copied, block.copied);
  EXPECT_EQ(decoded->offset, block.offset);
  EXPECT_EQ(decoded->bytes, block.bytes);
  EXPECT_EQ(decoded->array_offset, block.array_offset);
  EXPECT_EQ(decoded->strides, block.strides);
  EXPECT_FALSE(DecodeSharedBlock("").ok());
  EXPECT_FALSE(DecodeSharedBlock(data + "x").ok());
  EXPECT_FALSE(DecodeSharedBlock(data + std::string(8 * kMaxNdim, 'x')).ok());
  EXPECT_FALSE(DecodeSharedBlock(std::string(32, '\xff')).ok());
}

}  // namespace
}  // namespace chx
