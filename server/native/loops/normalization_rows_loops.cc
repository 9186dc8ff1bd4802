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

// f(0) + ... + f(n - 1), by blocks that are summed as C.
template <typename C, typename F>
CHX_HD double SumOf(int64_t n, F f) {
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    if (StopBefore(begin)) return total;
    const int64_t end = n - begin < kBlock ? n : begin + kBlock;
    C lanes[kLanes] = {};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] += f(i + l);
    }
    C rest = C(0);
    for (; i < end; ++i) rest += f(i);
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
    }
    total += static_cast<double>(lanes[0]) + static_cast<double>(rest);
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
  CHX_HD static void GradX(bool centered, const T* x, const T* gy, int64_t n,
                           const Moments& moments, Weight weight, T* gx) {
    const auto count = static_cast<double>(n);
    const C mean = moments.mean;
    const double sum =
        centered ? SumOf<C>(n, [=](int64_t i) { return Load(gy[i]) * weight(i); }) / count : 0;
    const double product =
        SumOf<C>(n, [=](int64_t i) { return Load(gy[i]) * weight(i) * (Load(x[i]) - mean); }) /
        count;
    const C scale = static_cast<C>(moments.inverse);
    const C slope = static_cast<C>(product * moments.inverse * moments.inverse);
    const C shift = static_cast<C>(sum);
    InPieces(n, [=](int64_t begin, int64_t end) {
      CHX_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) {
        gx[i] = Store<T>((Load(gy[i]) * weight(i) - shift - (Load(x[i]) - mean) * slope) * scale);
      }
    });
  }

  static void Grad(bool centered, const void* data, const void* grads, int64_t n, double eps,
                   const void* weights, void* out, void* gweights, void* gbiases) {
    const T* const x = static_cast<const T*>(data);
    const T* const gy = static_cast<const T*>(grads);
    const C* const weight = static_cast<const C*>(weights);
    const Moments moments = MomentsOf(centered, x, n, eps);
    T* const gx = static_cast<T*>(out);
    if (weight != nullptr) {
      GradX(
          centered, x, gy, n, moments, [weight](int64_t i) { return weight[i]; }, gx);
    } else {
      GradX(
          centered, x, gy, n, moments, [](int64_t) { return C(1); }, gx);
    }
    if (gweights == nullptr) return;
    C* const gweight = static_cast<C*>(gweights);
    C* const gbias = static_cast<C*>(gbiases);
    const C mean = moments.mean;
    const C inverse = static_cast<C>(moments.inverse);
    InPieces(n, [=](int64_t begin, int64_t end) {
      CHX_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) {
        gweight[i] += Load(gy[i]) * ((Load(x[i]) - mean) * inverse);
        gbias[i] += Load(gy[i]);
      }
    });
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
