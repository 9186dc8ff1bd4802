// Products of matrices of any dtype but float16: by OpenBLAS for floats, by plain loops for bools
// and integers.
#ifndef CHX_SERVER_NATIVE_KERNELS_PRODUCTS_H_
#define CHX_SERVER_NATIVE_KERNELS_PRODUCTS_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "server/kernels/elementwise_fns.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/stops.h"
#include "server/native/vendor/gemm.h"

namespace chx::server::native {

// result[j] += factor * row[j], wrapping around. If the elements are adjacent, `step` is
// a constant, so that the loop vectorises.
template <typename T, typename Step>
void AddMultiple(kernels::Compute<T> factor, const char* row, int64_t n, Step step,
                 T* __restrict result) {
  const kernels::Add add;
  const kernels::Multiply multiply;
  InPieces(n, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const kernels::Compute<T> element =
          kernels::Load(*reinterpret_cast<const T*>(row + j * static_cast<int64_t>(step)));
      result[j] = kernels::Store<T>(add(kernels::Load(result[j]), multiply(factor, element)));
    }
  });
}

// Like Gemm, for bools and integers with any strides. The sum of bools is their logical or.
template <typename T>
void PlainProducts(ThreadPool& pool, int64_t count, const Matrix& a, const int64_t* a_offsets,
                   const Matrix& b, const int64_t* b_offsets, bool accumulate, T* c,
                   int64_t ldc = 0, int64_t c_step = 0) {
  const int64_t n = b.columns;
  const int64_t k = a.columns;
  if (ldc == 0) ldc = n;
  if (c_step == 0) c_step = a.rows * ldc;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, n * k));
  pool.ParallelFor(count * a.rows, grain, [&](int64_t begin, int64_t end) {
    StopWatch watch;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t i = task / a.rows;
      const int64_t r = task - i * a.rows;
      const char* const left = a.data + a_offsets[i] + r * a.row_stride;
      const char* const right = b.data + b_offsets[i];
      T* const result = c + i * c_step + r * ldc;
      if (!accumulate) FillZero(result, n * static_cast<int64_t>(sizeof(T)));
      for (int64_t p = 0; p < k && !watch.After(n); ++p) {
        const auto factor = kernels::Load(*reinterpret_cast<const T*>(left + p * a.column_stride));
        const char* const row = right + p * b.row_stride;
        if (b.column_stride == sizeof(T)) {
          AddMultiple(factor, row, n, std::integral_constant<int64_t, sizeof(T)>(), result);
        } else {
          AddMultiple(factor, row, n, b.column_stride, result);
        }
      }
    }
  });
}

// Gemm for floats, with its conditions; else PlainProducts.
template <typename T>
void Products(ThreadPool& pool, int64_t count, const Matrix& a, const int64_t* a_offsets,
              const Matrix& b, const int64_t* b_offsets, bool accumulate, T* c, int64_t ldc = 0,
              int64_t c_step = 0) {
  if constexpr (std::is_floating_point<T>::value) {
    Gemm(pool, count, a, a_offsets, b, b_offsets, accumulate, c, ldc, c_step);
  } else {
    PlainProducts(pool, count, a, a_offsets, b, b_offsets, accumulate, c, ldc, c_step);
  }
}

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_KERNELS_PRODUCTS_H_
