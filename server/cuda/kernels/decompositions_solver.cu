// Decompositions by cuSOLVER, whose matrices are column-major. A matrix in C order is there the
// transposed matrix. Some operators work on that one, others on a transposed copy.
#include "server/cuda/kernels/decompositions_solver.h"

#include <algorithm>
#include <vector>

#include "ops/error.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/first_invalid.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/matmul_operands.h"
#include "server/lapack/decompositions.h"

namespace chx::server::cuda {
namespace {

using kernels::Transposed;

int Rows(const KernelTensor& tensor) { return static_cast<int>(tensor.shape[tensor.ndim() - 2]); }
int Columns(const KernelTensor& tensor) { return static_cast<int>(tensor.shape.back()); }

int64_t CountOf(const KernelTensor& tensor) {
  return tensor.size() / (int64_t{Rows(tensor)} * Columns(tensor));
}

absl::StatusOr<KernelTensor> DenseCopy(const KernelArgs& args, const KernelTensor& tensor) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor copy, NewTensor(args, tensor.dtype, tensor.shape));
  CHX_RETURN_IF_ERROR(Copy(args, tensor, copy));
  return copy;
}

// Dense matrices of `size` elements each.
Matrices Stack(const KernelTensor& tensor, int64_t size) {
  return {tensor.dtype, tensor.size() / size, tensor.data, size};
}

// LAPACK's codes of `count` matrices, with zeros.
absl::StatusOr<int*> NewInfo(const KernelArgs& args, int64_t count) {
  CHX_ASSIGN_OR_RETURN(void* const memory, args.scratch.Allocate(count * sizeof(int)));
  CHX_RETURN_IF_ERROR(args.stream.Zero(memory, count * sizeof(int)));
  return static_cast<int*>(memory);
}

// Waits for the codes, and makes an error of the first that is not zero.
absl::Status CheckInfo(const KernelArgs& args, const char* meaning, const int* info,
                       int64_t count) {
  std::vector<int> codes(count);
  CHX_RETURN_IF_ERROR(args.stream.CopyOut(codes.data(), info, count * sizeof(int)));
  for (int64_t i = 0; i < count; ++i) {
    if (codes[i] != 0) return lapack::Failure(args, meaning, codes[i], i, count);
  }
  return absl::OkStatus();
}

template <typename T>
struct FiniteBody {
  const T* a;
  lapack::Finite finite;
  int64_t columns;
  FirstInvalid invalid;

  CHX_HD void operator()(int64_t p) const {
    if (a[p] - a[p] == T(0)) return;  // x - x is NaN for infinities and NaN
    const int64_t column = p % columns;
    const int64_t row = p / columns % columns;  // of a half, which a square matrix has
    if (finite == lapack::Finite::kLower ? column <= row
                                         : finite == lapack::Finite::kAll || column >= row) {
      invalid.Report(p);
    }
  }
};

// Waits for the stream (first_invalid.h).
template <typename T>
absl::Status CheckFiniteOf(const KernelArgs& args, lapack::Finite finite) {
  const KernelTensor& a = args.in(0);
  const T* const data = reinterpret_cast<const T*>(a.data);
  CHX_ASSIGN_OR_RETURN(const FirstInvalid invalid, FirstInvalid::New(args, a.size()));
  CHX_RETURN_IF_ERROR(ForEach(args, a.size(), FiniteBody<T>{data, finite, Columns(a), invalid}));
  CHX_ASSIGN_OR_RETURN(const int64_t first, invalid.Read(args));
  if (first < 0) return absl::OkStatus();
  T value = 0;
  CHX_RETURN_IF_ERROR(args.stream.CopyOut(&value, data + first, sizeof(value)));
  const int64_t size = int64_t{Rows(a)} * Columns(a);
  return lapack::NotFinite(args, static_cast<double>(value), first / size, CountOf(a));
}

absl::Status CheckFinite(const KernelArgs& args) {
  const lapack::Finite finite = lapack::MustBeFinite(args);
  if (finite == lapack::Finite::kNone) return absl::OkStatus();
  return (args.in(0).dtype == Dtype::kFloat64 ? CheckFiniteOf<double>
                                              : CheckFiniteOf<float>)(args, finite);
}

// Copies the lower or upper triangle of each (rows, columns) matrix of `a`. Its rows (`by_columns`:
// its columns) are `leading` elements apart, and matrices `stride` elements.
template <typename T>
struct TriangleBody {
  const T* a;
  T* out;
  int64_t rows;
  int64_t columns;
  int64_t leading;
  int64_t stride;
  bool by_columns;
  bool upper;

  CHX_HD void operator()(int64_t p) const {
    const int64_t column = p % columns;
    const int64_t row = p / columns % rows;
    const T* const matrix = a + p / columns / rows * stride;
    const bool inside = upper ? column >= row : column <= row;
    out[p] = !inside      ? T(0)
             : by_columns ? matrix[column * leading + row]
                          : matrix[row * leading + column];
  }
};

template <typename T>
absl::Status CopyTriangleOf(const KernelArgs& args, const KernelTensor& a, int64_t leading,
                            int64_t stride, bool by_columns, bool upper, const KernelTensor& out) {
  return ForEach(args, out.size(),
                 TriangleBody<T>{reinterpret_cast<const T*>(a.data), reinterpret_cast<T*>(out.data),
                                 Rows(out), Columns(out), leading, stride, by_columns, upper});
}

absl::Status CopyTriangle(const KernelArgs& args, const KernelTensor& a, int64_t leading,
                          int64_t stride, bool by_columns, bool upper, const KernelTensor& out) {
  return (out.dtype == Dtype::kFloat64
              ? CopyTriangleOf<double>
              : CopyTriangleOf<float>)(args, a, leading, stride, by_columns, upper, out);
}

absl::Status Solve(const KernelArgs& args, Solver* solver) {
  const KernelTensor& a = args.in(0);
  const KernelTensor& b = args.in(1);
  const KernelTensor& x = args.out(0);
  const int own = b.ndim() == a.ndim() - 1 ? 1 : 2;  // see the operator's rule
  const int n = Columns(a);
  const int k = own == 1 ? 1 : Columns(b);
  if (x.size() == 0) return absl::OkStatus();
  const int64_t square = int64_t{n} * n;
  CHX_ASSIGN_OR_RETURN(const KernelTensor copy, DenseCopy(args, a));
  const Matrices lu = Stack(copy, square);
  CHX_ASSIGN_OR_RETURN(int* const info, NewInfo(args, lu.count));
  CHX_ASSIGN_OR_RETURN(void* const pivots, args.scratch.Allocate(lu.count * n * sizeof(int)));
  CHX_RETURN_IF_ERROR(solver->Lu(args, n, lu, static_cast<int*>(pivots), info));
  CHX_RETURN_IF_ERROR(CheckInfo(args, lapack::kNotSingular, info, lu.count));

  // Right-hand sides by columns; in place if there is one for each matrix.
  KernelTensor columns = x;
  if (k == 1) {
    CHX_RETURN_IF_ERROR(Copy(args, b, columns));
  } else {
    CHX_ASSIGN_OR_RETURN(columns, NewTensor(args, x.dtype, Transposed(x).shape));
    CHX_RETURN_IF_ERROR(Copy(args, Transposed(b), columns));
  }
  const Matrices all = Stack(columns, int64_t{n} * k);
  CHX_ASSIGN_OR_RETURN(int* const solved, NewInfo(args, all.count));
  const auto batch = x.shape.span().subspan(0, x.ndim() - own);
  const std::vector<int64_t> sources =
      lapack::Sources(batch, a.shape.span().subspan(0, a.ndim() - 2), all.count);
  const char* const first = static_cast<const char*>(lu.data);
  const int64_t item = ItemSize(x.dtype);
  for (int64_t i = 0; i < all.count; ++i) {
    Matrices one = lu;
    one.count = 1;
    one.data = const_cast<char*>(first) + sources[i] * square * item;
    Matrices side = all;
    side.count = 1;
    side.data = columns.data + i * all.stride * item;
    CHX_RETURN_IF_ERROR(solver->SolveTransposed(
        args, n, k, one, static_cast<const int*>(pivots) + sources[i] * n, side, solved + i));
  }
  CHX_RETURN_IF_ERROR(CheckInfo(args, lapack::kNotSingular, solved, all.count));
  return k == 1 ? absl::OkStatus() : Copy(args, Transposed(columns), x);
}

absl::Status Cholesky(const KernelArgs& args, Solver* solver) {
  const int n = Columns(args.in(0));
  const int64_t square = int64_t{n} * n;
  CHX_ASSIGN_OR_RETURN(const KernelTensor copy, DenseCopy(args, args.in(0)));
  const Matrices a = Stack(copy, square);
  CHX_ASSIGN_OR_RETURN(int* const info, NewInfo(args, a.count));
  // The upper half in column-major order is the lower half in C order.
  CHX_RETURN_IF_ERROR(solver->Cholesky(args, n, a, info));
  CHX_RETURN_IF_ERROR(CheckInfo(args, lapack::kPositiveDefinite, info, a.count));
  return CopyTriangle(args, copy, n, square, false, false, args.out(0));
}

absl::Status Eigh(const KernelArgs& args, Solver* solver) {
  const bool vectors = args.outputs.size() > 1;
  const int n = Columns(args.in(0));
  CHX_ASSIGN_OR_RETURN(const KernelTensor copy, DenseCopy(args, args.in(0)));
  const Matrices a = Stack(copy, int64_t{n} * n);
  CHX_ASSIGN_OR_RETURN(int* const info, NewInfo(args, a.count));
  const bool lower = args.attrs[0].AsInt() % 2 == 0;  // the upper half in column-major order
  CHX_RETURN_IF_ERROR(solver->Eigh(args, vectors, lower, n, a, args.out(0).data, info));
  CHX_RETURN_IF_ERROR(CheckInfo(args, lapack::kConverge, info, a.count));
  return vectors ? Copy(args, Transposed(copy), args.out(1)) : absl::OkStatus();
}

// The first `lines` rows of each matrix.
KernelTensor FirstRows(KernelTensor tensor, int64_t lines) {
  tensor.shape[tensor.ndim() - 2] = lines;
  return tensor;
}

absl::Status SvdAtOnce(const KernelArgs& args, Solver* solver) {
  const KernelTensor& a = args.in(0);
  const bool vectors = args.attrs[1].AsBool();
  const int m = Rows(a);
  const int n = Columns(a);
  CHX_ASSIGN_OR_RETURN(const KernelTensor by_columns, DenseCopy(args, Transposed(a)));
  const Matrices matrices = Stack(by_columns, int64_t{m} * n);
  CHX_ASSIGN_OR_RETURN(int* const info, NewInfo(args, matrices.count));
  // In column-major order, so the rows of these arrays are singular vectors.
  Shape shape = a.shape;
  shape[a.ndim() - 1] = m;
  shape[a.ndim() - 2] = m;
  CHX_ASSIGN_OR_RETURN(const KernelTensor u, NewTensor(args, a.dtype, shape));
  shape[a.ndim() - 1] = n;
  shape[a.ndim() - 2] = n;
  CHX_ASSIGN_OR_RETURN(const KernelTensor v, NewTensor(args, a.dtype, shape));
  CHX_RETURN_IF_ERROR(solver->SmallSvd(args, vectors, m, n, matrices,
                                       args.out(vectors ? 1 : 0).data, Stack(u, int64_t{m} * m),
                                       Stack(v, int64_t{n} * n), info));
  CHX_RETURN_IF_ERROR(CheckInfo(args, lapack::kConverge, info, matrices.count));
  if (!vectors) return absl::OkStatus();
  const KernelTensor& to_u = args.out(0);
  const KernelTensor& to_vh = args.out(2);
  CHX_RETURN_IF_ERROR(Copy(args, Transposed(FirstRows(u, Columns(to_u))), to_u));
  return Copy(args, FirstRows(v, Rows(to_vh)), to_vh);
}

// a = u s vh. In column-major order the same memory is a^T = vh^T s u^T. The library expects at
// least as many rows as columns, so it gets one or the other.
absl::Status Svd(const KernelArgs& args, Solver* solver) {
  const KernelTensor& a = args.in(0);
  if (solver->RunsAtOnce(Rows(a), Columns(a), CountOf(a))) return SvdAtOnce(args, solver);
  const bool vectors = args.attrs[1].AsBool();
  const bool full = args.attrs[0].AsBool();
  const bool wide = Columns(a) >= Rows(a);
  const int m = std::max(Rows(a), Columns(a));
  const int n = std::min(Rows(a), Columns(a));
  const KernelTensor& s = args.out(vectors ? 1 : 0);
  CHX_ASSIGN_OR_RETURN(const KernelTensor copy, DenseCopy(args, wide ? a : Transposed(a)));
  const Matrices matrices = Stack(copy, int64_t{m} * n);
  CHX_ASSIGN_OR_RETURN(int* const info, NewInfo(args, matrices.count));
  const auto run = [&](char job, const Matrices& u, const Matrices& vt) -> absl::Status {
    CHX_RETURN_IF_ERROR(solver->Svd(args, job, m, n, matrices, s.data, u, vt, info));
    return CheckInfo(args, lapack::kConverge, info, matrices.count);
  };
  if (!vectors) return run('N', {}, {});
  const int64_t u_size = int64_t{m} * (full ? m : n);
  const int64_t vt_size = int64_t{n} * n;
  const char job = full ? 'A' : 'S';
  if (wide) {
    // Its u in column-major order is our vh, and its vt is our u.
    return run(job, Stack(args.out(2), u_size), Stack(args.out(0), vt_size));
  }
  const KernelTensor u_by_columns = Transposed(args.out(0));
  CHX_ASSIGN_OR_RETURN(const KernelTensor u, NewTensor(args, a.dtype, u_by_columns.shape));
  CHX_ASSIGN_OR_RETURN(const KernelTensor vt,
                       NewTensor(args, a.dtype, Transposed(args.out(2)).shape));
  CHX_RETURN_IF_ERROR(run(job, Stack(u, u_size), Stack(vt, vt_size)));
  CHX_RETURN_IF_ERROR(Copy(args, Transposed(u), args.out(0)));
  return Copy(args, Transposed(vt), args.out(2));
}

absl::Status Qr(const KernelArgs& args, Solver* solver) {
  const KernelTensor& a = args.in(0);
  const int64_t mode = args.attrs[0].AsInt();  // 0: reduced, 1: complete, 2: r, 3: raw
  const int m = Rows(a);
  const int n = Columns(a);
  const int k = std::min(m, n);
  const int columns = mode == 1 ? m : k;  // of q
  const int lines = std::max(n, columns);
  const int64_t stride = int64_t{m} * lines;
  // In column-major order, with room for the columns of q.
  Shape shape = Transposed(a).shape;
  shape[shape.size() - 2] = lines;
  CHX_ASSIGN_OR_RETURN(const KernelTensor memory, NewTensor(args, a.dtype, shape));
  KernelTensor by_columns = memory;
  by_columns.shape[shape.size() - 2] = n;
  CHX_RETURN_IF_ERROR(Copy(args, Transposed(a), by_columns));
  const Matrices matrices = Stack(memory, stride);
  CHX_ASSIGN_OR_RETURN(int* const info, NewInfo(args, matrices.count));
  void* tau = nullptr;
  if (mode == 3) {
    tau = args.out(1).data;
  } else {
    CHX_ASSIGN_OR_RETURN(tau, args.scratch.Allocate(matrices.count * k * ItemSize(a.dtype)));
  }
  CHX_RETURN_IF_ERROR(solver->Qr(args, m, n, matrices, tau, info));
  CHX_RETURN_IF_ERROR(CheckInfo(args, "matrices", info, matrices.count));
  if (mode == 3) return Copy(args, by_columns, args.out(0));
  CHX_RETURN_IF_ERROR(
      CopyTriangle(args, memory, m, stride, true, true, args.out(mode == 2 ? 0 : 1)));
  if (mode == 2) return absl::OkStatus();
  CHX_RETURN_IF_ERROR(solver->FormQ(args, m, columns, k, matrices, tau, info));
  CHX_RETURN_IF_ERROR(CheckInfo(args, "matrices", info, matrices.count));
  KernelTensor q = memory;
  q.shape[shape.size() - 2] = columns;
  return Copy(args, Transposed(q), args.out(0));
}

struct Entry {
  absl::string_view op;
  absl::Status (*run)(const KernelArgs&, Solver*);
  bool at_once;  // if Solver::RunsAtOnce
};
constexpr Entry kEntries[] = {{"solve", Solve, false}, {"cholesky", Cholesky, true},
                              {"eigh", Eigh, true},    {"eigvalsh", Eigh, true},
                              {"svd", Svd, true},      {"qr", Qr, false}};

}  // namespace

bool Factorizes(absl::string_view op) {
  return std::any_of(std::begin(kEntries), std::end(kEntries),
                     [op](const Entry& entry) { return entry.op == op; });
}

bool IsWorthIt(absl::string_view op, const KernelTensor& a, const Solver& solver) {
  const int64_t rows = a.shape[a.ndim() - 2];
  const int64_t columns = a.shape.back();
  if (a.size() == 0) return false;
  if (std::min(rows, columns) >= solver.smallest()) return true;
  return std::any_of(std::begin(kEntries), std::end(kEntries),
                     [op](const Entry& entry) { return entry.op == op && entry.at_once; }) &&
         solver.RunsAtOnce(rows, columns, a.size() / (rows * columns));
}

absl::Status Factorize(const KernelArgs& args, Solver* solver) {
  for (const KernelTensor& input : args.inputs) {
    for (const int64_t dim : input.shape) {
      if (dim >= INT32_MAX) {
        return ValueError("[", args.op.name, "] expects dimensions below 2^31, got ",
                          input.shape.ToString());
      }
    }
  }
  CHX_RETURN_IF_ERROR(CheckFinite(args));
  for (const Entry& entry : kEntries) {
    if (entry.op == args.op.name) return entry.run(args, solver);
  }
  return MakeError(ErrorKind::kNotImplemented,
                   absl::StrCat("[", args.op.name, "] is no decomposition of cuSOLVER's"));
}

}  // namespace chx::server::cuda
