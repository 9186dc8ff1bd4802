// Parts of batch normalization.
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "server/kernels/elementwise_fns.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/fold.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

#if defined(__AVX512F__)
constexpr size_t kVectorBytes = 64;
#elif defined(__AVX__)
constexpr size_t kVectorBytes = 32;
#else
constexpr size_t kVectorBytes = 16;
#endif

template <typename T>
struct Norm {
  static constexpr int64_t kLane = 16;
  static constexpr int64_t kSpan = 1024;  // summed as T; longer sums are double

  // By the compiler's vectors: it does not find them where rows are short.
  typedef T Vector __attribute__((vector_size(kVectorBytes)));  // NOLINT
  static constexpr int64_t kWidth = sizeof(Vector) / sizeof(T);
  using Int = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  typedef Int Ints __attribute__((vector_size(kVectorBytes)));  // NOLINT

  // The last n lanes of kLane are all ones from kMask + n on.
  struct Mask {
    Int bits[2 * kLane];
    constexpr Mask() : bits() {
      for (int64_t l = kLane; l < 2 * kLane; ++l) bits[l] = -1;
    }
  };
  static constexpr Mask kMask = Mask();
  CHX_HD static Vector Masked(Vector value, const Int* mask) {
    Ints bits;
    std::memcpy(&bits, mask, sizeof(bits));
    return (Vector)((Ints)value & bits);  // NOLINT: their bits
  }

  CHX_HD static Vector VectorAt(const T* x) {
    Vector vector;
    std::memcpy(&vector, x, sizeof(vector));
    return vector;
  }

  // Sums in T, of no more than kSpan elements.
  struct Lanes {
    Vector lanes[kLane / kWidth] = {};
    double rest = 0;  // of rows shorter than that

    // f(in[begin]...) and so on, where f takes vectors, too.
    template <typename F, typename... In>
    CHX_HD void Add(int64_t begin, int64_t end, F f, const In*... in) {
      int64_t i = begin;
      for (; i + kLane <= end; i += kLane) {
        for (int64_t v = 0; v < kLane / kWidth; ++v)
          lanes[v] += f(VectorAt(in + i + v * kWidth)...);
      }
      if (i == end) return;
      if (i == begin) {
        for (; i < end; ++i) rest += static_cast<double>(f(in[i]...));
        return;
      }
      const Int* const mask = kMask.bits + (end - i);
      for (int64_t v = 0; v < kLane / kWidth; ++v) {
        const int64_t at = end - kLane + v * kWidth;
        lanes[v] += Masked(f(VectorAt(in + at)...), mask + v * kWidth);
      }
    }
    CHX_HD void MoveTo(double* sum) {
      T each[kLane];
      std::memcpy(each, lanes, sizeof(each));
      *sum += static_cast<double>(FoldLanes<kernels::Add, kLane>(each)) + rest;
      *this = Lanes();
    }
  };

  // Calls add(begin, end) for all elements, and move() before any sum has more than kSpan, and at
  // the end.
  template <typename Add, typename Move>
  CHX_HD static void InSpans(const NormRows& rows, Add add, Move move) {
    int64_t held = 0;
    for (int64_t r = 0; r < rows.count; ++r) {
      const int64_t row = r * rows.step;
      for (int64_t begin = 0; begin < rows.n; begin += kSpan) {
        const int64_t end = rows.n - begin < kSpan ? rows.n : begin + kSpan;
        if (held + end - begin > kSpan) {
          move();
          held = 0;
        }
        held += end - begin;
        add(row + begin, row + end);
      }
    }
    move();
  }
  // *sum += f(in[i]...) for all elements.
  template <typename F, typename... In>
  CHX_HD static void AddAll(const NormRows& rows, double* sum, F f, const In*... in) {
    Lanes lanes;
    InSpans(
        rows, [&](int64_t begin, int64_t end) { lanes.Add(begin, end, f, in...); },
        [&] { lanes.MoveTo(sum); });
  }
  // out[i] = f(in[i]...) for all elements.
  template <typename F, typename... In>
  CHX_HD static void SetAll(const NormRows& rows, T* out, F f, const In*... in) {
    for (int64_t r = 0; r < rows.count; ++r) {
      int64_t i = r * rows.step;
      const int64_t end = i + rows.n;
      for (; i + kWidth <= end; i += kWidth) {
        const Vector y = f(VectorAt(in + i)...);
        std::memcpy(out + i, &y, sizeof(y));
      }
      if (i == end) continue;
      if (rows.n < kWidth) {
        for (; i < end; ++i) out[i] = f(in[i]...);
      } else {  // some of them again
        const Vector y = f(VectorAt(in + end - kWidth)...);
        std::memcpy(out + end - kWidth, &y, sizeof(y));
      }
    }
  }
  // Calls f(i, channel) for all elements.
  template <typename F>
  CHX_HD static void ForAll(const NormRows& rows, F f) {
    for (int64_t r = 0; r < rows.count; ++r) {
      const int64_t row = r * rows.step;
      CHX_INDEPENDENT
      for (int64_t c = 0; c < rows.n; ++c) f(row + c, c);
    }
  }
  CHX_HD static const T* In(const void* data) { return static_cast<const T*>(data); }

  static void Sum(bool columns, const void* data, const NormRows& rows, double* sums) {
    const T* const x = In(data);
    if (columns) {
      ForAll(rows, [=](int64_t i, int64_t c) { sums[c] += static_cast<double>(x[i]); });
    } else {
      AddAll(
          rows, sums, [](auto value) { return value; }, x);
    }
  }
  static void Square(bool columns, const void* data, const NormRows& rows, const void* means,
                     double* squares) {
    const T* const x = In(data);
    const T* const mean = In(means);
    if (columns) {
      ForAll(rows, [=](int64_t i, int64_t c) {
        const T centered = x[i] - mean[c];
        squares[c] += static_cast<double>(centered * centered);
      });
    } else {
      const T m = mean[0];
      AddAll(
          rows, squares, [m](auto value) { return (value - m) * (value - m); }, x);
    }
  }
  static void Apply(bool columns, const void* data, const NormRows& rows, const void* means,
                    const void* scales, const void* shifts, void* out) {
    const T* const x = In(data);
    const T* const mean = In(means);
    const T* const scale = In(scales);
    const T* const shift = In(shifts);
    T* const y = static_cast<T*>(out);
    if (columns) {
      ForAll(rows, [=](int64_t i, int64_t c) { y[i] = (x[i] - mean[c]) * scale[c] + shift[c]; });
    } else {
      const T m = mean[0];
      const T a = scale[0];
      const T b = shift[0];
      SetAll(
          rows, y, [=](auto value) { return (value - m) * a + b; }, x);
    }
  }
  static void GradSums(bool columns, const void* data, const void* grads, const NormRows& rows,
                       const void* means, double* squares, double* sums, double* products) {
    const T* const x = In(data);
    const T* const gy = In(grads);
    const T* const mean = In(means);
    if (columns) {
      ForAll(rows, [=](int64_t i, int64_t c) {
        const T centered = x[i] - mean[c];
        squares[c] += static_cast<double>(centered * centered);
        sums[c] += static_cast<double>(gy[i]);
        products[c] += static_cast<double>(gy[i] * centered);
      });
    } else {
      const T m = mean[0];
      Lanes square;
      Lanes sum;
      Lanes product;
      InSpans(
          rows,
          [&](int64_t begin, int64_t end) {
            square.Add(
                begin, end, [m](auto value) { return (value - m) * (value - m); }, x);
            sum.Add(
                begin, end, [](auto grad) { return grad; }, gy);
            product.Add(
                begin, end, [m](auto grad, auto value) { return grad * (value - m); }, gy, x);
          },
          [&] {
            square.MoveTo(squares);
            sum.MoveTo(sums);
            product.MoveTo(products);
          });
    }
  }
  static void Grad(bool columns, const void* data, const void* grads, const NormRows& rows,
                   const void* means, const void* scales, const void* slopes, const void* shifts,
                   void* out) {
    const T* const x = In(data);
    const T* const gy = In(grads);
    const T* const mean = In(means);
    const T* const scale = In(scales);
    const T* const slope = In(slopes);
    const T* const shift = In(shifts);
    T* const gx = static_cast<T*>(out);
    if (columns) {
      ForAll(rows, [=](int64_t i, int64_t k) {
        gx[i] = gy[i] * scale[k] + (x[i] - mean[k]) * slope[k] + shift[k];
      });
    } else {
      const T m = mean[0];
      const T a = scale[0];
      const T b = slope[0];
      const T c = shift[0];
      SetAll(
          rows, gx, [=](auto grad, auto value) { return grad * a + (value - m) * b + c; }, gy, x);
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
