// Arrays of a Session in memory that its client maps.
#include <utility>

#include "ops/error.h"
#include "server/session/session.h"

namespace chx {

Session::SharedBlock Session::BlockOf(const Array& array) {
  SharedBlock block;
  block.place = executor_.PlaceOf(array);
  block.bytes = array.buffer->bytes();
  block.array_offset = array.spec.offset;
  block.strides = array.spec.strides;
  return block;
}

absl::StatusOr<Session::SharedBlock> Session::Share(Handle handle) {
  MutexLock lock(&mutex_);
  CHX_ASSIGN_OR_RETURN(const Variable* const variable, Read(handle));
  CHX_RETURN_IF_ERROR(executor_.Share(variable->array));
  return BlockOf(variable->array);
}

absl::StatusOr<Session::SharedBlock> Session::ShareCopy(Handle handle, Handle copy) {
  MutexLock lock(&mutex_);
  CHX_RETURN_IF_ERROR(CheckNewHandles({&copy, 1}));
  CHX_ASSIGN_OR_RETURN(const Variable* const variable, Read(handle));
  Variable copied;
  CHX_ASSIGN_OR_RETURN(copied.array, executor_.SharedContiguous(variable->array));
  SharedBlock block = BlockOf(copied.array);
  if (copied.array.buffer == variable->array.buffer) return block;
  block.copied = true;
  Bind(copy, std::move(copied));
  return block;
}

absl::StatusOr<Session::SharedBlock> Session::NewShared(Handle handle, const ArraySpec& spec) {
  MutexLock lock(&mutex_);
  CHX_RETURN_IF_ERROR(CheckNewHandles({&handle, 1}));
  Variable variable;
  CHX_ASSIGN_OR_RETURN(variable.array, executor_.AllocateShared(spec));
  const SharedBlock block = BlockOf(variable.array);
  Bind(handle, std::move(variable));
  return block;
}

absl::Status Session::Alias(Handle handle, Handle base, ArraySpec spec) {
  MutexLock lock(&mutex_);
  CHX_RETURN_IF_ERROR(CheckNewHandles({&handle, 1}));
  CHX_ASSIGN_OR_RETURN(const Variable* const variable, Read(base));
  const int64_t bytes = variable->array.buffer->bytes();
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
  spec.device = variable->array.spec.device;
  Variable alias;
  alias.array.buffer = variable->array.buffer;
  alias.array.spec = std::move(spec);
  Bind(handle, std::move(alias));
  return absl::OkStatus();
}

}  // namespace chx
