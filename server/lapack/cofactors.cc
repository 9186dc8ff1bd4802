// Cofactors of square matrices, det(a) a^-T where a is regular, which are defined for every matrix.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "server/engine/stop_requested.h"
#include "server/lapack/blocked.h"
#include "server/lapack/fortran.h"
#include "server/lapack/stacks.h"
#include "server/lapack/stoppable.h"

namespace chx::server::lapack {
namespace {

// fraction * 2^exponent, the fraction between 1/2 and 1: products on the way may be out of T's
// range.
template <typename T>
struct Determinant {
  T fraction = 1;
  int64_t exponent = 0;
  T value() const {
    constexpr int64_t kBeyond = 1 << 20;
    return std::ldexp(fraction, static_cast<int>(std::clamp(exponent, -kBeyond, kBeyond)));
  }
};

// Of the matrix that getrf has made of another, that one's determinant.
template <typename T>
Determinant<T> DeterminantOf(const T* lu, const int* pivots, int n) {
  Determinant<T> det;
  for (int64_t i = 0; i < n; ++i) {
    int exponent = 0;
    det.fraction =
        std::frexp(det.fraction * (pivots[i] == i + 1 ? lu[i * n + i] : -lu[i * n + i]), &exponent);
    det.exponent += exponent;
  }
  return det;
}

// Sets `*done` unless a's factors have zeros on the diagonal, or numbers out of range: what is near
// to singular is no harm, as the determinant makes up for the inverse.
template <typename T>
int ByInverse(const T* a, int n, T* out, bool* done) {
  const int64_t square = int64_t{n} * n;
  const Buffer<T> lu(square);
  const Buffer<int> pivots(n);
  if (!lu.ok() || !pivots.ok()) return kNoMemory;
  // In C order this is the transposed matrix, and so is the result.
  CopyElements<T>(a, square, lu.get());
  int code = FactorLu(n, lu.get(), pivots.get());
  if (code != 0) return std::min(code, 0);
  const T det = DeterminantOf(lu.get(), pivots.get(), n).value();
  if (!(std::fabs(det) >= std::numeric_limits<T>::min())) return 0;
  std::fill(out, out + square, T(0));
  for (int64_t i = 0; i < n; ++i) out[i * n + i] = T(1);
  code = SolveTransposed(n, n, lu.get(), pivots.get(), out);
  if (StopRequested()) return 0;
  for (int64_t p = 0; p < square; ++p) out[p] *= det;
  *done = std::isinf(det) ||
          std::all_of(out, out + square, [](T value) { return std::isfinite(value); });
  return code;
}

// Of a = u s vh: det(u) det(vh) u c vh, where c has the products of all singular values but one.
template <typename T>
int BySingularValues(const T* a, int n, T* out) {
  const int64_t square = int64_t{n} * n;
  T best = 0;
  T none = 0;
  int no_int = 0;
  int query = -1;
  int code = 0;
  Fortran<T>::gesdd("A", &n, &n, &none, &n, &none, &none, &n, &none, &n, &best, &query, &no_int,
                    &code, 1);
  const int work_size = WorkSize(best);
  if (work_size == 0 || n > INT32_MAX / 8) return kTooLarge;
  const Buffer<T> matrix(square);
  const Buffer<T> values(n);
  const Buffer<T> products(n);
  const Buffer<T> left(square);
  const Buffer<T> right(square);
  const Buffer<T> work(work_size);
  const Buffer<int> int_work(8 * int64_t{n});
  if (!matrix.ok() || !values.ok() || !products.ok() || !left.ok() || !right.ok() || !work.ok() ||
      !int_work.ok()) {
    return kNoMemory;
  }
  CopyElements<T>(a, square, matrix.get());
  T* const s = values.get();
  T* const u = right.get();  // by columns, of the transposed matrix
  T* const vt = left.get();
  const bool whole = CallStoppably([&] {
    Fortran<T>::gesdd("A", &n, &n, matrix.get(), &n, s, u, &n, vt, &n, work.get(), &work_size,
                      int_work.get(), &code, 1);
  });
  if (!whole) return 0;
  if (code != 0) return code;
  T* const others = products.get();
  T product = 1;
  for (int64_t k = 0; k < n; product *= s[k++]) others[k] = product;
  product = 1;
  for (int64_t k = n - 1; k >= 0; product *= s[k--]) others[k] *= product;
  std::fill(out, out + square, T(0));
  for (int64_t k = 0; k < n; ++k) {
    if (others[k] == 0) continue;
    for (int64_t row = 0; row < n && !StopRequested(); ++row) {
      const T scale = others[k] * vt[row * n + k];
      for (int64_t column = 0; column < n; ++column) {
        out[row * n + column] += scale * u[k * n + column];
      }
    }
  }
  for (T* const rotation : {u, vt}) {
    code = FactorLu(n, rotation, int_work.get());
    if (DeterminantOf(rotation, int_work.get(), n).fraction > 0) continue;
    for (int64_t p = 0; p < square; ++p) out[p] = -out[p];
  }
  return std::min(code, 0);
}

template <typename T>
absl::Status Cofactors(const KernelArgs& args, ForEach for_each) {
  const KernelTensor& a = args.in(0);
  if (a.size() == 0) return absl::OkStatus();
  const int n = static_cast<int>(Columns(a));
  const int64_t square = int64_t{n} * n;
  return ForAll(args, for_each, a.size() / square, 3 * square * n, kConverge, [&](int64_t i) {
    const T* const from = DataOf<T>(a, i, square);
    T* const to = DataOf<T>(args.out(0), i, square);
    // As of other compositions of sums and products; the singular values would not be found.
    if (!std::all_of(from, from + square, [](T value) { return std::isfinite(value); })) {
      std::fill(to, to + square, std::numeric_limits<T>::quiet_NaN());
      return 0;
    }
    bool done = false;
    const int code = ByInverse(from, n, to, &done);
    return done || code != 0 ? code : BySingularValues(from, n, to);
  });
}

}  // namespace

absl::Status CofactorsOfFloat32(const KernelArgs& args, ForEach for_each) {
  return Cofactors<float>(args, for_each);
}
absl::Status CofactorsOfFloat64(const KernelArgs& args, ForEach for_each) {
  return Cofactors<double>(args, for_each);
}

}  // namespace chx::server::lapack
