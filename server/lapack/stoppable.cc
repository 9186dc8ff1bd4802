#include "server/lapack/stoppable.h"

#include <cblas.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>

#include "server/engine/stop_requested.h"
#include "server/lapack/fortran.h"

namespace chx::server::lapack {
namespace {

thread_local jmp_buf* way_out = nullptr;

void LeaveIfStopped() {
  // Between the two there are frames of Fortran only, which own nothing.
  if (way_out != nullptr && StopRequested()) longjmp(*way_out, 1);
}

CBLAS_TRANSPOSE TransposeOf(const char* word) {
  return *word == 'N' || *word == 'n' ? CblasNoTrans : CblasTrans;
}

// What one product may take: some 15 ms.
constexpr int64_t kMaxWork = int64_t{1} << 28;

// Columns of the result for one call.
int ColumnsAtATime(int64_t m, int64_t k) {
  return static_cast<int>(std::clamp<int64_t>(kMaxWork / std::max<int64_t>(1, m * k), 32, 1 << 30));
}

template <typename T, typename Gemm>
void GemmByColumns(Gemm gemm, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, T alpha,
                   const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc) {
  const int step = ColumnsAtATime(m, k);
  for (int64_t j = 0; j < n; j += step) {
    const int columns = static_cast<int>(std::min<int64_t>(step, n - j));
    const T* const from = tb == CblasNoTrans ? b + j * ldb : b + j;
    gemm(CblasColMajor, ta, tb, m, columns, k, alpha, a, lda, from, ldb, beta, c + j * ldc, ldc);
    LeaveIfStopped();
  }
}

}  // namespace

bool CallStoppably(absl::FunctionRef<void()> call) {
  if (StopRequested()) return false;  // the matrix may be unfinished, and so not finite
  jmp_buf here;
  if (setjmp(here) != 0) {
    way_out = nullptr;
    return false;
  }
  way_out = &here;
  call();
  way_out = nullptr;
  return true;
}

}  // namespace chx::server::lapack

// BLAS as LAPACK's reference code calls it. The archive's own are not linked then.
#define CHX_BLAS(T, p)                                                                             \
  void p##gemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,          \
                const T* alpha, const T* a, const int* lda, const T* b, const int* ldb,            \
                const T* beta, T* c, const int* ldc, size_t, size_t) {                             \
    chx::server::lapack::GemmByColumns<T>(cblas_##p##gemm, chx::server::lapack::TransposeOf(ta),   \
                                          chx::server::lapack::TransposeOf(tb), *m, *n, *k,        \
                                          *alpha, a, *lda, b, *ldb, *beta, c, *ldc);               \
  }                                                                                                \
  void p##gemv_(const char* trans, const int* m, const int* n, const T* alpha, const T* a,         \
                const int* lda, const T* x, const int* incx, const T* beta, T* y, const int* incy, \
                size_t) {                                                                          \
    cblas_##p##gemv(CblasColMajor, chx::server::lapack::TransposeOf(trans), *m, *n, *alpha, a,     \
                    *lda, x, *incx, *beta, y, *incy);                                              \
    chx::server::lapack::LeaveIfStopped();                                                         \
  }                                                                                                \
  void p##symv_(const char* uplo, const int* n, const T* alpha, const T* a, const int* lda,        \
                const T* x, const int* incx, const T* beta, T* y, const int* incy, size_t) {       \
    cblas_##p##symv(CblasColMajor, *uplo == 'U' || *uplo == 'u' ? CblasUpper : CblasLower, *n,     \
                    *alpha, a, *lda, x, *incx, *beta, y, *incy);                                   \
    chx::server::lapack::LeaveIfStopped();                                                         \
  }

extern "C" {
CHX_BLAS(float, s)
CHX_BLAS(double, d)
}
