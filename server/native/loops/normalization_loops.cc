// Parts of batch normalization.
#include <cstdint>

#include "server/native/loops/elements.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

template <typename T>
struct Norm {
  static constexpr int64_t kLane = 16;
  static constexpr int64_t kSpan = 1024;  // summed as T; longer sums are double

  // *sum += f(0) + ... + f(n - 1).
  template <typename F>
  CHX_HD static void AddAll(int64_t n, double* sum, F f) {
    for (int64_t begin = 0; begin < n; begin += kSpan) {
      const int64_t end = n - begin < kSpan ? n : begin + kSpan;
      T lanes[kLane] = {};
      int64_t i = begin;
      for (; i + kLane <= end; i += kLane) {
        for (int64_t l = 0; l < kLane; ++l) lanes[l] += f(i + l);
      }
      T rest = T(0);
      for (; i < end; ++i) rest += f(i);
      // By halves: of a short row, a chain of additions would take longer than its elements.
      double wide[kLane];
      for (int64_t l = 0; l < kLane; ++l) wide[l] = static_cast<double>(lanes[l]);
      for (int64_t width = kLane / 2; width > 0; width /= 2) {
        for (int64_t l = 0; l < width; ++l) wide[l] += wide[l + width];
      }
      *sum += wide[0] + static_cast<double>(rest);
    }
  }
  CHX_HD static const T* In(const void* data) { return static_cast<const T*>(data); }

  static void Sum(bool columns, const void* data, int64_t n, double* sums) {
    const T* const x = In(data);
    if (columns) {
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(x[i]);
    } else {
      AddAll(n, sums, [x](int64_t i) { return x[i]; });
    }
  }
  static void Square(bool columns, const void* data, int64_t n, const void* means,
                     double* squares) {
    const T* const x = In(data);
    const T* const mean = In(means);
    if (columns) {
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        const T centered = x[i] - mean[i];
        squares[i] += static_cast<double>(centered * centered);
      }
    } else {
      const T m = mean[0];
      AddAll(n, squares, [x, m](int64_t i) { return (x[i] - m) * (x[i] - m); });
    }
  }
  static void Apply(bool columns, const void* data, int64_t n, const void* means,
                    const void* scales, const void* shifts, void* out) {
    const T* const x = In(data);
    const T* const mean = In(means);
    const T* const scale = In(scales);
    const T* const shift = In(shifts);
    T* const y = static_cast<T*>(out);
    if (columns) {
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean[i]) * scale[i] + shift[i];
    } else {
      const T m = mean[0];
      const T a = scale[0];
      const T b = shift[0];
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m) * a + b;
    }
  }
  static void GradSums(bool columns, const void* data, const void* grads, int64_t n,
                       const void* means, double* sums, double* products) {
    const T* const x = In(data);
    const T* const gy = In(grads);
    const T* const mean = In(means);
    if (columns) {
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        sums[i] += static_cast<double>(gy[i]);
        products[i] += static_cast<double>(gy[i] * (x[i] - mean[i]));
      }
    } else {
      const T m = mean[0];
      AddAll(n, sums, [gy](int64_t i) { return gy[i]; });
      AddAll(n, products, [x, gy, m](int64_t i) { return gy[i] * (x[i] - m); });
    }
  }
  static void Grad(bool columns, const void* data, const void* grads, int64_t n, const void* means,
                   const void* scales, const void* slopes, const void* shifts, void* out) {
    const T* const x = In(data);
    const T* const gy = In(grads);
    const T* const mean = In(means);
    const T* const scale = In(scales);
    const T* const slope = In(slopes);
    const T* const shift = In(shifts);
    T* const gx = static_cast<T*>(out);
    if (columns) {
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        gx[i] = gy[i] * scale[i] + (x[i] - mean[i]) * slope[i] + shift[i];
      }
    } else {
      const T m = mean[0];
      const T a = scale[0];
      const T b = slope[0];
      const T c = shift[0];
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) gx[i] = gy[i] * a + (x[i] - m) * b + c;
    }
  }

  static constexpr NormLoops kLoops = {Sum, Square, Apply, GradSums, Grad};
};

}  // namespace

void FillNormalization(LoopSet* set) {
  set->norm[static_cast<int>(Dtype::kFloat32)] = Norm<float>::kLoops;
  set->norm[static_cast<int>(Dtype::kFloat64)] = Norm<double>::kLoops;
}

}  // namespace chx::server::native::CHX_ISA
