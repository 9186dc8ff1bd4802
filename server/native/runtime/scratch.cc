#include "server/native/scratch.h"

#include <algorithm>

#include "ops/error.h"
#include "server/engine/stop_token.h"
#include "server/kernels/indexer.h"
#include "server/native/device.h"
#include "server/native/loops.h"
#include "server/native/nest.h"

namespace chx::server::native {

absl::StatusOr<KernelTensor> NewTensor(const KernelArgs& args, Dtype dtype, const Shape& shape) {
  KernelTensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.strides = ContiguousStrides(shape, ItemSize(dtype));
  CHX_ASSIGN_OR_RETURN(void* const data, args.scratch.Allocate(std::max<int64_t>(
                                             1, tensor.size() * ItemSize(dtype))));
  tensor.data = static_cast<char*>(data);
  return tensor;
}

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
  // It may be unfinished: nobody must take what is in it for positions.
  CHX_RETURN_IF_ERROR(CheckNotStopped(args.op.name));
  return copy;
}

}  // namespace chx::server::native
