#include "server/native/vendor/gemm.h"

#include <cblas.h>

#include <algorithm>

#include "server/native/runtime/stops.h"
#include "server/native/vendor/dnnl_gemm.h"

namespace chx::server::native {
namespace {

void BlasGemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const float* a, int lda,
              const float* b, int ldb, float beta, float* c, int ldc) {
  const DnnlGemmCall call{
      ta == CblasTrans, tb == CblasTrans, m, n, k, a, lda, b, ldb, beta, c, ldc};
  if (DnnlGemmIsFaster(call) && DnnlGemm(call)) return;
  cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
}
void BlasGemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const double* a, int lda,
              const double* b, int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1.0, a, lda, b, ldb, beta, c, ldc);
}
void CblasGemv(CBLAS_TRANSPOSE trans, int m, int n, const float* a, int lda, const float* x,
               int incx, float beta, float* y, int incy) {
  cblas_sgemv(CblasRowMajor, trans, m, n, 1.0f, a, lda, x, incx, beta, y, incy);
}
void CblasGemv(CBLAS_TRANSPOSE trans, int m, int n, const double* a, int lda, const double* x,
               int incx, double beta, double* y, int incy) {
  cblas_dgemv(CblasRowMajor, trans, m, n, 1.0, a, lda, x, incx, beta, y, incy);
}

// Whether rows are dense and do not overlap. The stride of a dimension of length 1 does not count.
bool HasDenseRows(const Matrix& matrix, int64_t item_size) {
  return (matrix.columns == 1 || matrix.column_stride == item_size) &&
         (matrix.rows == 1 || (matrix.row_stride >= matrix.columns * item_size &&
                               matrix.row_stride / item_size <= INT32_MAX));
}

// A matrix as BLAS names it: stored by rows, or stored by columns and so transposed.
struct BlasView {
  CBLAS_TRANSPOSE transpose;
  int ld;
};

BlasView ViewOf(const Matrix& matrix, int64_t item_size) {
  const bool by_rows = HasDenseRows(matrix, item_size);
  const Matrix stored = by_rows ? matrix : Transposed(matrix);
  const int64_t ld = stored.rows == 1 ? stored.columns : stored.row_stride / item_size;
  return {by_rows ? CblasNoTrans : CblasTrans, static_cast<int>(ld)};
}

CBLAS_TRANSPOSE Flip(CBLAS_TRANSPOSE transpose) {
  return transpose == CblasNoTrans ? CblasTrans : CblasNoTrans;
}

// y = matrix x + beta y, or y = x matrix + beta y if `from_left`.
template <typename T>
void Gemv(const Matrix& matrix, bool from_left, const T* x, int64_t x_stride, T beta, T* y,
          int64_t y_stride) {
  const BlasView view = ViewOf(matrix, sizeof(T));
  const Matrix stored = view.transpose == CblasTrans ? Transposed(matrix) : matrix;
  CblasGemv(from_left ? Flip(view.transpose) : view.transpose, static_cast<int>(stored.rows),
            static_cast<int>(stored.columns), reinterpret_cast<const T*>(stored.data), view.ld, x,
            static_cast<int>(x_stride), beta, y, static_cast<int>(y_stride));
}

// One product, for a part of the rows or columns of the result.
template <typename T>
void Panel(const Matrix& a, const Matrix& b, T beta, T* c, int64_t ldc) {
  const int64_t m = a.rows;
  const int64_t n = b.columns;
  const int64_t k = a.columns;
  constexpr int64_t kItem = sizeof(T);
  // A vector may have any positive stride.
  const auto is_vector = [](int64_t stride) {
    return stride >= kItem && stride / kItem <= INT32_MAX;
  };
  if (m == 1 && is_vector(a.column_stride)) {
    Gemv(b, true, reinterpret_cast<const T*>(a.data), a.column_stride / kItem, beta, c, 1);
  } else if (n == 1 && is_vector(b.row_stride)) {
    Gemv(a, false, reinterpret_cast<const T*>(b.data), b.row_stride / kItem, beta, c, ldc);
  } else {
    const BlasView va = ViewOf(a, kItem);
    const BlasView vb = ViewOf(b, kItem);
    BlasGemm(va.transpose, vb.transpose, static_cast<int>(m), static_cast<int>(n),
             static_cast<int>(k), reinterpret_cast<const T*>(a.data), va.ld,
             reinterpret_cast<const T*>(b.data), vb.ld, beta, c, static_cast<int>(ldc));
  }
}

// Work of one call of BLAS: some 8 ms. Blocks of this size are as fast as larger ones.
constexpr double kMaxWork = 1 << 27;
constexpr int64_t kBlockUnit = 64;  // where cuts fall

int64_t Half(int64_t size) { return (size / 2 + kBlockUnit - 1) / kBlockUnit * kBlockUnit; }

// Like Panel, in blocks, with a check of the stop token between them.
template <typename T>
void Blocks(const Matrix& a, const Matrix& b, T beta, T* c, int64_t ldc) {
  const int64_t m = a.rows;
  const int64_t n = b.columns;
  const int64_t k = a.columns;
  if (StopRequested()) return;
  if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) <= kMaxWork ||
      std::max({m, n, k}) <= 2 * kBlockUnit) {
    return Panel(a, b, beta, c, ldc);
  }
  Matrix first_a = a;
  Matrix first_b = b;
  Matrix rest_a = a;
  Matrix rest_b = b;
  if (m >= n && m >= k) {
    first_a.rows = Half(m);
    rest_a.rows = m - first_a.rows;
    rest_a.data += first_a.rows * a.row_stride;
    Blocks(first_a, b, beta, c, ldc);
    Blocks(rest_a, b, beta, c + first_a.rows * ldc, ldc);
  } else if (n >= k) {
    first_b.columns = Half(n);
    rest_b.columns = n - first_b.columns;
    rest_b.data += first_b.columns * b.column_stride;
    Blocks(a, first_b, beta, c, ldc);
    Blocks(a, rest_b, beta, c + first_b.columns, ldc);
  } else {
    first_a.columns = first_b.rows = Half(k);
    rest_a.columns = rest_b.rows = k - first_a.columns;
    rest_a.data += first_a.columns * a.column_stride;
    rest_b.data += first_a.columns * b.row_stride;
    Blocks(first_a, first_b, beta, c, ldc);
    Blocks(rest_a, rest_b, T(1), c, ldc);
  }
}

constexpr int64_t kParallelWork = 256 << 10;  // multiplications worth waking a thread for
constexpr int64_t kMaxPanels = 8;
constexpr int64_t kMinPanel = 64;  // rows or columns

}  // namespace

bool IsBlasReady(const Matrix& matrix, int64_t item_size) {
  return HasDenseRows(matrix, item_size) || HasDenseRows(Transposed(matrix), item_size);
}

template <typename T>
void Gemm(ThreadPool& pool, int64_t count, const Matrix& a, const int64_t* a_offsets,
          const Matrix& b, const int64_t* b_offsets, bool accumulate, T* c, int64_t ldc,
          int64_t c_step) {
  const int64_t m = a.rows;
  const int64_t n = b.columns;
  const int64_t k = a.columns;
  if (count * m * n == 0) return;
  if (ldc == 0) {
    ldc = n;
    c_step = m * n;
  }
  const T beta = accumulate ? T(1) : T(0);
  if (k == 0) {
    StopWatch watch;
    for (int64_t row = 0; row < count * m && !accumulate && !watch.After(n); ++row) {
      FillZero(c + row / m * c_step + row % m * ldc, n * static_cast<int64_t>(sizeof(T)));
    }
    return;
  }
  const int64_t work = m * n * k;
  if (count == 1 && work < 2 * kParallelWork) {
    Matrix first_a = a;
    Matrix first_b = b;
    first_a.data += a_offsets[0];
    first_b.data += b_offsets[0];
    Panel(first_a, first_b, beta, c, ldc);
    return;
  }
  // The longer side of the result is cut. Wide panels suit oneDNN.
  const bool cut_rows = m >= n;
  const int64_t side = cut_rows ? m : n;
  const int64_t panels =
      std::max<int64_t>(1, std::min({kMaxPanels, side / kMinPanel, work / kParallelWork}));
  const int64_t grain = std::max<int64_t>(1, kParallelWork / std::max<int64_t>(1, work / panels));
  pool.ParallelFor(count * panels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t i = task / panels;
      const int64_t first = side * (task % panels) / panels;
      const int64_t last = side * (task % panels + 1) / panels;
      Matrix part_a = a;
      Matrix part_b = b;
      part_a.data += a_offsets[i];
      part_b.data += b_offsets[i];
      T* part_c = c + i * c_step;
      if (cut_rows) {
        part_a.data += first * a.row_stride;
        part_a.rows = last - first;
        part_c += first * ldc;
      } else {
        part_b.data += first * b.column_stride;
        part_b.columns = last - first;
        part_c += first;
      }
      Blocks(part_a, part_b, beta, part_c, ldc);
    }
  });
}

template <typename T>
void SerialGemm(const Matrix& a, const Matrix& b, bool accumulate, T* c, int64_t ldc) {
  if (a.rows == 0 || b.columns == 0) return;
  if (a.columns == 0) {
    StopWatch watch;
    for (int64_t row = 0; row < a.rows && !accumulate && !watch.After(b.columns); ++row) {
      FillZero(c + row * ldc, b.columns * static_cast<int64_t>(sizeof(T)));
    }
    return;
  }
  Blocks(a, b, accumulate ? T(1) : T(0), c, ldc);
}

template void SerialGemm(const Matrix&, const Matrix&, bool, float*, int64_t);
template void SerialGemm(const Matrix&, const Matrix&, bool, double*, int64_t);
template void Gemm(ThreadPool&, int64_t, const Matrix&, const int64_t*, const Matrix&,
                   const int64_t*, bool, float*, int64_t, int64_t);
template void Gemm(ThreadPool&, int64_t, const Matrix&, const int64_t*, const Matrix&,
                   const int64_t*, bool, double*, int64_t, int64_t);

}  // namespace chx::server::native
