#include "server/cuda/vendor/solver_library.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "ops/error.h"
#include "server/cuda/loops/kernel_stream.h"
#include "server/cuda/vendor/library.h"

namespace chx::server::cuda {
namespace {

// For smaller matrices a CPU is assumed to be faster; not measured yet.
constexpr int64_t kSmallest = 128;
// So many matrices of a stack at a time, which bounds the workspace.
constexpr int64_t kMaxPart = 1 << 14;

bool LoadAll(void* library, SolverLibrary* solver) {
#define CHX_LOAD_S(p, name) LoadFunction(library, "cusolverDnS" #name, &solver->float32.name)&&
#define CHX_LOAD_D(p, name) LoadFunction(library, "cusolverDnD" #name, &solver->float64.name)&&
  return CHX_SOLVER_FUNCTIONS(CHX_LOAD_S, S) CHX_SOLVER_FUNCTIONS(CHX_LOAD_D, D)
             LoadFunction(library, "cusolverDnCreate", &solver->create) &&
         LoadFunction(library, "cusolverDnDestroy", &solver->destroy) &&
         LoadFunction(library, "cusolverDnSetStream", &solver->set_stream) &&
         LoadFunction(library, "cusolverDnCreateSyevjInfo", &solver->create_syevj) &&
         LoadFunction(library, "cusolverDnDestroySyevjInfo", &solver->destroy_syevj) &&
         LoadFunction(library, "cusolverDnCreateGesvdjInfo", &solver->create_gesvdj) &&
         LoadFunction(library, "cusolverDnDestroyGesvdjInfo", &solver->destroy_gesvdj);
#undef CHX_LOAD_S
#undef CHX_LOAD_D
}

bool Load(void* library, SolverLibrary* solver) {
  const char* const smallest = std::getenv("CHXD_CUSOLVER_SMALLEST");
  if (smallest == nullptr || !absl::SimpleAtoi(smallest, &solver->smallest)) {
    solver->smallest = kSmallest;
  }
  return LoadAll(library, solver);
}

// fn(functions, tag) for the dtype's type.
template <typename Fn>
absl::Status Visit(const SolverLibrary& library, Dtype dtype, Fn&& fn) {
  return dtype == Dtype::kFloat64 ? fn(library.float64, double()) : fn(library.float32, float());
}

template <typename T>
T* At(const Matrices& matrices, int64_t i) {
  return static_cast<T*>(matrices.data) + i * matrices.stride;
}

}  // namespace

absl::StatusOr<const SolverLibrary*> OpenSolver() {
  static const auto* const result = new absl::StatusOr<const SolverLibrary*>(
      OpenFunctions({"cuSOLVER",
                     "all decompositions are the host's",
                     "CHXD_CUSOLVER",
                     {"libcusolver.so.12", "libcusolver.so.11"}},
                    Load));
  return *result;
}

CudaSolver::~CudaSolver() {
  if (syevj_ != nullptr) library_->destroy_syevj(syevj_);
  if (gesvdj_ != nullptr) library_->destroy_gesvdj(gesvdj_);
  if (handle_ != nullptr) library_->destroy(handle_);
}

int64_t CudaSolver::smallest() const {
  const absl::StatusOr<const SolverLibrary*> library = OpenSolver();
  return library.ok() ? (*library)->smallest : INT64_MAX;
}

absl::Status CudaSolver::Check(const char* what, cusolverStatus_t status) const {
  if (status == CUSOLVER_STATUS_SUCCESS) return absl::OkStatus();
  return DeviceError("cuda: ", what, ": cuSOLVER's status is ", static_cast<int>(status));
}

absl::Status CudaSolver::Open(const KernelArgs& args) {
  StreamOf(args).handle();  // makes its device current
  return WithRoom(StreamOf(args), [this] { return Open(); });
}

absl::Status CudaSolver::Open() {
  CHX_ASSIGN_OR_RETURN(library_, OpenSolver());
  if (handle_ == nullptr) {
    cusolverDnHandle_t handle = nullptr;
    const cusolverStatus_t made = library_->create(&handle);
    if (made == CUSOLVER_STATUS_ALLOC_FAILED || made == CUSOLVER_STATUS_NOT_INITIALIZED) {
      return MemoryError("cuda: cusolverDnCreate: cuSOLVER's status is ", static_cast<int>(made),
                         "; the device may have no memory left");
    }
    CHX_RETURN_IF_ERROR(Check("cusolverDnCreate", made));
    const absl::Status set = Check("cusolverDnSetStream", library_->set_stream(handle, stream_));
    if (!set.ok()) {
      library_->destroy(handle);
      return set;
    }
    handle_ = handle;
  }
  if (syevj_ == nullptr) {
    CHX_RETURN_IF_ERROR(Check("cusolverDnCreateSyevjInfo", library_->create_syevj(&syevj_)));
  }
  if (gesvdj_ == nullptr) {
    CHX_RETURN_IF_ERROR(Check("cusolverDnCreateGesvdjInfo", library_->create_gesvdj(&gesvdj_)));
  }
  return absl::OkStatus();
}

template <typename T, typename Query, typename Run>
absl::Status CudaSolver::ForAll(const KernelArgs& args, const char* what, int64_t count,
                                Query&& query, Run&& run) {
  int size = 0;
  CHX_RETURN_IF_ERROR(Check(what, query(&size)));
  CHX_ASSIGN_OR_RETURN(void* const memory, args.scratch.Allocate(std::max(1, size) * sizeof(T)));
  for (int64_t i = 0; i < count; ++i) {
    CHX_RETURN_IF_ERROR(Check(what, run(i, static_cast<T*>(memory), size)));
  }
  return StreamOf(args).Launched();
}

template <typename T, typename Query, typename Run>
absl::Status CudaSolver::ForParts(const KernelArgs& args, const char* what, int64_t count,
                                  Query&& query, Run&& run) {
  const auto largest = static_cast<int>(std::min(count, kMaxPart));
  int size = 0;
  CHX_RETURN_IF_ERROR(Check(what, query(largest, &size)));
  CHX_ASSIGN_OR_RETURN(void* const memory, args.scratch.Allocate(std::max(1, size) * sizeof(T)));
  for (int64_t first = 0; first < count; first += largest) {
    const auto part = static_cast<int>(std::min<int64_t>(largest, count - first));
    CHX_RETURN_IF_ERROR(Check(what, run(first, part, static_cast<T*>(memory), size)));
  }
  return StreamOf(args).Launched();
}

absl::Status CudaSolver::Lu(const KernelArgs& args, int n, const Matrices& a, int* pivots,
                            int* info) {
  CHX_RETURN_IF_ERROR(Open(args));
  return Visit(*library_, a.dtype, [&](const auto& f, auto zero) {
    using T = decltype(zero);
    return ForAll<T>(
        args, "getrf", a.count,
        [&](int* size) { return f.getrf_bufferSize(handle_, n, n, At<T>(a, 0), n, size); },
        [&](int64_t i, T* work, int) {
          return f.getrf(handle_, n, n, At<T>(a, i), n, work, pivots + i * n, info + i);
        });
  });
}

absl::Status CudaSolver::SolveTransposed(const KernelArgs& args, int n, int k, const Matrices& lu,
                                         const int* pivots, const Matrices& b, int* info) {
  CHX_RETURN_IF_ERROR(Open(args));
  return Visit(*library_, b.dtype, [&](const auto& f, auto zero) -> absl::Status {
    using T = decltype(zero);
    for (int64_t i = 0; i < b.count; ++i) {
      CHX_RETURN_IF_ERROR(Check("getrs", f.getrs(handle_, CUBLAS_OP_T, n, k, At<T>(lu, i), n,
                                                 pivots + i * n, At<T>(b, i), n, info + i)));
    }
    return StreamOf(args).Launched();
  });
}

// This function expects the addresses of the matrices, in device memory.
template <typename T, typename Functions>
absl::Status CudaSolver::CholeskyAtOnce(const KernelArgs& args, const Functions& f, int n,
                                        const Matrices& a, int* info) {
  std::vector<T*> addresses(a.count);
  for (int64_t i = 0; i < a.count; ++i) addresses[i] = At<T>(a, i);
  const size_t bytes = addresses.size() * sizeof(T*);
  CHX_ASSIGN_OR_RETURN(void* const memory, args.scratch.Allocate(bytes));
  CHX_RETURN_IF_ERROR(args.stream.CopyIn(memory, addresses.data(), bytes));
  auto* const there = static_cast<T**>(memory);
  for (int64_t first = 0; first < a.count; first += kMaxPart) {
    const auto part = static_cast<int>(std::min(kMaxPart, a.count - first));
    CHX_RETURN_IF_ERROR(Check(
        "potrfBatched",
        f.potrfBatched(handle_, CUBLAS_FILL_MODE_UPPER, n, there + first, n, info + first, part)));
  }
  return StreamOf(args).Launched();
}

absl::Status CudaSolver::Cholesky(const KernelArgs& args, int n, const Matrices& a, int* info) {
  CHX_RETURN_IF_ERROR(Open(args));
  return Visit(*library_, a.dtype, [&](const auto& f, auto zero) {
    using T = decltype(zero);
    if (RunsAtOnce(n, n, a.count)) return CholeskyAtOnce<T>(args, f, n, a, info);
    constexpr cublasFillMode_t kUpper = CUBLAS_FILL_MODE_UPPER;
    return ForAll<T>(
        args, "potrf", a.count,
        [&](int* size) { return f.potrf_bufferSize(handle_, kUpper, n, At<T>(a, 0), n, size); },
        [&](int64_t i, T* work, int size) {
          return f.potrf(handle_, kUpper, n, At<T>(a, i), n, work, size, info + i);
        });
  });
}

absl::Status CudaSolver::Qr(const KernelArgs& args, int m, int n, const Matrices& a, void* tau,
                            int* info) {
  CHX_RETURN_IF_ERROR(Open(args));
  return Visit(*library_, a.dtype, [&](const auto& f, auto zero) {
    using T = decltype(zero);
    return ForAll<T>(
        args, "geqrf", a.count,
        [&](int* size) { return f.geqrf_bufferSize(handle_, m, n, At<T>(a, 0), m, size); },
        [&](int64_t i, T* work, int size) {
          return f.geqrf(handle_, m, n, At<T>(a, i), m, static_cast<T*>(tau) + i * std::min(m, n),
                         work, size, info + i);
        });
  });
}

absl::Status CudaSolver::FormQ(const KernelArgs& args, int m, int columns, int reflectors,
                               const Matrices& a, const void* tau, int* info) {
  CHX_RETURN_IF_ERROR(Open(args));
  return Visit(*library_, a.dtype, [&](const auto& f, auto zero) {
    using T = decltype(zero);
    const T* const taus = static_cast<const T*>(tau);
    return ForAll<T>(
        args, "orgqr", a.count,
        [&](int* size) {
          return f.orgqr_bufferSize(handle_, m, columns, reflectors, At<T>(a, 0), m, taus, size);
        },
        [&](int64_t i, T* work, int size) {
          return f.orgqr(handle_, m, columns, reflectors, At<T>(a, i), m, taus + i * reflectors,
                         work, size, info + i);
        });
  });
}

absl::Status CudaSolver::Eigh(const KernelArgs& args, bool vectors, bool upper, int n,
                              const Matrices& a, void* w, int* info) {
  CHX_RETURN_IF_ERROR(Open(args));
  const cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const cublasFillMode_t half = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  return Visit(*library_, a.dtype, [&](const auto& f, auto zero) {
    using T = decltype(zero);
    T* const values = static_cast<T*>(w);
    if (RunsAtOnce(n, n, a.count)) {
      return ForParts<T>(
          args, "syevjBatched", a.count,
          [&](int count, int* size) {
            return f.syevjBatched_bufferSize(handle_, mode, half, n, At<T>(a, 0), n, values, size,
                                             syevj_, count);
          },
          [&](int64_t first, int count, T* work, int size) {
            return f.syevjBatched(handle_, mode, half, n, At<T>(a, first), n, values + first * n,
                                  work, size, info + first, syevj_, count);
          });
    }
    return ForAll<T>(
        args, "syevd", a.count,
        [&](int* size) {
          return f.syevd_bufferSize(handle_, mode, half, n, At<T>(a, 0), n, values, size);
        },
        [&](int64_t i, T* work, int size) {
          return f.syevd(handle_, mode, half, n, At<T>(a, i), n, values + i * n, work, size,
                         info + i);
        });
  });
}

absl::Status CudaSolver::Svd(const KernelArgs& args, char job, int m, int n, const Matrices& a,
                             void* s, const Matrices& u, const Matrices& vt, int* info) {
  CHX_RETURN_IF_ERROR(Open(args));
  const auto wanted = static_cast<signed char>(job);
  return Visit(*library_, a.dtype, [&](const auto& f, auto zero) {
    using T = decltype(zero);
    return ForAll<T>(
        args, "gesvd", a.count, [&](int* size) { return f.gesvd_bufferSize(handle_, m, n, size); },
        [&](int64_t i, T* work, int size) {
          return f.gesvd(handle_, wanted, wanted, m, n, At<T>(a, i), m, static_cast<T*>(s) + i * n,
                         At<T>(u, i), m, At<T>(vt, i), n, work, size, nullptr, info + i);
        });
  });
}

absl::Status CudaSolver::SmallSvd(const KernelArgs& args, bool vectors, int m, int n,
                                  const Matrices& a, void* s, const Matrices& u, const Matrices& v,
                                  int* info) {
  CHX_RETURN_IF_ERROR(Open(args));
  const cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const int k = std::min(m, n);
  return Visit(*library_, a.dtype, [&](const auto& f, auto zero) {
    using T = decltype(zero);
    T* const values = static_cast<T*>(s);
    return ForParts<T>(
        args, "gesvdjBatched", a.count,
        [&](int count, int* size) {
          return f.gesvdjBatched_bufferSize(handle_, mode, m, n, At<T>(a, 0), m, values,
                                            At<T>(u, 0), m, At<T>(v, 0), n, size, gesvdj_, count);
        },
        [&](int64_t first, int count, T* work, int size) {
          return f.gesvdjBatched(handle_, mode, m, n, At<T>(a, first), m, values + first * k,
                                 At<T>(u, first), m, At<T>(v, first), n, work, size, info + first,
                                 gesvdj_, count);
        });
  });
}

}  // namespace chx::server::cuda
