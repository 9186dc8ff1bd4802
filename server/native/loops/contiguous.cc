#include "server/native/loops/contiguous.h"

#include "ops/error.h"
#include "server/engine/stop_token.h"
#include "server/kernels/indexer.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"

namespace chx::server::native {

absl::StatusOr<KernelTensor> Contiguous(const KernelArgs& args, const KernelTensor& in,
                                        Dtype dtype) {
  if (in.dtype == dtype && kernels::IsContiguous(in.shape, in.strides, ItemSize(dtype))) {
    KernelTensor same = in;
    same.strides = ContiguousStrides(in.shape, ItemSize(dtype));
    return same;
  }
  CHX_ASSIGN_OR_RETURN(KernelTensor copy, NewTensor(args, dtype, in.shape));
  RunUnary(PoolOf(args), in, copy,
           Loops().cast[static_cast<int>(in.dtype)][static_cast<int>(dtype)]);
  // A copy that was stopped is unfinished: its contents must not be used as indices.
  CHX_RETURN_IF_ERROR(CheckNotStopped(args.op.name));
  return copy;
}

absl::StatusOr<KernelTensor> RowsApart(const KernelArgs& args, const KernelTensor& matrix,
                                       Dtype dtype) {
  constexpr int64_t kUnit = 128;  // bytes: an odd number of halves of it
  const int64_t item = ItemSize(dtype);
  const int64_t units = (matrix.shape[1] * item + kUnit - 1) / kUnit;
  const int64_t stride = (units * kUnit + kUnit / 2) / item;
  CHX_ASSIGN_OR_RETURN(KernelTensor copy, NewTensor(args, dtype, {matrix.shape[0], stride}));
  copy.shape = matrix.shape;
  RunUnary(PoolOf(args), matrix, copy,
           Loops().cast[static_cast<int>(matrix.dtype)][static_cast<int>(dtype)]);
  CHX_RETURN_IF_ERROR(CheckNotStopped(args.op.name));
  return copy;
}

}  // namespace chx::server::native
