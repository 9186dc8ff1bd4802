// How arrays are laid out for BLAS. Host code; needs no GPU.
#ifndef CHX_SERVER_CUDA_GEMM_LAYOUT_H_
#define CHX_SERVER_CUDA_GEMM_LAYOUT_H_

#include <cstdint>

#include "server/engine/kernel.h"
#include "server/kernels/indexer.h"

namespace chx::server::cuda {

// A matrix, the last two dimensions of a tensor, as BLAS may read it: row after row (or, if
// `by_columns`, column after column), which are `leading` elements apart.
struct MatrixLayout {
  bool ready = false;  // false: it must be copied first
  bool by_columns = false;
  int64_t leading = 1;
};
MatrixLayout LayoutOf(const KernelTensor& tensor);

// The leading dimensions of both operands of a product, which broadcast to `batch`: operand 0 and
// 1 of a nest over `batch`, in bytes.
kernels::LoopNest<2> BatchNest(const KernelTensor& a, const KernelTensor& b, const Shape& batch);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_GEMM_LAYOUT_H_
