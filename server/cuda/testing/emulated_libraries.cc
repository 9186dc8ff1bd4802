#include "server/cuda/testing/emulated_libraries.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "ops/error.h"
#include "server/engine/backend.h"
#include "server/kernels/dispatch.h"
#include "server/lapack/fortran.h"

namespace chx::server::cuda {
namespace {

using lapack::Fortran;

std::atomic<int64_t> calls{0};
std::atomic<int64_t> stack_calls{0};

// A description that does not fit together, as the library answers it.
absl::Status BadParameter(const char* what) { return DeviceError("invalid argument of ", what); }

// The image's position of element k of window o, or -1. Written for itself, not as in windows.h.
int64_t PositionOf(const DnnWindows& w, int64_t o, int64_t k) {
  int64_t at[DnnWindows::kMaxDims];
  for (int d = w.ndim - 1; d >= 0; --d) {
    at[d] = o % w.counts[d] * w.stride[d] + k % w.kernel[d] - w.pad[d];
    o /= w.counts[d];
    k /= w.kernel[d];
    if (at[d] < 0 || at[d] >= w.image[d]) return -1;
  }
  int64_t position = 0;
  for (int d = 0; d < w.ndim; ++d) position = position * w.image[d] + at[d];
  return position;
}

int64_t Product(const int* dims, int ndim) {
  int64_t product = 1;
  for (int d = 0; d < ndim; ++d) product *= dims[d];
  return product;
}

// The library derives the features' shape from the rest and compares.
bool Consistent(const DnnWindows& w) {
  if (w.ndim != 2 && w.ndim != 3) return false;
  for (int d = 0; d < w.ndim; ++d) {
    if (w.stride[d] < 1 || w.kernel[d] < 1 || w.pad[d] < 0) return false;
    if (w.counts[d] != (w.image[d] + 2 * w.pad[d] - w.kernel[d]) / w.stride[d] + 1) return false;
  }
  return true;
}

template <typename T>
void ReferenceConvolution(const ConvCall& call) {
  using Sum = std::conditional_t<sizeof(T) == 8, double, float>;
  const DnnWindows& w = call.windows;
  const int64_t image = Product(w.image, w.ndim);
  const int64_t kernel = Product(w.kernel, w.ndim);
  const int64_t counts = Product(w.counts, w.ndim);
  const auto* const a = static_cast<const T*>(call.a);
  const auto* const b = static_cast<const T*>(call.b);
  T* const out = static_cast<T*>(call.out);
  const int64_t size = call.part == ConvPart::kFeatures ? call.samples * call.features * counts
                       : call.part == ConvPart::kImage  ? call.samples * call.channels * image
                                                        : call.features * call.channels * kernel;
  std::vector<Sum> sums(size);
  for (int64_t n = 0; n < call.samples; ++n) {
    for (int64_t f = 0; f < call.features; ++f) {
      for (int64_t c = 0; c < call.channels; ++c) {
        for (int64_t o = 0; o < counts; ++o) {
          for (int64_t k = 0; k < kernel; ++k) {
            const int64_t position = PositionOf(w, o, k);
            if (position < 0) continue;
            const int64_t at_image = (n * call.channels + c) * image + position;
            const int64_t at_weight = (f * call.channels + c) * kernel + k;
            const int64_t at_features = (n * call.features + f) * counts + o;
            const auto value = [](const T& x) { return static_cast<Sum>(kernels::Load(x)); };
            if (call.part == ConvPart::kFeatures) {
              sums[at_features] += value(a[at_image]) * value(b[at_weight]);
            } else if (call.part == ConvPart::kImage) {
              sums[at_image] += value(a[at_features]) * value(b[at_weight]);
            } else {
              sums[at_weight] += value(a[at_image]) * value(b[at_features]);
            }
          }
        }
      }
    }
  }
  for (int64_t i = 0; i < size; ++i) {
    if (call.accumulate) sums[i] += static_cast<Sum>(kernels::Load(out[i]));
    out[i] = kernels::Cast<T>(sums[i]);
  }
}

// decompose(i, T()) -> LAPACK's code, for each matrix.
template <typename Fn>
absl::Status ForAll(const Matrices& matrices, int* info, Fn&& decompose) {
  ++calls;
  for (int64_t i = 0; i < matrices.count; ++i) {
    if (matrices.dtype == Dtype::kFloat64) {
      info[i] = decompose(i, double());
    } else if (matrices.dtype == Dtype::kFloat32) {
      info[i] = decompose(i, float());
    } else {
      return BadParameter("a decomposition");
    }
  }
  return absl::OkStatus();
}

template <typename T>
T* At(const Matrices& matrices, int64_t i) {
  return static_cast<T*>(matrices.data) + i * matrices.stride;
}

}  // namespace

int64_t EmulatedLibraryCalls() { return calls; }
int64_t EmulatedStackCalls() { return stack_calls; }
void CountEmulatedCall() { ++calls; }

absl::StatusOr<bool> EmulatedDnn::Convolve(const KernelArgs& args, const ConvCall& call) {
  if (!Consistent(call.windows) || call.samples < 1 || call.channels < 1 || call.features < 1 ||
      call.a == nullptr || call.b == nullptr || call.out == nullptr) {
    return BadParameter("a convolution");
  }
  ++calls;
  // Something to choose from, as cuDNN offers it.
  const Algorithm algorithms[] = {{0, true, true, false, 0, int64_t{32} << 20},
                                  {1, true, true, true, 0, 1024}};
  const absl::optional<Algorithm> chosen = Choose(algorithms, args.stream.settings());
  if (!chosen.has_value()) return false;
  if (!args.scratch.Allocate(chosen->workspace).ok()) return false;
  kernels::VisitFloat(call.dtype,
                      [&](auto tag) { ReferenceConvolution<typename decltype(tag)::Type>(call); });
  return true;
}

absl::Status EmulatedSolver::Lu(const KernelArgs&, int n, const Matrices& a, int* pivots,
                                int* info) {
  return ForAll(a, info, [&](int64_t i, auto zero) {
    using T = decltype(zero);
    int code = 0;
    Fortran<T>::getrf(&n, &n, At<T>(a, i), &n, pivots + i * n, &code);
    return code;
  });
}

absl::Status EmulatedSolver::SolveTransposed(const KernelArgs&, int n, int k, const Matrices& lu,
                                             const int* pivots, const Matrices& b, int* info) {
  return ForAll(b, info, [&](int64_t i, auto zero) {
    using T = decltype(zero);
    int code = 0;
    Fortran<T>::getrs("T", &n, &k, At<T>(lu, i), &n, pivots + i * n, At<T>(b, i), &n, &code, 1);
    return code;
  });
}

absl::Status EmulatedSolver::Cholesky(const KernelArgs&, int n, const Matrices& a, int* info) {
  return ForAll(a, info, [&](int64_t i, auto zero) {
    using T = decltype(zero);
    int code = 0;
    Fortran<T>::potrf("U", &n, At<T>(a, i), &n, &code, 1);
    return code;
  });
}

absl::Status EmulatedSolver::Qr(const KernelArgs&, int m, int n, const Matrices& a, void* tau,
                                int* info) {
  return ForAll(a, info, [&](int64_t i, auto zero) {
    using T = decltype(zero);
    int code = 0;
    const int size = 64 * std::max(1, n);
    std::vector<T> work(size);
    Fortran<T>::geqrf(&m, &n, At<T>(a, i), &m, static_cast<T*>(tau) + i * std::min(m, n),
                      work.data(), &size, &code);
    return code;
  });
}

absl::Status EmulatedSolver::FormQ(const KernelArgs&, int m, int columns, int reflectors,
                                   const Matrices& a, const void* tau, int* info) {
  if (columns > m || reflectors > columns) return BadParameter("orgqr");
  return ForAll(a, info, [&](int64_t i, auto zero) {
    using T = decltype(zero);
    int code = 0;
    const int size = 64 * std::max(1, columns);
    std::vector<T> work(size);
    Fortran<T>::orgqr(&m, &columns, &reflectors, At<T>(a, i), &m,
                      static_cast<const T*>(tau) + i * reflectors, work.data(), &size, &code);
    return code;
  });
}

absl::Status EmulatedSolver::Eigh(const KernelArgs&, bool vectors, bool upper, int n,
                                  const Matrices& a, void* w, int* info) {
  return ForAll(a, info, [&](int64_t i, auto zero) {
    using T = decltype(zero);
    int code = 0;
    const int reals = 1 + 6 * n + 2 * n * n;
    const int integers = 3 + 5 * n;
    std::vector<T> work(reals);
    std::vector<int> int_work(integers);
    Fortran<T>::syevd(vectors ? "V" : "N", upper ? "U" : "L", &n, At<T>(a, i), &n,
                      static_cast<T*>(w) + i * n, work.data(), &reals, int_work.data(), &integers,
                      &code, 1, 1);
    return code;
  });
}

absl::Status EmulatedSolver::Svd(const KernelArgs&, char job, int m, int n, const Matrices& a,
                                 void* s, const Matrices& u, const Matrices& vt, int* info) {
  if (m < n) return BadParameter("gesvd");
  return ForAll(a, info, [&](int64_t i, auto zero) {
    using T = decltype(zero);
    int code = 0;
    const int size = 4 * n * n + 7 * n + 64 * m;
    std::vector<T> work(size);
    std::vector<int> int_work(8 * n);
    T none = 0;
    T* const to_u = job == 'N' ? &none : At<T>(u, i);
    T* const to_vt = job == 'N' ? &none : At<T>(vt, i);
    Fortran<T>::gesdd(&job, &m, &n, At<T>(a, i), &m, static_cast<T*>(s) + i * n, to_u, &m, to_vt,
                      &n, work.data(), &size, int_work.data(), &code, 1);
    return code;
  });
}

// By the other way's LAPACK function, whose vh is turned round here.
absl::Status EmulatedSolver::SmallSvd(const KernelArgs&, bool vectors, int m, int n,
                                      const Matrices& a, void* s, const Matrices& u,
                                      const Matrices& v, int* info) {
  if (m > kLargestOfStack || n > kLargestOfStack || u.data == nullptr || v.data == nullptr) {
    return BadParameter("gesvdjBatched");
  }
  ++stack_calls;
  return ForAll(a, info, [&](int64_t i, auto zero) {
    using T = decltype(zero);
    int code = 0;
    const int k = std::min(m, n);
    const int size = 4 * k * k + 7 * k + 64 * std::max(m, n);
    const char job = vectors ? 'A' : 'N';
    std::vector<T> work(size);
    std::vector<T> vt(int64_t{n} * n);
    std::vector<int> int_work(8 * k);
    Fortran<T>::gesdd(&job, &m, &n, At<T>(a, i), &m, static_cast<T*>(s) + i * k, At<T>(u, i), &m,
                      vt.data(), &n, work.data(), &size, int_work.data(), &code, 1);
    for (int64_t p = 0; p < int64_t{n} * n; ++p) At<T>(v, i)[p] = vt[p % n * n + p / n];
    return code;
  });
}

}  // namespace chx::server::cuda
