#include "server/native/runtime/scratch.h"

#include <algorithm>

#include "ops/error.h"

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

}  // namespace chx::server::native
