// cuSOLVER, opened when the first decomposition needs it (library.h).
#ifndef CHX_SERVER_CUDA_VENDOR_SOLVER_LIBRARY_H_
#define CHX_SERVER_CUDA_VENDOR_SOLVER_LIBRARY_H_

#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cuda/vendor/solver.h"

namespace chx::server::cuda {

// The functions that we call, for float and for double.
#define CHX_SOLVER_FUNCTIONS(F, p) \
  F(p, getrf_bufferSize)           \
  F(p, getrf)                      \
  F(p, getrs)                      \
  F(p, potrf_bufferSize)           \
  F(p, potrf)                      \
  F(p, potrfBatched)               \
  F(p, geqrf_bufferSize)           \
  F(p, geqrf)                      \
  F(p, orgqr_bufferSize)           \
  F(p, orgqr)                      \
  F(p, syevd_bufferSize)           \
  F(p, syevd)                      \
  F(p, syevjBatched_bufferSize)    \
  F(p, syevjBatched)               \
  F(p, gesvd_bufferSize)           \
  F(p, gesvd)                      \
  F(p, gesvdjBatched_bufferSize)   \
  F(p, gesvdjBatched)

template <typename T>
struct SolverFunctions;
#define CHX_DECLARE(p, name) decltype(&cusolverDn##p##name) name = nullptr;
template <>
struct SolverFunctions<float> {
  CHX_SOLVER_FUNCTIONS(CHX_DECLARE, S)
};
template <>
struct SolverFunctions<double> {
  CHX_SOLVER_FUNCTIONS(CHX_DECLARE, D)
};
#undef CHX_DECLARE

// Immutable; safe from any thread.
struct SolverLibrary {
  decltype(&cusolverDnCreate) create = nullptr;
  decltype(&cusolverDnDestroy) destroy = nullptr;
  decltype(&cusolverDnSetStream) set_stream = nullptr;
  decltype(&cusolverDnCreateSyevjInfo) create_syevj = nullptr;
  decltype(&cusolverDnDestroySyevjInfo) destroy_syevj = nullptr;
  decltype(&cusolverDnCreateGesvdjInfo) create_gesvdj = nullptr;
  decltype(&cusolverDnDestroyGesvdjInfo) destroy_gesvdj = nullptr;
  SolverFunctions<float> float32;
  SolverFunctions<double> float64;
  int64_t smallest = 0;
};

// The outcome of the first call is kept. CHXD_CUSOLVER names the file, or is "off";
// CHXD_CUSOLVER_SMALLEST is Solver::smallest().
absl::StatusOr<const SolverLibrary*> OpenSolver();

// A handle for one stream. Matrices of a stack are decomposed one after the other, unless it
// RunsAtOnce.
class CudaSolver : public Solver {
 public:
  CudaSolver() = default;
  ~CudaSolver() override;
  CudaSolver(const CudaSolver&) = delete;
  CudaSolver& operator=(const CudaSolver&) = delete;

  // Before all other calls.
  void set_stream(cudaStream_t stream) { stream_ = stream; }
  int64_t smallest() const override;
  absl::Status Lu(const KernelArgs& args, int n, const Matrices& a, int* pivots,
                  int* info) override;
  absl::Status SolveTransposed(const KernelArgs& args, int n, int k, const Matrices& lu,
                               const int* pivots, const Matrices& b, int* info) override;
  absl::Status Cholesky(const KernelArgs& args, int n, const Matrices& a, int* info) override;
  absl::Status Qr(const KernelArgs& args, int m, int n, const Matrices& a, void* tau,
                  int* info) override;
  absl::Status FormQ(const KernelArgs& args, int m, int columns, int reflectors, const Matrices& a,
                     const void* tau, int* info) override;
  absl::Status Eigh(const KernelArgs& args, bool vectors, bool upper, int n, const Matrices& a,
                    void* w, int* info) override;
  absl::Status Svd(const KernelArgs& args, char job, int m, int n, const Matrices& a, void* s,
                   const Matrices& u, const Matrices& vt, int* info) override;
  absl::Status SmallSvd(const KernelArgs& args, bool vectors, int m, int n, const Matrices& a,
                        void* s, const Matrices& u, const Matrices& v, int* info) override;

 private:
  absl::Status Open(const KernelArgs& args);
  absl::Status Open();
  absl::Status Check(const char* what, cusolverStatus_t status) const;
  // query(&size), memory for so many elements, and run(i, memory, size) for each of `count`.
  template <typename T, typename Query, typename Run>
  absl::Status ForAll(const KernelArgs& args, const char* what, int64_t count, Query&& query,
                      Run&& run);
  // query(count, &size) and run(first, count, memory, size) for parts of a stack.
  template <typename T, typename Query, typename Run>
  absl::Status ForParts(const KernelArgs& args, const char* what, int64_t count, Query&& query,
                        Run&& run);
  template <typename T, typename Functions>
  absl::Status CholeskyAtOnce(const KernelArgs& args, const Functions& f, int n, const Matrices& a,
                              int* info);

  cudaStream_t stream_ = nullptr;
  const SolverLibrary* library_ = nullptr;
  cusolverDnHandle_t handle_ = nullptr;
  // As the library makes them: as precise as the dtype, results sorted.
  syevjInfo_t syevj_ = nullptr;
  gesvdjInfo_t gesvdj_ = nullptr;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_SOLVER_LIBRARY_H_
