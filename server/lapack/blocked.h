// LU and Cholesky factors of large matrices, in blocks between which they stop if they are to:
// OpenBLAS has these as single calls. Small ones are OpenBLAS's. Matrices are column-major and
// square, of dimension n.
#ifndef CHX_SERVER_LAPACK_BLOCKED_H_
#define CHX_SERVER_LAPACK_BLOCKED_H_

namespace chx::server::lapack {

// As getrf and potrf with "U"; the results are LAPACK's codes.
template <typename T>
int FactorLu(int n, T* a, int* pivots);
template <typename T>
int FactorCholesky(int n, T* a);

// b (n, columns) = a^-T b, from a's factors.
template <typename T>
int SolveTransposed(int n, int columns, const T* lu, const int* pivots, T* b);

extern template int FactorLu(int, float*, int*);
extern template int FactorLu(int, double*, int*);
extern template int FactorCholesky(int, float*);
extern template int FactorCholesky(int, double*);
extern template int SolveTransposed(int, int, const float*, const int*, float*);
extern template int SolveTransposed(int, int, const double*, const int*, double*);

}  // namespace chx::server::lapack

#endif  // CHX_SERVER_LAPACK_BLOCKED_H_
