// Products of matrices by cuBLAS, and how arrays are laid out for it. Host code; needs no GPU.
#ifndef CHX_SERVER_CUDA_VENDOR_GEMM_H_
#define CHX_SERVER_CUDA_VENDOR_GEMM_H_

#include <cstdint>

#include "ops/dtype.h"
#include "server/engine/kernel.h"
#include "server/kernels/indexer.h"

namespace chx::server::cuda {

// One call of BLAS in its own, column-major terms: c = op(a) op(b) + beta c for `count` matrices
// that lie `*_stride` elements apart. a, b and c are of one float dtype; float16 is summed up in
// float32.
struct GemmCall {
  Dtype dtype = Dtype::kFloat32;
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t m = 0;  // rows of op(a) and c
  int64_t n = 0;  // columns of op(b) and c
  int64_t k = 0;
  const void* a = nullptr;
  int64_t lda = 1;
  int64_t a_stride = 0;
  const void* b = nullptr;
  int64_t ldb = 1;
  int64_t b_stride = 0;
  bool accumulate = false;  // beta = 1, else 0
  void* c = nullptr;
  int64_t ldc = 1;
  int64_t c_stride = 0;
  int64_t count = 1;
  bool tf32 = false;           // float32 factors may be rounded to TF32
  const void* bias = nullptr;  // of GemmWithBias: (m,), dense, added to each column of c
};

// A matrix, the last two dimensions of a tensor, as BLAS may read it: by rows (or `by_columns`),
// which are `leading` elements apart.
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

#endif  // CHX_SERVER_CUDA_VENDOR_GEMM_H_
