// The functions of LAPACK and BLAS that we call, which are inside OpenBLAS, overloaded by type.
// Matrices are column-major.
#ifndef CHX_SERVER_LAPACK_FORTRAN_H_
#define CHX_SERVER_LAPACK_FORTRAN_H_

#include <cstddef>

// The size_t arguments are the lengths of strings, as gfortran passes them.
#define CHX_LAPACK_FUNCTIONS(T, p)                                                                 \
  void p##getrf_(const int* m, const int* n, T* a, const int* lda, int* ipiv, int* info);          \
  void p##getrs_(const char* trans, const int* n, const int* nrhs, const T* a, const int* lda,     \
                 const int* ipiv, T* b, const int* ldb, int* info, size_t);                        \
  void p##laswp_(const int* n, T* a, const int* lda, const int* k1, const int* k2,                 \
                 const int* ipiv, const int* incx);                                                \
  void p##trsm_(const char* side, const char* uplo, const char* trans, const char* diag,           \
                const int* m, const int* n, const T* alpha, const T* a, const int* lda, T* b,      \
                const int* ldb, size_t, size_t, size_t, size_t);                                   \
  void p##gemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,          \
                const T* alpha, const T* a, const int* lda, const T* b, const int* ldb,            \
                const T* beta, T* c, const int* ldc, size_t, size_t);                              \
  void p##gemv_(const char* trans, const int* m, const int* n, const T* alpha, const T* a,         \
                const int* lda, const T* x, const int* incx, const T* beta, T* y, const int* incy, \
                size_t);                                                                           \
  void p##symv_(const char* uplo, const int* n, const T* alpha, const T* a, const int* lda,        \
                const T* x, const int* incx, const T* beta, T* y, const int* incy, size_t);        \
  void p##potrf_(const char* uplo, const int* n, T* a, const int* lda, int* info, size_t);         \
  void p##geqrf_(const int* m, const int* n, T* a, const int* lda, T* tau, T* work,                \
                 const int* lwork, int* info);                                                     \
  void p##orgqr_(const int* m, const int* n, const int* k, T* a, const int* lda, const T* tau,     \
                 T* work, const int* lwork, int* info);                                            \
  void p##gesdd_(const char* jobz, const int* m, const int* n, T* a, const int* lda, T* s, T* u,   \
                 const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork, int* iwork,    \
                 int* info, size_t);                                                               \
  void p##syevd_(const char* jobz, const char* uplo, const int* n, T* a, const int* lda, T* w,     \
                 T* work, const int* lwork, int* iwork, const int* liwork, int* info, size_t,      \
                 size_t);                                                                          \
  void p##geev_(const char* jobvl, const char* jobvr, const int* n, T* a, const int* lda, T* wr,   \
                T* wi, T* vl, const int* ldvl, T* vr, const int* ldvr, T* work, const int* lwork,  \
                int* info, size_t, size_t);

extern "C" {
CHX_LAPACK_FUNCTIONS(float, s)
CHX_LAPACK_FUNCTIONS(double, d)
}
#undef CHX_LAPACK_FUNCTIONS

namespace chx::server::lapack {

// The functions for T.
template <typename T>
struct Fortran;

#define CHX_LAPACK_STRUCT(T, p)                \
  template <>                                  \
  struct Fortran<T> {                          \
    static constexpr auto* getrf = &p##getrf_; \
    static constexpr auto* getrs = &p##getrs_; \
    static constexpr auto* laswp = &p##laswp_; \
    static constexpr auto* trsm = &p##trsm_;   \
    static constexpr auto* gemm = &p##gemm_;   \
    static constexpr auto* potrf = &p##potrf_; \
    static constexpr auto* geqrf = &p##geqrf_; \
    static constexpr auto* orgqr = &p##orgqr_; \
    static constexpr auto* gesdd = &p##gesdd_; \
    static constexpr auto* syevd = &p##syevd_; \
    static constexpr auto* geev = &p##geev_;   \
  };
CHX_LAPACK_STRUCT(float, s)
CHX_LAPACK_STRUCT(double, d)
#undef CHX_LAPACK_STRUCT

}  // namespace chx::server::lapack

#endif  // CHX_SERVER_LAPACK_FORTRAN_H_
