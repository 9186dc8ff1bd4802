// Normalization of rows, for layer_norm and rms_norm. A row of usual length stays in the cache
// between the passes.
#include <cmath>
#include <cstdint>

#include "server/kernels/dispatch.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/fold.h"
#include "server/native/loops/layer_parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

// Independent chains of additions: enough to hide how long one takes.
inline constexpr int kChains = 32;

template <typename C>
CHX_HD double Total(C* lanes) {
  for (int width = kChains / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  }
  return static_cast<double>(lanes[0]);
}

// f(0) + ... + f(n - 1), by blocks that are summed as C.
template <typename C, typename F>
CHX_HD double SumOf(int64_t n, F f) {
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    if (StopBefore(begin)) return total;
    const int64_t end = n - begin < kBlock ? n : begin + kBlock;
    C lanes[kChains] = {};
    int64_t i = begin;
    for (; i + kChains <= end; i += kChains) {
      for (int l = 0; l < kChains; ++l) lanes[l] += f(i + l);
    }
    C rest = C(0);
    for (; i < end; ++i) rest += f(i);
    total += Total(lanes) + static_cast<double>(rest);
  }
  return total;
}

// Of f and, times it, of g, in one pass.
struct Sums {
  double of_f = 0;
  double of_product = 0;
};
template <typename C, typename F, typename G>
CHX_HD Sums SumsOf(int64_t n, F f, G g) {
  Sums total;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    if (StopBefore(begin)) return total;
    const int64_t end = n - begin < kBlock ? n : begin + kBlock;
    C sums[kChains] = {};
    C products[kChains] = {};
    int64_t i = begin;
    for (; i + kChains <= end; i += kChains) {
      for (int l = 0; l < kChains; ++l) {
        const C value = f(i + l);
        sums[l] += value;
        products[l] += value * g(i + l);
      }
    }
    C sum = C(0);
    C product = C(0);
    for (; i < end; ++i) {
      const C value = f(i);
      sum += value;
      product += value * g(i);
    }
    total.of_f += Total(sums) + static_cast<double>(sum);
    total.of_product += Total(products) + static_cast<double>(product);
  }
  return total;
}

template <typename T>
struct RowNorm {
  using C = Compute<T>;

  struct Moments {
    C mean;
    double inverse;
  };
  CHX_HD static Moments MomentsOf(bool centered, const T* x, int64_t n, double eps) {
    const auto count = static_cast<double>(n);
    const C mean = centered
                       ? static_cast<C>(SumOf<C>(n, [x](int64_t i) { return Load(x[i]); }) / count)
                       : C(0);
    const double squares = SumOf<C>(n, [x, mean](int64_t i) {
      const C away = Load(x[i]) - mean;
      return away * away;
    });
    return {mean, 1 / std::sqrt(squares / count + eps)};
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
    const Moments moments = MomentsOf(centered, x, n, eps);
    const auto count = static_cast<double>(n);
    const C mean = moments.mean;
    const Sums sums = SumsOf<C>(
        n, [=](int64_t i) { return Load(gy[i]) * weight(i); },
        [=](int64_t i) { return Load(x[i]) - mean; });
    const C inverse = static_cast<C>(moments.inverse);
    // Of the normalized x.
    const C slope = static_cast<C>(sums.of_product / count * moments.inverse);
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

template <typename... Ts>
void FillTypes(LayerLoops* set, kernels::TypeList<Ts...>) {
  ((set->row_norm[static_cast<int>(kernels::kDtypeOf<Ts>)] = RowNorm<Ts>::kLoops), ...);
}

}  // namespace

void FillNormalizationRows(LayerLoops* set) { FillTypes(set, kernels::FloatTypes()); }

}  // namespace chx::server::native::CHX_ISA
