// Softmax cross entropy of a row, and its gradient.
#include <cstdint>
#include <type_traits>

#include "server/kernels/dispatch.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/fold.h"
#include "server/native/loops/logsumexp.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

template <typename T>
void CrossEntropyLoop(const char* x, int64_t n, int64_t label, char* loss) {
  using Gather = LogSumExpGather<T>;
  typename Gather::Acc acc = Gather::Identity();
  Gather::Row(x, sizeof(T), n, 0, &acc);
  const Compute<T> at_label = Load(reinterpret_cast<const T*>(x)[label]);
  // log(sum) + (max - x): keeps the digits that x + log(sum) - x would cancel.
  At<T>(loss, 0) = Store<T>((acc.max - at_label) + kernels::Log(acc.sum));
}

template <typename T>
void CrossEntropyGradLoop(const char* x, int64_t n, int64_t label, const char* gy, char* gx) {
  using C = Compute<T>;
  const C scale = Load(At<T>(gy, 0));
  const T* const in = reinterpret_cast<const T*>(x);
  T* const out = reinterpret_cast<T*>(gx);
  if constexpr (std::is_same<T, C>::value) {
    // Exponentials are kept in the result.
    const C factor = static_cast<C>(1 / Exponentials(in, n, out));
    const C at_label = out[label];
    InPieces(n, [=](int64_t begin, int64_t end) {
      CHX_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) out[i] = out[i] * factor * scale;
    });
    out[label] = (at_label * factor - C(1)) * scale;
  } else {
    using Gather = LogSumExpGather<T>;
    typename Gather::Acc acc = Gather::Identity();
    Gather::Row(x, sizeof(T), n, 0, &acc);
    const C factor = C(1) / acc.sum;
    const C max = acc.max;
    InPieces(n, [=](int64_t begin, int64_t end) {
      CHX_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) {
        out[i] = Store<T>(kernels::Exp(Load(in[i]) - max) * factor * scale);
      }
    });
    out[label] = Store<T>((kernels::Exp(Load(in[label]) - max) * factor - C(1)) * scale);
  }
}

template <typename... Ts>
void FillLossTypes(LoopSet* set, kernels::TypeList<Ts...>) {
  ((set->cross_entropy[static_cast<int>(kernels::kDtypeOf<Ts>)] = CrossEntropyLoop<Ts>), ...);
  ((set->cross_entropy_grad[static_cast<int>(kernels::kDtypeOf<Ts>)] = CrossEntropyGradLoop<Ts>),
   ...);
}

}  // namespace

void FillLoss(LoopSet* set) { FillLossTypes(set, kernels::FloatTypes()); }

}  // namespace chx::server::native::CHX_ISA
