// Products of float32 or float64 matrices by OpenBLAS or oneDNN, cut into panels for our own
// threads.
#ifndef CHX_SERVER_NATIVE_VENDOR_GEMM_H_
#define CHX_SERVER_NATIVE_VENDOR_GEMM_H_

#include <cstdint>

#include "server/native/runtime/thread_pool.h"

namespace chx::server::native {

// Element (i, j) is at data + i * row_stride + j * column_stride, in bytes.
struct Matrix {
  const char* data;
  int64_t rows;
  int64_t columns;
  int64_t row_stride;
  int64_t column_stride;
};

inline Matrix Transposed(const Matrix& m) {
  return {m.data, m.columns, m.rows, m.column_stride, m.row_stride};
}

// Whether OpenBLAS can read the matrix as it is: rows or columns dense, without overlap.
bool IsBlasReady(const Matrix& matrix, int64_t item_size);

// `count` products c = a b, or c += a b, of matrices of one shape; `a_offsets` and `b_offsets` say
// where the i-th ones start, and the results follow one another in C order at `c`, or have their
// rows `ldc` elements and themselves `c_step` elements apart. The matrices must be BLAS-ready and
// all dimensions below 2^31. Results don't depend on the number of threads.
template <typename T>
void Gemm(ThreadPool& pool, int64_t count, const Matrix& a, const int64_t* a_offsets,
          const Matrix& b, const int64_t* b_offsets, bool accumulate, T* c, int64_t ldc = 0,
          int64_t c_step = 0);

// One product on the calling thread, for kernels that have threads of their own: c = a b, or c += a
// b, with rows of c `ldc` elements apart. Conditions as above.
template <typename T>
void SerialGemm(const Matrix& a, const Matrix& b, bool accumulate, T* c, int64_t ldc);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_VENDOR_GEMM_H_
