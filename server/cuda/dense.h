// Operands as libraries want them.
#ifndef CHX_SERVER_CUDA_DENSE_H_
#define CHX_SERVER_CUDA_DENSE_H_

#include "ops/error.h"
#include "server/cuda/copy.h"

namespace chx::server::cuda {

// `tensor` in C order and cast to `dtype`.
inline absl::StatusOr<KernelTensor> Dense(const KernelArgs& args, const KernelTensor& tensor,
                                          Dtype dtype) {
  if (tensor.dtype == dtype) return Contiguous(args, tensor);
  CHX_ASSIGN_OR_RETURN(const KernelTensor cast, NewTensor(args, dtype, tensor.shape));
  CHX_RETURN_IF_ERROR(Copy(args, tensor, cast));
  return cast;
}

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_DENSE_H_
