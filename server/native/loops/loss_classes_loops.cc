// Cross entropy of a row with smoothed labels, and its gradient.
#include <cstdint>
#include <type_traits>

#include "server/kernels/dispatch.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/fold.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/logsumexp.h"
#include "server/native/loops/parts.h"
#include "server/native/loops/sums.h"

namespace chx::server::native::CHX_ISA {
namespace {

template <typename T>
struct SmoothLoss {
  using C = Compute<T>;
  using Gather = LogSumExpGather<T>;

  CHX_HD static typename Gather::Acc GatherRow(const T* x, int64_t n) {
    typename Gather::Acc acc = Gather::Identity();
    Gather::Row(reinterpret_cast<const char*>(x), sizeof(T), n, 0, &acc);
    return acc;
  }

  static void Row(const void* data, int64_t n, int64_t label, double smoothing, void* loss) {
    const T* const x = static_cast<const T*>(data);
    const auto acc = GatherRow(x, n);
    const C max = acc.max;
    // Relative to the maximum, which keeps the digits that lse - x would cancel.
    const double mean =
        SumOf<C>(n, [x, max](int64_t i) { return max - Load(x[i]); }) / static_cast<double>(n);
    const double log_sum = static_cast<double>(kernels::Log(acc.sum));
    const double at_label = static_cast<double>(max - Load(x[label]));
    const double result = (at_label + log_sum) * (1 - smoothing) + (mean + log_sum) * smoothing;
    *static_cast<T*>(loss) = Store<T>(static_cast<C>(result));
  }

  static void Grad(const void* data, int64_t n, int64_t label, double smoothing, const void* grad,
                   void* out) {
    const T* const x = static_cast<const T*>(data);
    T* const gx = static_cast<T*>(out);
    const C scale = Load(*static_cast<const T*>(grad));
    const C share = static_cast<C>(smoothing / static_cast<double>(n));
    const C expected = static_cast<C>(1 - smoothing) + share;
    if constexpr (std::is_same<T, C>::value) {
      // Exponentials are kept in the result.
      const C factor = static_cast<C>(1 / Exponentials(x, n, gx));
      const C at_label = gx[label];
      InPieces(n, [=](int64_t begin, int64_t end) {
        CHX_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) gx[i] = (gx[i] * factor - share) * scale;
      });
      gx[label] = (at_label * factor - expected) * scale;
    } else {
      const auto acc = GatherRow(x, n);
      const C max = acc.max;
      const C factor = C(1) / acc.sum;
      InPieces(n, [=](int64_t begin, int64_t end) {
        CHX_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) {
          gx[i] = Store<T>((kernels::Exp(Load(x[i]) - max) * factor - share) * scale);
        }
      });
      gx[label] = Store<T>((kernels::Exp(Load(x[label]) - max) * factor - expected) * scale);
    }
  }

  static constexpr SmoothLossLoops kLoops = {Row, Grad};
};

template <typename... Ts>
void FillLossClassTypes(LayerLoops* set, kernels::TypeList<Ts...>) {
  ((set->smooth_loss[static_cast<int>(kernels::kDtypeOf<Ts>)] = SmoothLoss<Ts>::kLoops), ...);
}

}  // namespace

void FillLossClasses(LayerLoops* set) { FillLossClassTypes(set, kernels::FloatTypes()); }

}  // namespace chx::server::native::CHX_ISA
