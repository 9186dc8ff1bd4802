// Operands of matmul and linear as tensors of matrices.
#ifndef CHX_SERVER_KERNELS_MATMUL_OPERANDS_H_
#define CHX_SERVER_KERNELS_MATMUL_OPERANDS_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "ops/error.h"
#include "server/engine/kernel.h"
#include "server/kernels/indexer.h"

namespace chx::server::kernels {

// Two tensors of matrices, a (..., rows, inner) and b (..., inner, columns), whose leading
// dimensions broadcast to `batch`.
struct MatmulOperands {
  KernelTensor a;
  KernelTensor b;
  Shape batch;
};

// The operands of matmul. A vector becomes one row on the left and one column on the right.
inline MatmulOperands MakeMatmulOperands(const KernelArgs& args) {
  MatmulOperands operands = {args.in(0), args.in(1), Shape()};
  KernelTensor& a = operands.a;
  KernelTensor& b = operands.b;
  int matrix_dims = 2;
  if (a.ndim() == 1) {
    a.strides = {a.shape[0] * a.strides[0], a.strides[0]};
    a.shape = {1, a.shape[0]};
    --matrix_dims;
  }
  if (b.ndim() == 1) {
    b.strides = {b.strides[0], ItemSize(b.dtype)};
    b.shape = {b.shape[0], 1};
    --matrix_dims;
  }
  const Shape& out = args.out(0).shape;
  operands.batch = Shape(out.span().subspan(0, out.size() - matrix_dims));
  return operands;
}

// Swaps the last two dimensions.
inline KernelTensor Transposed(KernelTensor tensor) {
  const int last = tensor.ndim() - 1;
  std::swap(tensor.shape[last], tensor.shape[last - 1]);
  std::swap(tensor.strides[last], tensor.strides[last - 1]);
  return tensor;
}

// x (batch..., features...) as a matrix (batch, features). copy(x) -> StatusOr<KernelTensor> is
// called for a C-contiguous copy where the dimensions of a side do not merge.
template <typename Copy>
absl::StatusOr<KernelTensor> AsMatrix(const KernelTensor& x, int n_batch_axes, Copy&& copy) {
  LoopNest<1> batch;
  LoopNest<1> features;
  for (int d = 0; d < x.ndim(); ++d) {
    (d < n_batch_axes ? batch : features).Append(x.shape[d], {x.strides[d]});
  }
  KernelTensor matrix = x;
  if (batch.ndim > 1 || features.ndim > 1) {
    CHX_ASSIGN_OR_RETURN(matrix, copy(x));
    batch.ndim = features.ndim = 0;
  }
  const int64_t item_size = ItemSize(matrix.dtype);
  matrix.shape = {batch.size, features.size};
  matrix.strides = {batch.ndim == 1 ? batch.strides[0][0] : features.size * item_size,
                    features.ndim == 1 ? features.strides[0][0] : item_size};
  return matrix;
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_MATMUL_OPERANDS_H_
