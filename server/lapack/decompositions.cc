#include "server/lapack/decompositions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ops/error.h"
#include "server/engine/stop_token.h"
#include "server/lapack/blocked.h"
#include "server/lapack/fortran.h"
#include "server/lapack/stacks.h"
#include "server/lapack/stoppable.h"

// All that the archive of LAPACK takes from Fortran's run-time library: s1 // s2, padded with
// blanks.
extern "C" void ChxConcatString(size_t size, char* to, size_t size1, const char* s1, size_t size2,
                                const char* s2) __asm__("_gfortran_concat_string");
void ChxConcatString(size_t size, char* to, size_t size1, const char* s1, size_t size2,
                     const char* s2) {
  const size_t first = std::min(size, size1);
  const size_t second = std::min(size - first, size2);
  std::memcpy(to, s1, first);
  std::memcpy(to + first, s2, second);
  std::memset(to + first + second, ' ', size - first - second);
}

namespace chx::server::lapack {
namespace {

constexpr int64_t kAsk = 64 << 10;  // steps of a loop

// Identity matrices: an orthogonal basis where nothing is given.
template <typename T>
void FillIdentity(const KernelTensor& out) {
  if (out.size() == 0) return;
  T* const data = DataOf<T>(out, 0, 0);
  const int64_t n = Columns(out);
  const int64_t rows = out.size() / n;
  for (int64_t i = 0; i < rows; ++i) {
    if (i % kAsk == 0 && StopRequested()) return;
    std::fill(data + i * n, data + (i + 1) * n, T(0));
    data[i * n + i % n] = T(1);
  }
}

bool IsAmong(Finite finite, int64_t row, int64_t column) {
  return finite == Finite::kAll || (finite == Finite::kLower ? column <= row : column >= row);
}

template <typename T>
absl::Status CheckFinite(const KernelArgs& args) {
  const Finite finite = MustBeFinite(args);
  const KernelTensor& a = args.in(0);
  if (finite == Finite::kNone || a.size() == 0) return absl::OkStatus();
  const T* const data = DataOf<T>(a, 0, 0);
  const int64_t columns = Columns(a);
  const int64_t size = Rows(a) * columns;
  for (int64_t p = 0; p < a.size(); ++p) {
    if (p % kAsk == 0) CHX_RETURN_IF_ERROR(CheckNotStopped(args.op.name));
    if (std::isfinite(data[p]) || !IsAmong(finite, p % size / columns, p % columns)) continue;
    return NotFinite(args, static_cast<double>(data[p]), p / size, a.size() / size);
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status Solve(const KernelArgs& args, ForEach for_each) {
  const KernelTensor& a = args.in(0);
  const KernelTensor& b = args.in(1);
  const KernelTensor& x = args.out(0);
  const int own = b.ndim() == a.ndim() - 1 ? 1 : 2;  // see the operator's rule
  const int n = static_cast<int>(Columns(a));
  const int64_t k = own == 1 ? 1 : Columns(b);
  if (x.size() == 0) return absl::OkStatus();
  const int64_t count = x.size() / (n * k);
  const auto batch = x.shape.span().subspan(0, x.ndim() - own);
  const std::vector<int64_t> a_of = Sources(batch, a.shape.span().subspan(0, a.ndim() - 2), count);
  const std::vector<int64_t> b_of =
      Sources(batch, b.shape.span().subspan(0, b.ndim() - own), count);
  const int64_t square = int64_t{n} * n;
  const int64_t work = square * (n + k);
  return ForAll(args, for_each, count, work, kNotSingular, [&](int64_t i) {
    const Buffer<T> lu(square);
    const Buffer<int> pivots(n);
    const Buffer<T> columns(n * k);
    if (!lu.ok() || !pivots.ok() || !columns.ok()) return kNoMemory;
    // In C order these are the transposed matrices.
    CopyElements<T>(DataOf<T>(a, a_of[i], square), square, lu.get());
    Transpose(DataOf<T>(b, b_of[i], n * k), n, k, columns.get());
    int code = FactorLu(n, lu.get(), pivots.get());
    if (code != 0) return code;
    code = SolveTransposed(n, static_cast<int>(k), lu.get(), pivots.get(), columns.get());
    Transpose(columns.get(), k, n, DataOf<T>(x, i, n * k));
    return code;
  });
}

template <typename T>
absl::Status Cholesky(const KernelArgs& args, ForEach for_each) {
  const KernelTensor& a = args.in(0);
  const KernelTensor& l = args.out(0);
  if (a.size() == 0) return absl::OkStatus();
  const int n = static_cast<int>(Columns(a));
  const int64_t square = int64_t{n} * n;
  return ForAll(args, for_each, a.size() / square, square * n, kPositiveDefinite, [&](int64_t i) {
    T* const out = DataOf<T>(l, i, square);
    CopyElements<T>(DataOf<T>(a, i, square), square, out);
    // Our lower half is LAPACK's upper one.
    const int code = FactorCholesky(n, out);
    for (int64_t row = 0; row < n && !StopRequested(); ++row) {
      std::fill(out + row * n + row + 1, out + (row + 1) * n, T(0));
    }
    return code;
  });
}

template <typename T>
absl::Status Eigh(const KernelArgs& args, ForEach for_each) {
  CHX_RETURN_IF_ERROR(CheckFinite<T>(args));
  const KernelTensor& a = args.in(0);
  const KernelTensor& w = args.out(0);
  const bool vectors = args.outputs.size() > 1;
  if (a.size() == 0) return absl::OkStatus();
  const int n = static_cast<int>(Columns(a));
  const int64_t square = int64_t{n} * n;
  // Our lower half is LAPACK's upper one.
  const char* const half = args.attrs[0].AsInt() % 2 == 0 ? "U" : "L";
  const int64_t reals = vectors ? 1 + 6 * int64_t{n} + 2 * square : 1 + 2 * int64_t{n};
  const int64_t integers = vectors ? 3 + 5 * int64_t{n} : 1;
  return ForAll(args, for_each, a.size() / square, 9 * square * n, kConverge, [&](int64_t i) {
    if (reals > INT32_MAX) return kTooLarge;
    const Buffer<T> matrix(square);
    const Buffer<T> real_work(reals);
    const Buffer<int> int_work(integers);
    if (!matrix.ok() || !real_work.ok() || !int_work.ok()) return kNoMemory;
    CopyElements<T>(DataOf<T>(a, i, square), square, matrix.get());
    int code = 0;
    const int real_size = static_cast<int>(reals);
    const int int_size = static_cast<int>(integers);
    const bool whole = CallStoppably([&] {
      Fortran<T>::syevd(vectors ? "V" : "N", half, &n, matrix.get(), &n, DataOf<T>(w, i, n),
                        real_work.get(), &real_size, int_work.get(), &int_size, &code, 1, 1);
    });
    if (!whole) return 0;
    if (vectors && code == 0) {
      Transpose(matrix.get(), n, n, DataOf<T>(args.out(1), i, square));
    }
    return code;
  });
}

// Of the matrix by columns, for NumPy's order of eigenvalues.
template <typename T>
absl::Status Eig(const KernelArgs& args, ForEach for_each) {
  CHX_RETURN_IF_ERROR(CheckFinite<T>(args));
  const KernelTensor& a = args.in(0);
  const KernelTensor& w = args.out(0);
  const bool vectors = args.outputs.size() > 1;
  if (a.size() == 0) return absl::OkStatus();
  const int n = static_cast<int>(Columns(a));
  const int64_t square = int64_t{n} * n;
  const char* const job = vectors ? "V" : "N";
  int code = 0;
  T best = 0;
  int query = -1;
  T none = 0;
  Fortran<T>::geev("N", job, &n, &none, &n, &none, &none, &none, &n, &none, &n, &best, &query,
                   &code, 1, 1);
  const int work_size = WorkSize(best);
  return ForAll(
      args, for_each, a.size() / square, 25 * square * n, "matrices that converge", [&](int64_t i) {
        if (work_size == 0) return kTooLarge;
        const Buffer<T> matrix(square);
        const Buffer<T> imaginary(n);
        const Buffer<T> columns(vectors ? square : 1);
        const Buffer<T> work(work_size);
        if (!matrix.ok() || !imaginary.ok() || !columns.ok() || !work.ok()) return kNoMemory;
        Transpose(DataOf<T>(a, i, square), n, n, matrix.get());
        int info = 0;
        T unused = 0;
        const int one = 1;
        const bool whole = CallStoppably([&] {
          Fortran<T>::geev("N", job, &n, matrix.get(), &n, DataOf<T>(w, i, n), imaginary.get(),
                           &unused, &one, columns.get(), &n, work.get(), &work_size, &info, 1, 1);
        });
        if (!whole) return 0;
        if (info != 0) return info;
        if (std::any_of(imaginary.get(), imaginary.get() + n, [](T x) { return x != 0; })) {
          return kComplex;
        }
        if (vectors) Transpose(columns.get(), n, n, DataOf<T>(args.out(1), i, square));
        return info;
      });
}

// LAPACK sees the transposed matrix v s u^T: its u is our vh, and its vt our u.
template <typename T>
absl::Status Svd(const KernelArgs& args, ForEach for_each) {
  CHX_RETURN_IF_ERROR(CheckFinite<T>(args));
  const KernelTensor& a = args.in(0);
  const bool vectors = args.attrs[1].AsBool();
  const bool full = args.attrs[0].AsBool();
  const KernelTensor& s = args.out(vectors ? 1 : 0);
  if (a.size() == 0) {
    if (vectors && full) {
      FillIdentity<T>(args.out(0));
      FillIdentity<T>(args.out(2));
    }
    return absl::OkStatus();
  }
  const int m = static_cast<int>(Columns(a));
  const int n = static_cast<int>(Rows(a));
  const int k = std::min(m, n);
  const int64_t size = int64_t{m} * n;
  const char* const job = !vectors ? "N" : full ? "A" : "S";
  const int rows_of_vt = full ? n : k;
  const int leading = vectors ? rows_of_vt : 1;
  int code = 0;
  T best = 0;
  int query = -1;
  T none = 0;
  int no_int = 0;
  Fortran<T>::gesdd(job, &m, &n, &none, &m, &none, &none, &m, &none, &leading, &best, &query,
                    &no_int, &code, 1);
  const int work_size = WorkSize(best);
  return ForAll(args, for_each, a.size() / size, 10 * size * k, kConverge, [&](int64_t i) {
    if (work_size == 0 || k > INT32_MAX / 8) return kTooLarge;
    const Buffer<T> matrix(size);
    const Buffer<T> work(work_size);
    const Buffer<int> int_work(8 * int64_t{k});
    if (!matrix.ok() || !work.ok() || !int_work.ok()) return kNoMemory;
    CopyElements<T>(DataOf<T>(a, i, size), size, matrix.get());
    T* const vh = vectors ? DataOf<T>(args.out(2), i, int64_t{m} * (full ? m : k)) : matrix.get();
    T* const u = vectors ? DataOf<T>(args.out(0), i, int64_t{rows_of_vt} * n) : matrix.get();
    int info = 0;
    const bool whole = CallStoppably([&] {
      Fortran<T>::gesdd(job, &m, &n, matrix.get(), &m, DataOf<T>(s, i, k), vh, &m, u, &leading,
                        work.get(), &work_size, int_work.get(), &info, 1);
    });
    return whole ? info : 0;
  });
}

// The upper triangle of the decomposed a (m, n; by columns), as `rows` rows.
template <typename T>
void CopyR(const T* a, int64_t m, int64_t n, int64_t rows, T* r) {
  for (int64_t i = 0; i < rows && !StopRequested(); ++i) {
    for (int64_t j = 0; j < n; ++j) r[i * n + j] = j < i ? T(0) : a[j * m + i];
  }
}

template <typename T>
absl::Status Qr(const KernelArgs& args, ForEach for_each) {
  const KernelTensor& a = args.in(0);
  const int64_t mode = args.attrs[0].AsInt();  // 0: reduced, 1: complete, 2: r, 3: raw
  if (a.size() == 0) {
    if (mode == 1) FillIdentity<T>(args.out(0));
    return absl::OkStatus();
  }
  const int m = static_cast<int>(Rows(a));
  const int n = static_cast<int>(Columns(a));
  const int k = std::min(m, n);
  const int columns = mode == 1 ? m : k;  // of q
  const int64_t size = int64_t{m} * n;
  const int64_t q_size = int64_t{m} * columns;
  int code = 0;
  T best[2] = {0, 0};
  int query = -1;
  T none = 0;
  Fortran<T>::geqrf(&m, &n, &none, &m, &none, &best[0], &query, &code);
  Fortran<T>::orgqr(&m, &columns, &k, &none, &m, &none, &best[1], &query, &code);
  const int work_size = WorkSize(std::max(best[0], best[1]));
  const int64_t count = a.size() / size;
  return ForAll(args, for_each, count, 4 * size * k, "matrices", [&](int64_t i) {
    if (work_size == 0) return kTooLarge;
    const Buffer<T> matrix(std::max(size, q_size));
    const Buffer<T> tau(k);
    const Buffer<T> work(work_size);
    if (!matrix.ok() || !tau.ok() || !work.ok()) return kNoMemory;
    Transpose(DataOf<T>(a, i, size), m, n, matrix.get());
    int info = 0;
    const bool factored = CallStoppably([&] {
      Fortran<T>::geqrf(&m, &n, matrix.get(), &m, tau.get(), work.get(), &work_size, &info);
    });
    if (!factored || info != 0) return info;
    if (mode == 3) {
      CopyElements<T>(matrix.get(), size, DataOf<T>(args.out(0), i, size));
      std::memcpy(DataOf<T>(args.out(1), i, k), tau.get(), k * sizeof(T));
      return info;
    }
    const KernelTensor& r = args.out(mode == 2 ? 0 : 1);
    const int64_t rows = Rows(r);
    // Rows beyond m don't occur: r has min(m, n) or m of them.
    CopyR(matrix.get(), m, n, rows, DataOf<T>(r, i, rows * n));
    if (mode == 2) return info;
    const bool whole = CallStoppably([&] {
      Fortran<T>::orgqr(&m, &columns, &k, matrix.get(), &m, tau.get(), work.get(), &work_size,
                        &info);
    });
    if (!whole) return 0;
    Transpose(matrix.get(), columns, m, DataOf<T>(args.out(0), i, q_size));
    return info;
  });
}

struct Entry {
  absl::Status (*float32)(const KernelArgs&, ForEach);
  absl::Status (*float64)(const KernelArgs&, ForEach);
};

constexpr absl::string_view kOperators[] = {"solve", "cholesky", "eigh",    "eigvalsh", "svd",
                                            "qr",    "eig",      "eigvals", "cofactors"};
constexpr Entry kEntries[] = {{Solve<float>, Solve<double>},
                              {Cholesky<float>, Cholesky<double>},
                              {Eigh<float>, Eigh<double>},
                              {Eigh<float>, Eigh<double>},
                              {Svd<float>, Svd<double>},
                              {Qr<float>, Qr<double>},
                              {Eig<float>, Eig<double>},
                              {Eig<float>, Eig<double>},
                              {CofactorsOfFloat32, CofactorsOfFloat64}};

}  // namespace

absl::Span<const absl::string_view> Operators() { return kOperators; }

absl::Status Failure(const KernelArgs& args, const char* meaning, int code, int64_t i,
                     int64_t count) {
  return ChainerxError("[", args.op.name, "] expects ", meaning, "; LAPACK's code is ", code,
                       count > 1 ? absl::StrCat(" for matrix ", i) : "");
}

absl::Status ForAll(const KernelArgs& args, ForEach for_each, int64_t count, int64_t work,
                    const char* meaning, absl::FunctionRef<int(int64_t)> decompose) {
  std::vector<int> codes(count);
  for_each(count, work, [&](int64_t i) {
    if (!StopRequested()) codes[i] = decompose(i);
  });
  CHX_RETURN_IF_ERROR(CheckNotStopped(args.op.name));
  for (int64_t i = 0; i < count; ++i) {
    if (codes[i] == 0) continue;
    if (codes[i] == kNoMemory) return MemoryError("[", args.op.name, "] out of memory on the host");
    if (codes[i] == kTooLarge) {
      return ValueError("[", args.op.name, "] expects smaller matrices, got ",
                        args.in(0).shape.ToString());
    }
    if (codes[i] == kComplex) {
      return ChainerxError(
          "[", args.op.name, "] expects matrices with real eigenvalues, got complex ones",
          count > 1 ? absl::StrCat(" for matrix ", i) : "", "; there is no complex dtype");
    }
    return Failure(args, meaning, codes[i], i, count);
  }
  return absl::OkStatus();
}

Finite MustBeFinite(const KernelArgs& args) {
  const absl::string_view op = args.op.name;
  if (op == "svd" || op == "eig" || op == "eigvals") return Finite::kAll;
  if (op != "eigh" && op != "eigvalsh") return Finite::kNone;
  return args.attrs[0].AsInt() % 2 == 0 ? Finite::kLower : Finite::kUpper;
}

absl::Status NotFinite(const KernelArgs& args, double value, int64_t i, int64_t count) {
  return ChainerxError("[", args.op.name, "] expects finite elements, got ",
                       std::isnan(value) ? "nan"
                       : value > 0       ? "inf"
                                         : "-inf",
                       count > 1 ? absl::StrCat(" in matrix ", i) : "");
}

std::vector<int64_t> Sources(absl::Span<const int64_t> batch, absl::Span<const int64_t> own,
                             int64_t count) {
  std::vector<int64_t> sources(count);
  for (int64_t i = 0; i < count; ++i) {
    if (i % kAsk == 0 && StopRequested()) break;
    int64_t rest = i;
    int64_t stride = 1;
    for (size_t d = 0; d < own.size(); ++d) {
      const int64_t dim = own[own.size() - 1 - d];
      const int64_t size = batch[batch.size() - 1 - d];
      if (dim > 1) sources[i] += rest % size * stride;
      stride *= dim;
      rest /= size;
    }
  }
  return sources;
}

absl::Status Run(const KernelArgs& args, ForEach for_each) {
  for (const KernelTensor& input : args.inputs) {
    for (const int64_t dim : input.shape) {
      if (dim >= INT32_MAX) {
        return ValueError("[", args.op.name, "] expects dimensions below 2^31, got ",
                          input.shape.ToString());
      }
    }
  }
  const auto* const found = std::find(std::begin(kOperators), std::end(kOperators), args.op.name);
  const Entry& entry = kEntries[found - kOperators];
  return (args.out(0).dtype == Dtype::kFloat64 ? entry.float64 : entry.float32)(args, for_each);
}

}  // namespace chx::server::lapack
