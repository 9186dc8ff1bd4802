// Normalization of rows, for layer_norm, rms_norm and group_norm. A row of usual length stays in
// the cache between the passes.
#include <cmath>
#include <cstdint>

#include "server/kernels/dispatch.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/fold.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/parts.h"
#include "server/native/loops/sums.h"

namespace chx::server::native::CHX_ISA {
namespace {

template <typename T>
struct RowNorm {
  using C = Compute<T>;

  CHX_HD static C MeanOf(const T* x, int64_t n) {
    return static_cast<C>(SumOf<C>(n, [x](int64_t i) { return Load(x[i]); }) /
                          static_cast<double>(n));
  }
  CHX_HD static double Inverse(double squares, int64_t n, double eps) {
    return 1 / std::sqrt(squares / static_cast<double>(n) + eps);
  }

  struct Moments {
    C mean;
    double inverse;
  };
  CHX_HD static Moments MomentsOf(bool centered, const T* x, int64_t n, double eps) {
    const C mean = centered ? MeanOf(x, n) : C(0);
    const double squares = SumOf<C>(n, [x, mean](int64_t i) {
      const C away = Load(x[i]) - mean;
      return away * away;
    });
    return {mean, Inverse(squares, n, eps)};
  }

  static void Row(bool centered, const void* data, int64_t n, double eps, const void* weights,
                  const void* biases, void* out) {
    const T* const x = static_cast<const T*>(data);
    const C* const weight = static_cast<const C*>(weights);
    const C* const bias = static_cast<const C*>(biases);
    T* const y = static_cast<T*>(out);
    const Moments moments = MomentsOf(centered, x, n, eps);
    const C mean = moments.mean;
    const C inverse = static_cast<C>(moments.inverse);
    InPieces(n, [=](int64_t begin, int64_t end) {
      if (weight != nullptr && bias != nullptr) {
        CHX_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) {
          y[i] = Store<T>((Load(x[i]) - mean) * inverse * weight[i] + bias[i]);
        }
      } else if (weight != nullptr) {
        CHX_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) {
          y[i] = Store<T>((Load(x[i]) - mean) * inverse * weight[i]);
        }
      } else if (bias != nullptr) {
        CHX_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) {
          y[i] = Store<T>((Load(x[i]) - mean) * inverse + bias[i]);
        }
      } else {
        CHX_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) y[i] = Store<T>((Load(x[i]) - mean) * inverse);
      }
    });
  }

  // weight(i): of element i.
  template <typename Weight>
  CHX_HD static void GradRow(bool centered, const T* x, const T* gy, int64_t n, double eps,
                             Weight weight, T* gx, C* gweight, C* gbias) {
    const auto count = static_cast<double>(n);
    const C mean = centered ? MeanOf(x, n) : C(0);
    const Sums sums = SumsOf<C>(
        n, [=](int64_t i) { return Load(gy[i]) * weight(i); },
        [=](int64_t i) { return Load(x[i]) - mean; });
    const double wide_inverse = Inverse(sums.of_square, n, eps);
    const C inverse = static_cast<C>(wide_inverse);
    // Of the normalized x.
    const C slope = static_cast<C>(sums.of_product / count * wide_inverse);
    const C shift = centered ? static_cast<C>(sums.of_f / count) : C(0);
    InPieces(n, [=](int64_t begin, int64_t end) {
      if (gweight == nullptr) {
        CHX_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) {
          const C normalized = (Load(x[i]) - mean) * inverse;
          gx[i] = Store<T>((Load(gy[i]) * weight(i) - shift - normalized * slope) * inverse);
        }
      } else {
        CHX_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) {
          const C normalized = (Load(x[i]) - mean) * inverse;
          const C grad = Load(gy[i]);
          gx[i] = Store<T>((grad * weight(i) - shift - normalized * slope) * inverse);
          gweight[i] += grad * normalized;
          gbias[i] += grad;
        }
      }
    });
  }

  static void Grad(bool centered, const void* data, const void* grads, int64_t n, double eps,
                   const void* weights, void* out, void* gweights, void* gbiases) {
    const T* const x = static_cast<const T*>(data);
    const T* const gy = static_cast<const T*>(grads);
    const C* const weight = static_cast<const C*>(weights);
    T* const gx = static_cast<T*>(out);
    C* const gweight = static_cast<C*>(gweights);
    C* const gbias = static_cast<C*>(gbiases);
    if (weight != nullptr) {
      GradRow(
          centered, x, gy, n, eps, [weight](int64_t i) { return weight[i]; }, gx, gweight, gbias);
    } else {
      GradRow(
          centered, x, gy, n, eps, [](int64_t) { return C(1); }, gx, gweight, gbias);
    }
  }

  static void Collect(void* data, int64_t n, double* totals) {
    C* const sums = static_cast<C*>(data);
    InPieces(n, [=](int64_t begin, int64_t end) {
      CHX_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) {
        totals[i] += static_cast<double>(sums[i]);
        sums[i] = C(0);
      }
    });
  }

  static constexpr RowNormLoops kLoops = {Row, Grad, Collect};
};

// Of rows of `channels` times `size` elements.
template <typename T>
struct GroupNorm {
  using C = Compute<T>;

  // fn(channel) for each channel, until it is to stop.
  template <typename Fn>
  CHX_HD static void ForChannels(int64_t channels, int64_t size, Fn fn) {
    int64_t done = 0;
    for (int64_t c = 0; c < channels; ++c) {
      fn(c);
      done += size;
      if (done < kPiece) continue;
      if (StopRequested()) return;
      done = 0;
    }
  }

  static void Row(const void* data, int64_t channels, int64_t size, double eps, const void* weights,
                  const void* biases, void* out) {
    const T* const x = static_cast<const T*>(data);
    const C* const weight = static_cast<const C*>(weights);
    const C* const bias = static_cast<const C*>(biases);
    T* const y = static_cast<T*>(out);
    const auto moments = RowNorm<T>::MomentsOf(true, x, channels * size, eps);
    const C mean = moments.mean;
    ForChannels(channels, size, [=](int64_t c) {
      const C scale = static_cast<C>(moments.inverse) * (weight != nullptr ? weight[c] : C(1));
      const C shift = bias != nullptr ? bias[c] : C(0);
      const T* const from = x + c * size;
      T* const to = y + c * size;
      InPieces(size, [=](int64_t begin, int64_t end) {
        CHX_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) {
          to[i] = Store<T>((Load(from[i]) - mean) * scale + shift);
        }
      });
    });
  }

  static void Grad(const void* data, const void* grads, int64_t channels, int64_t size, double eps,
                   const void* weights, void* out, double* gweight, double* gbias) {
    const T* const x = static_cast<const T*>(data);
    const T* const gy = static_cast<const T*>(grads);
    const C* const weight = static_cast<const C*>(weights);
    T* const gx = static_cast<T*>(out);
    const auto count = static_cast<double>(channels * size);
    const C mean = RowNorm<T>::MeanOf(x, channels * size);
    Sums total;
    ForChannels(channels, size, [=, &total](int64_t c) {
      const T* const in = x + c * size;
      const T* const grad = gy + c * size;
      const Sums sums = SumsOf<C>(
          size, [=](int64_t i) { return Load(grad[i]); },
          [=](int64_t i) { return Load(in[i]) - mean; });
      total.Add(sums, weight != nullptr ? static_cast<double>(weight[c]) : 1);
      gweight[c] = sums.of_product;
      gbias[c] = sums.of_f;
    });
    const double inverse = RowNorm<T>::Inverse(total.of_square, channels * size, eps);
    // gx = gy * weight * inverse - (x - mean) * slope - shift
    const C slope = static_cast<C>(total.of_product / count * inverse * inverse * inverse);
    const C shift = static_cast<C>(total.of_f / count * inverse);
    ForChannels(channels, size, [=](int64_t c) {
      const C scale = static_cast<C>(inverse) * (weight != nullptr ? weight[c] : C(1));
      const T* const in = x + c * size;
      const T* const grad = gy + c * size;
      T* const to = gx + c * size;
      gweight[c] *= inverse;
      InPieces(size, [=](int64_t begin, int64_t end) {
        CHX_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) {
          to[i] = Store<T>(Load(grad[i]) * scale - (Load(in[i]) - mean) * slope - shift);
        }
      });
    });
  }

  static constexpr GroupNormLoops kLoops = {Row, Grad};
};

template <typename... Ts>
void FillRowNormTypes(LayerLoops* set, kernels::TypeList<Ts...>) {
  ((set->row_norm[static_cast<int>(kernels::kDtypeOf<Ts>)] = RowNorm<Ts>::kLoops), ...);
  ((set->group_norm[static_cast<int>(kernels::kDtypeOf<Ts>)] = GroupNorm<Ts>::kLoops), ...);
}

}  // namespace

void FillNormalizationRows(LayerLoops* set) { FillRowNormTypes(set, kernels::FloatTypes()); }

}  // namespace chx::server::native::CHX_ISA
