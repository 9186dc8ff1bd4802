#include "server/lapack/blocked.h"

#include <algorithm>
#include <cstdint>

#include "server/engine/stop_requested.h"
#include "server/lapack/fortran.h"

namespace chx::server::lapack {
namespace {

constexpr int kWhole = 1024;  // up to here one call takes no more than 20 ms
constexpr int kBlock = 128;
constexpr int kColumns = 1024;  // of right sides, or of a product, at a time

// c (m, n) -= op(a) b, where op(a) is (m, k); by columns.
template <typename T>
void Subtract(const char* transpose_a, int m, int n, int k, const T* a, int lda, const T* b,
              int ldb, T* c, int ldc) {
  const T minus = -1;
  const T one = 1;
  for (int64_t j = 0; j < n && !StopRequested(); j += kColumns) {
    const int columns = static_cast<int>(std::min<int64_t>(kColumns, n - j));
    Fortran<T>::gemm(transpose_a, "N", &m, &columns, &k, &minus, a, &lda, b + j * ldb, &ldb, &one,
                     c + j * ldc, &ldc, 1, 1);
  }
}

// b = op(a)^-1 b for a triangular block a.
template <typename T>
void SolveBlock(const char* half, const char* transpose, const char* unit, int m, int n, const T* a,
                int lda, T* b, int ldb) {
  const T one = 1;
  Fortran<T>::trsm("L", half, transpose, unit, &m, &n, &one, a, &lda, b, &ldb, 1, 1, 1, 1);
}

}  // namespace

template <typename T>
int FactorLu(int n, T* a, int* pivots) {
  int code = 0;
  if (n <= kWhole) {
    Fortran<T>::getrf(&n, &n, a, &n, pivots, &code);
    return code;
  }
  const int one = 1;
  for (int j = 0; j < n && !StopRequested(); j += kBlock) {
    const int width = std::min(kBlock, n - j);
    const int rows = n - j;
    const int after = n - j - width;
    T* const corner = a + j + int64_t{j} * n;
    T* const right = corner + int64_t{width} * n;
    int info = 0;
    Fortran<T>::getrf(&rows, &width, corner, &n, pivots + j, &info);
    if (info != 0 && code == 0) code = info + j;
    for (int i = j; i < j + width; ++i) pivots[i] += j;
    const int first = j + 1;
    const int last = j + width;
    Fortran<T>::laswp(&j, a, &n, &first, &last, pivots, &one);
    if (after == 0) break;
    Fortran<T>::laswp(&after, a + int64_t{j + width} * n, &n, &first, &last, pivots, &one);
    SolveBlock("L", "N", "U", width, after, corner, n, right, n);
    Subtract("N", after, after, width, corner + width, n, right, n, right + width, n);
  }
  return code;
}

template <typename T>
int FactorCholesky(int n, T* a) {
  int code = 0;
  if (n <= kWhole) {
    Fortran<T>::potrf("U", &n, a, &n, &code, 1);
    return code;
  }
  for (int j = 0; j < n && !StopRequested(); j += kBlock) {
    const int width = std::min(kBlock, n - j);
    const int after = n - j - width;
    T* const corner = a + j + int64_t{j} * n;
    T* const right = corner + int64_t{width} * n;
    Fortran<T>::potrf("U", &width, corner, &n, &code, 1);
    if (code != 0) return code + j;
    if (after == 0) break;
    SolveBlock("U", "T", "N", width, after, corner, n, right, n);
    // Of the rest only the upper half counts: some columns at a time, down to the diagonal.
    for (int c = 0; c < after && !StopRequested(); c += kColumns / 2) {
      const int columns = std::min(kColumns / 2, after - c);
      const T* const from = right + int64_t{c} * n;
      Subtract("T", c + columns, columns, width, right, n, from, n, right + width + int64_t{c} * n,
               n);
    }
  }
  return code;
}

template <typename T>
int SolveTransposed(int n, int columns, const T* lu, const int* pivots, T* b) {
  int code = 0;
  if (n <= kWhole && int64_t{n} * n * columns <= int64_t{kWhole} * kWhole * kWhole) {
    Fortran<T>::getrs("T", &n, &columns, lu, &n, pivots, b, &n, &code, 1);
    return code;
  }
  const auto at = [n, lu](int row, int column) { return lu + row + int64_t{column} * n; };
  for (int first = 0; first < columns && !StopRequested(); first += kColumns) {
    const int width = std::min(kColumns, columns - first);
    T* const x = b + int64_t{first} * n;
    // The transpose of the upper factor, then that of the lower one.
    for (int j = 0; j < n && !StopRequested(); j += kBlock) {
      const int rows = std::min(kBlock, n - j);
      SolveBlock("U", "T", "N", rows, width, at(j, j), n, x + j, n);
      if (j + rows < n) {
        Subtract("T", n - j - rows, width, rows, at(j, j + rows), n, x + j, n, x + j + rows, n);
      }
    }
    for (int end = n; end > 0 && !StopRequested();) {
      const int rows = (end - 1) % kBlock + 1;
      const int j = end - rows;
      SolveBlock("L", "T", "U", rows, width, at(j, j), n, x + j, n);
      if (j > 0) Subtract("T", j, width, rows, at(j, 0), n, x + j, n, x, n);
      end = j;
    }
    const int begin = 1;
    const int backwards = -1;
    Fortran<T>::laswp(&width, x, &n, &begin, &n, pivots, &backwards);
  }
  return code;
}

template int FactorLu(int, float*, int*);
template int FactorLu(int, double*, int*);
template int FactorCholesky(int, float*);
template int FactorCholesky(int, double*);
template int SolveTransposed(int, int, const float*, const int*, float*);
template int SolveTransposed(int, int, const double*, const int*, double*);

}  // namespace chx::server::lapack
