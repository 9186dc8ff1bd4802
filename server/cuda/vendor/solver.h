// What this backend's kernels need of cuSOLVER. No CUDA headers, as in kernel_stream.h.
#ifndef CHX_SERVER_CUDA_VENDOR_SOLVER_H_
#define CHX_SERVER_CUDA_VENDOR_SOLVER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "ops/dtype.h"
#include "server/engine/kernel.h"

namespace chx::server::cuda {

// Column-major matrices in device memory, float32 or float64, `stride` elements apart.
struct Matrices {
  Dtype dtype = Dtype::kFloat32;
  int64_t count = 1;
  void* data = nullptr;
  int64_t stride = 0;
};

// LAPACK's functions for stacks of matrices, in its terms and in place. `info` (count) is in device
// memory and receives LAPACK's codes. Calls are asynchronous, and made by one thread at a time.
// Working memory is args.scratch's.
class Solver {
 public:
  virtual ~Solver() = default;

  // The host decomposes matrices with fewer rows or columns,
  virtual int64_t smallest() const = 0;
  // except for stacks of small matrices that have at least as many of them in all. Cholesky, Eigh
  // and SmallSvd decompose all matrices of such a stack at once.
  static constexpr int kLargestOfStack = 32;
  bool RunsAtOnce(int64_t m, int64_t n, int64_t count) const {
    return count > 1 && m <= kLargestOfStack && n <= kLargestOfStack &&
           count * (m < n ? m : n) >= smallest();
  }

  // getrf of (n, n); pivots (count, n).
  virtual absl::Status Lu(const KernelArgs& args, int n, const Matrices& a, int* pivots,
                          int* info) = 0;
  // getrs of a transposed: b (n, k) becomes x.
  virtual absl::Status SolveTransposed(const KernelArgs& args, int n, int k, const Matrices& lu,
                                       const int* pivots, const Matrices& b, int* info) = 0;
  // potrf of the upper half of (n, n).
  virtual absl::Status Cholesky(const KernelArgs& args, int n, const Matrices& a, int* info) = 0;
  // geqrf of (m, n); tau (count, min(m, n)).
  virtual absl::Status Qr(const KernelArgs& args, int m, int n, const Matrices& a, void* tau,
                          int* info) = 0;
  // orgqr: the first `columns` columns of Q (m, m) from `reflectors` of them and tau.
  virtual absl::Status FormQ(const KernelArgs& args, int m, int columns, int reflectors,
                             const Matrices& a, const void* tau, int* info) = 0;
  // syevd of the upper or lower half of (n, n), which become eigenvectors if wanted; w (count, n).
  virtual absl::Status Eigh(const KernelArgs& args, bool vectors, bool upper, int n,
                            const Matrices& a, void* w, int* info) = 0;
  // gesvd of (m, n) with m >= n, which are lost. job, for both sides: 'N' none, 'S' u (m, n), 'A' u
  // (m, m); vt (n, n); s (count, n).
  virtual absl::Status Svd(const KernelArgs& args, char job, int m, int n, const Matrices& a,
                           void* s, const Matrices& u, const Matrices& vt, int* info) = 0;
  // The same for a stack that RunsAtOnce, m >= n or not: all of u (m, m) and of v (n, n), which is
  // not transposed, and s (count, min(m, n)). Without `vectors` u and v are only written to.
  virtual absl::Status SmallSvd(const KernelArgs& args, bool vectors, int m, int n,
                                const Matrices& a, void* s, const Matrices& u, const Matrices& v,
                                int* info) = 0;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_SOLVER_H_
