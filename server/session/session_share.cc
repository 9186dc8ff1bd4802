// Arrays of a Session in memory that its client maps.
#include <utility>

#include "ops/error.h"
#include "server/session/session.h"

namespace chx {

SharedBlock Session::BlockOf(const Array& array) {
  const Segments::Place place = executor_.PlaceOf(array);
  SharedBlock block;
  block.segment = place.segment;
  block.offset = static_cast<uint64_t>(place.offset);
  block.bytes = static_cast<uint64_t>(array.buffer->bytes());
  block.array_offset = array.spec.offset;
  block.strides = array.spec.strides;
  return block;
}

void Session::Share(const Command& command, SessionOutput* output) {
  SessionOutput::Value value;
  value.request_id = command.request_id;
  const auto share = [&]() -> absl::Status {
    const auto action = static_cast<ShareAction>(command.flags);
    if (action > ShareAction::kAlias) {
      return ValueError("[share] expects an action, got number ", command.flags);
    }
    if (command.outputs.size() != (action == ShareAction::kExport ? 0 : 1)) {
      return ValueError("[share] expects a new handle unless it exports, got ",
                        command.outputs.size());
    }
    CHX_RETURN_IF_ERROR(CheckNewHandles(command.outputs));
    if (action == ShareAction::kAllocate) {
      CHX_ASSIGN_OR_RETURN(const SharedBlock block, NewShared(command));
      value.data = EncodeSharedBlock(block);
      return absl::OkStatus();
    }
    CHX_ASSIGN_OR_RETURN(Entry * entry, Use(command.handle, &value.error));
    if (value.error != nullptr) return absl::OkStatus();
    const Array array = entry->variable.array;  // a new handle may move the entry
    if (action == ShareAction::kAlias) return Alias(command, array);
    CHX_ASSIGN_OR_RETURN(const SharedBlock block, action == ShareAction::kExport
                                                      ? Export(array)
                                                      : ShareCopy(array, command.outputs[0]));
    value.data = EncodeSharedBlock(block);
    return absl::OkStatus();
  };
  absl::Status status = share();
  if (!status.ok()) value.error = NewRootError(command, std::move(status), "share", "");
  if (value.error != nullptr) value.error->read = true;
  output->values.push_back(std::move(value));
}

absl::StatusOr<SharedBlock> Session::Export(const Array& array) {
  CHX_RETURN_IF_ERROR(executor_.Synchronize());
  CHX_RETURN_IF_ERROR(executor_.Share(array));
  return BlockOf(array);
}

absl::StatusOr<SharedBlock> Session::ShareCopy(const Array& array, Handle copy) {
  Variable copied;
  CHX_ASSIGN_OR_RETURN(copied.array, executor_.SharedContiguous(array));
  SharedBlock block = BlockOf(copied.array);
  if (copied.array.buffer == array.buffer) return block;
  block.copied = true;
  Bind(copy, std::move(copied));
  return block;
}

absl::StatusOr<SharedBlock> Session::NewShared(const Command& command) {
  CHX_RETURN_IF_ERROR(CheckShape("share", command.shape, command.dtype));
  Variable variable;
  CHX_ASSIGN_OR_RETURN(variable.array, executor_.AllocateShared(ArraySpec(
                                           command.dtype, Shape(command.shape), command.device)));
  const SharedBlock block = BlockOf(variable.array);
  Bind(command.outputs[0], std::move(variable));
  return block;
}

absl::Status Session::Alias(const Command& command, const Array& base) {
  const absl::Span<const int64_t> numbers = command.shape;
  if (numbers.size() % 2 != 1) {
    return ValueError("[alias] expects dims, as many strides and an offset, got ", numbers.size(),
                      " numbers");
  }
  const size_t ndim = numbers.size() / 2;
  const absl::Span<const int64_t> shape = numbers.subspan(0, ndim);
  CHX_RETURN_IF_ERROR(CheckShape("alias", shape, command.dtype));
  ArraySpec spec(command.dtype, Shape(shape), base.spec.device);
  spec.strides = Strides(numbers.subspan(ndim, ndim));
  spec.offset = numbers.back();
  const int64_t bytes = base.buffer->bytes();
  // Kernels rely on alignment. The bounds are checked without overflow: a stride, and a sum of
  // them, that passes is below the block's size.
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
  if (!valid || (spec.size() > 0 && (begin < 0 || end > bytes))) {
    return ValueError("[alias] expects strides and an offset within the array's memory, got ",
                      spec.ToString(), " from byte ", spec.offset, " of ", bytes);
  }
  Variable alias;
  alias.array.buffer = base.buffer;
  alias.array.spec = std::move(spec);
  Bind(command.outputs[0], std::move(alias));
  return absl::OkStatus();
}

}  // namespace chx
