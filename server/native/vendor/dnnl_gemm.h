// Products of float32 matrices by oneDNN.
#ifndef CHX_SERVER_NATIVE_VENDOR_DNNL_GEMM_H_
#define CHX_SERVER_NATIVE_VENDOR_DNNL_GEMM_H_

#include <cstdint>

namespace chx::server::native {

// c = a b + beta c. Matrices are stored by rows, `ld` elements apart; a (m, k) and b (k, n) may be
// stored as their transposes.
struct DnnlGemmCall {
  bool transpose_a;
  bool transpose_b;
  int64_t m;
  int64_t n;
  int64_t k;
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  float beta;
  float* c;
  int64_t ldc;
};

// Whether oneDNN is faster than OpenBLAS at this shape.
bool DnnlGemmIsFaster(const DnnlGemmCall& call);

// On the calling thread alone. False: there is no oneDNN, or it has no memory; nothing was written.
bool DnnlGemm(const DnnlGemmCall& call);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_VENDOR_DNNL_GEMM_H_
