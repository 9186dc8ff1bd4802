#include "client/shared_memory.h"

#include <utility>

#include "client/copy_bulk.h"
#include "client/waiting.h"
#include "ops/error.h"

namespace chx {

absl::StatusOr<MappedBlock> SharedMemory::Map(const SharedBlock& block, bool populate) {
  MappedBlock mapped;
  mapped.block = block;
  CHX_ASSIGN_OR_RETURN(mapped.mapping, connection_.MapSegment(block.segment, populate));
  const uint64_t bytes = mapped.mapping->bytes();
  if (block.offset > bytes || block.bytes > bytes - block.offset) {
    return ChainerxError("chxd shares a block beyond its segment");
  }
  mapped.data = mapped.mapping->data() + block.offset;
  return mapped;
}

absl::StatusOr<MappedBlock> SharedMemory::Share(Handle array) {
  command::ShareArray share;
  share.handle = array;
  CHX_ASSIGN_OR_RETURN(const std::string answer,
                       queue_.AnswerTo(queue_.AppendRequest(share), true));
  CHX_ASSIGN_OR_RETURN(const SharedBlock block, DecodeSharedBlock(answer));
  return Map(block, false);
}

absl::StatusOr<MappedBlock> SharedMemory::Allocate(const ArraySpec& spec, bool populate,
                                                   Handle* array) {
  command::ShareNew share;
  share.dtype = spec.dtype;
  share.device = spec.device;
  share.shape.assign(spec.shape.begin(), spec.shape.end());
  share.result = *array = queue_.AllocateHandle();
  const absl::StatusOr<std::string> answer =
      queue_.AnswerTo(queue_.AppendRequest(std::move(share)), true);
  // The daemon allocates it nevertheless.
  if (Interruption::Is(answer.status())) queue_.Release(*array, 0);
  CHX_RETURN_IF_ERROR(answer.status());
  CHX_ASSIGN_OR_RETURN(const SharedBlock block, DecodeSharedBlock(*answer));
  absl::StatusOr<MappedBlock> mapped = Map(block, populate);
  if (!mapped.ok()) queue_.Release(*array, static_cast<int64_t>(block.bytes));
  if (mapped.ok() && static_cast<int64_t>(block.bytes) < spec.nbytes()) {
    return ChainerxError("chxd shares a block that is too small");
  }
  return mapped;
}

absl::StatusOr<Handle> SharedMemory::Alias(Handle array, const ArraySpec& spec) {
  command::ShareAlias share;
  share.handle = array;
  share.dtype = spec.dtype;
  share.shape.assign(spec.shape.begin(), spec.shape.end());
  share.strides.assign(spec.strides.begin(), spec.strides.end());
  share.offset = spec.offset;
  const Handle result = share.result = queue_.AllocateHandle();
  const uint64_t request = queue_.AppendRequest(std::move(share));
  CHX_RETURN_IF_ERROR(queue_.AnswerTo(request, false).status());
  return result;
}

absl::StatusOr<Handle> SharedMemory::Upload(absl::string_view data, const ArraySpec& spec) {
  Handle array = 0;
  CHX_ASSIGN_OR_RETURN(const MappedBlock mapped, Allocate(spec, true, &array));
  CopyBulk(mapped.data, data.data(), data.size(), data.size());
  return array;
}

absl::Status SharedMemory::Fetch(Handle array, const ArraySpec& spec, void* out) {
  command::ShareCopy share;
  share.handle = array;
  const Handle copy = share.result = queue_.AllocateHandle();
  CHX_ASSIGN_OR_RETURN(const std::string answer,
                       queue_.AnswerTo(queue_.AppendRequest(share), false));
  CHX_ASSIGN_OR_RETURN(const SharedBlock block, DecodeSharedBlock(answer));
  const auto read = [&]() -> absl::Status {
    CHX_ASSIGN_OR_RETURN(const MappedBlock mapped, Map(block, true));
    const auto bytes = static_cast<uint64_t>(spec.nbytes());
    const auto offset = static_cast<uint64_t>(block.array_offset);
    if (offset > block.bytes || bytes > block.bytes - offset) {
      return ChainerxError("chxd shares an array beyond its block");
    }
    CopyBulk(static_cast<char*>(out), mapped.data + offset, bytes, bytes);
    return absl::OkStatus();
  };
  const absl::Status status = read();
  if (block.copied) queue_.Release(copy, spec.nbytes());
  return status;
}

absl::Status SharedMemory::CopyFrom(const SegmentOffset& elements, char* out, size_t bytes) {
  CHX_ASSIGN_OR_RETURN(const MappingPtr mapping, connection_.MapSegment(elements.segment, true));
  if (elements.offset > mapping->bytes() || bytes > mapping->bytes() - elements.offset) {
    return ChainerxError("chxd shares an array beyond its segment");
  }
  CopyBulk(out, mapping->data() + elements.offset, bytes, bytes);
  return absl::OkStatus();
}

}  // namespace chx
