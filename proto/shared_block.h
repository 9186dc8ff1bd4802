// Where arrays are in memory that client and daemon map: answers to commands.
#ifndef CHX_PROTO_SHARED_BLOCK_H_
#define CHX_PROTO_SHARED_BLOCK_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/array_spec.h"

namespace chx {

// The answer to command::FetchInto for an array that lies in shared memory in C order itself: where
// its first element is. It stays there as long as the array exists.
struct SegmentOffset {
  uint32_t segment = 0;
  uint64_t offset = 0;  // bytes
};
std::string EncodeSegmentOffset(const SegmentOffset& offset);
absl::StatusOr<SegmentOffset> DecodeSegmentOffset(absl::string_view data);

// The answer to command::ShareArray, ShareCopy and ShareNew: a block of memory and an array in it.
struct SharedBlock {
  uint32_t segment = 0;
  bool copied = false;       // ShareCopy made a copy: the client releases it when it has read
  uint64_t offset = 0;       // of the block in the segment, in bytes
  uint64_t bytes = 0;        // of the block
  int64_t array_offset = 0;  // of the first element in the block, in bytes
  Strides strides;           // bytes; a gradient need not be contiguous
};
std::string EncodeSharedBlock(const SharedBlock& block);
absl::StatusOr<SharedBlock> DecodeSharedBlock(absl::string_view data);

}  // namespace chx

#endif  // CHX_PROTO_SHARED_BLOCK_H_
