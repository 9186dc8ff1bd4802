// Commands on arrays: operators, transfers, shared memory, and settings of the stream.
#ifndef CHX_PROTO_ARRAY_COMMANDS_H_
#define CHX_PROTO_ARRAY_COMMANDS_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "ops/array_spec.h"
#include "ops/attr.h"
#include "proto/command_fields.h"
#include "proto/ids.h"

namespace chx::command {

// results = op(inputs; attrs).
struct ApplyOp {
  uint16_t op = 0;      // the operator's id of those agreed on when the session was opened
  uint16_t device = 0;  // for operators without array inputs
  uint16_t mode = 0;
  uint32_t location = 0;
  absl::InlinedVector<HandleOperand, 4> inputs;
  Handles results;
  Attrs attrs;
  CHX_COMMAND("apply_op", op, device, mode, location, inputs, results, attrs)
};

struct Release {
  Handles handles;
  CHX_COMMAND("release", handles)
};

struct Upload {
  Handle result = 0;
  Dtype dtype = Dtype::kFloat32;
  uint16_t device = 0;
  Ints shape;
  absl::string_view data;  // the elements in C order
  CHX_COMMAND("upload", result, dtype, device, shape, data)
};

// As Upload; the elements are in the array `stage` in shared memory, from byte `stage_offset` on.
struct UploadFrom {
  Handle result = 0;
  Dtype dtype = Dtype::kFloat32;
  uint16_t device = 0;
  Ints shape;
  Handle stage = 0;
  int64_t stage_offset = 0;
  CHX_COMMAND("upload_from", result, dtype, device, shape, stage, stage_offset)
};

// As UploadFrom, for what is larger than the stage: bytes [begin, begin + bytes) of the elements.
// The part that begins at 0 makes the array, and those that follow fill it.
struct UploadPart {
  Handle result = 0;
  Dtype dtype = Dtype::kFloat32;
  uint16_t device = 0;
  Ints shape;
  Handle stage = 0;
  int64_t stage_offset = 0;
  int64_t begin = 0;
  int64_t bytes = 0;
  CHX_COMMAND("upload_part", result, dtype, device, shape, stage, stage_offset, begin, bytes)
};

// The answer holds the elements in C order.
struct Fetch {
  uint64_t request_id = 0;
  Handle handle = 0;
  CHX_COMMAND("fetch", request_id, handle)
};

// Copies bytes [begin, begin + bytes) of the elements in C order into the array `stage`, from byte
// `stage_offset` on. The answer is empty; or a SegmentOffset, where the elements lie in shared
// memory themselves and nothing was copied.
struct FetchInto {
  uint64_t request_id = 0;
  Handle handle = 0;
  Handle stage = 0;
  int64_t stage_offset = 0;
  int64_t begin = 0;
  int64_t bytes = 0;
  CHX_COMMAND("fetch_into", request_id, handle, stage, stage_offset, begin, bytes)
};

// Answered when all commands before it are done.
struct Barrier {
  uint64_t request_id = 0;
  CHX_COMMAND("barrier", request_id)
};

// Moves the array's memory to where both sides map it. The answer is a SharedBlock. What either
// side writes, the other sees.
struct ShareArray {
  uint64_t request_id = 0;
  Handle handle = 0;
  CHX_COMMAND("share_array", request_id, handle)
};

// The array's elements in C order in memory that both sides map: its own, or a copy that `result`
// is bound to. The answer is a SharedBlock.
struct ShareCopy {
  uint64_t request_id = 0;
  Handle handle = 0;
  Handle result = 0;
  CHX_COMMAND("share_copy", request_id, handle, result)
};

// A new C-contiguous array of unspecified values in memory that both sides map. The answer is a
// SharedBlock.
struct ShareNew {
  uint64_t request_id = 0;
  Dtype dtype = Dtype::kFloat32;
  uint16_t device = 0;
  Ints shape;
  Handle result = 0;
  CHX_COMMAND("share_new", request_id, dtype, device, shape, result)
};

// The memory of an array in shared memory as an array of another dtype, shape and strides. The
// answer is empty.
struct ShareAlias {
  uint64_t request_id = 0;
  Handle handle = 0;
  Dtype dtype = Dtype::kFloat32;
  Ints shape;
  Ints strides;        // bytes
  int64_t offset = 0;  // bytes from the block's start
  Handle result = 0;
  CHX_COMMAND("share_alias", request_id, handle, dtype, shape, strides, offset, result)
};

struct DefineMode {
  uint16_t mode = 0;
  bool record_by_default = false;
  ModeEntries entries;  // where it differs
  CHX_COMMAND("define_mode", mode, record_by_default, entries)
};

struct DefineLocation {
  uint32_t location = 0;
  absl::string_view text;
  CHX_COMMAND("define_location", location, text)
};

// Changes a setting (ops/settings.h).
struct Configure {
  absl::string_view name;
  Scalar value;
  CHX_COMMAND("configure", name, value)
};

}  // namespace chx::command

#endif  // CHX_PROTO_ARRAY_COMMANDS_H_
