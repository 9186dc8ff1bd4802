// Arrays in memory that the client maps. Where that cannot be, these fail with errors of kind
// memory; then there are uploads and fetches.
#include <utility>

#include "ops/error.h"
#include "proto/shared_block.h"
#include "server/session/commands.h"

namespace chx::server {
namespace {

SharedBlock BlockOf(const Array& array, SessionState& state) {
  const Segments::Address address = state.executor.AddressOf(array);
  SharedBlock block;
  block.segment = address.segment;
  block.offset = static_cast<uint64_t>(address.offset);
  block.bytes = static_cast<uint64_t>(array.buffer->bytes());
  block.array_offset = array.spec.offset;
  block.strides = array.spec.strides;
  return block;
}

// Answers with the block that `share`, of type absl::StatusOr<SharedBlock>(const Array&), makes of
// the array under the command's handle.
template <typename C, typename Share>
void AnswerBlock(const C& c, CommandContext& context, Share share) {
  context.Answer(c, "share", [&](SessionOutput::Value* value) -> absl::Status {
    CHX_RETURN_IF_ERROR(context.state.handles.CheckNew(ResultsOf(c)));
    CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry,
                         context.state.handles.Use(c.handle, &value->error));
    if (value->error != nullptr) return absl::OkStatus();
    const Array array = entry->variable.array;  // a new handle may move the entry
    CHX_ASSIGN_OR_RETURN(const SharedBlock block, share(array));
    value->data = EncodeSharedBlock(block);
    return absl::OkStatus();
  });
}

}  // namespace

bool LiesWithin(const ArraySpec& spec, int64_t bytes) {
  bool valid = spec.offset >= 0 && spec.offset % spec.item_size() == 0 && spec.offset <= bytes;
  int64_t begin = spec.offset;
  int64_t end = valid ? spec.offset + spec.item_size() : 0;
  for (int i = 0; valid && i < spec.ndim(); ++i) {
    const int64_t stride = spec.strides[i];
    valid = stride % spec.item_size() == 0 && stride <= bytes && stride >= -bytes;
    if (!valid || spec.shape[i] < 2 || stride == 0) continue;
    valid = spec.shape[i] - 1 <= bytes / (stride < 0 ? -stride : stride);
    if (valid) (stride < 0 ? begin : end) += (spec.shape[i] - 1) * stride;
  }
  return valid && (spec.size() == 0 || (begin >= 0 && end <= bytes));
}

void RunCommand(const command::ShareArray& c, CommandContext& context) {
  Executor& executor = context.state.executor;
  AnswerBlock(c, context, [&](const Array& array) -> absl::StatusOr<SharedBlock> {
    CHX_RETURN_IF_ERROR(executor.Synchronize());
    CHX_RETURN_IF_ERROR(executor.Share(array));
    return BlockOf(array, context.state);
  });
}

void RunCommand(const command::ShareCopy& c, CommandContext& context) {
  AnswerBlock(c, context, [&](const Array& array) -> absl::StatusOr<SharedBlock> {
    Variable copied;
    CHX_ASSIGN_OR_RETURN(copied.array, context.state.executor.SharedContiguous(array));
    SharedBlock block = BlockOf(copied.array, context.state);
    if (copied.array.buffer == array.buffer) return block;
    block.copied = true;
    context.state.handles.Bind(c.result, std::move(copied));
    return block;
  });
}

void RunCommand(const command::ShareNew& c, CommandContext& context) {
  SessionState& state = context.state;
  context.Answer(c, "share", [&](SessionOutput::Value* value) -> absl::Status {
    CHX_RETURN_IF_ERROR(state.handles.CheckNew({&c.result, 1}));
    CHX_RETURN_IF_ERROR(CheckShape("share", c.shape, c.dtype));
    Variable variable;
    CHX_ASSIGN_OR_RETURN(variable.array, state.executor.AllocateShared(
                                             ArraySpec(c.dtype, Shape(c.shape), c.device)));
    value->data = EncodeSharedBlock(BlockOf(variable.array, state));
    state.handles.Bind(c.result, std::move(variable));
    return absl::OkStatus();
  });
}

void RunCommand(const command::ShareAlias& c, CommandContext& context) {
  HandleTable& handles = context.state.handles;
  context.Answer(c, "share", [&](SessionOutput::Value* value) -> absl::Status {
    CHX_RETURN_IF_ERROR(handles.CheckNew({&c.result, 1}));
    CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry, handles.Use(c.handle, &value->error));
    if (value->error != nullptr) return absl::OkStatus();
    const Array& base = entry->variable.array;
    CHX_RETURN_IF_ERROR(CheckShape("alias", c.shape, c.dtype));
    if (c.strides.size() != c.shape.size()) {
      return ValueError("[alias] expects a stride for each of ", c.shape.size(),
                        " dimensions, got ", c.strides.size());
    }
    Variable alias;
    alias.array.buffer = base.buffer;
    ArraySpec& spec = alias.array.spec;
    spec = ArraySpec(c.dtype, Shape(c.shape), base.spec.device);
    spec.strides = Strides(c.strides);
    spec.offset = c.offset;
    if (!LiesWithin(spec, base.buffer->bytes())) {
      return ValueError("[alias] expects strides and an offset within the array's memory, got ",
                        spec.ToString(), " from byte ", spec.offset, " of ", base.buffer->bytes());
    }
    handles.Bind(c.result, std::move(alias));
    return absl::OkStatus();
  });
}

}  // namespace chx::server
