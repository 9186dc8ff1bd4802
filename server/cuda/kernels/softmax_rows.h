// What kernels of ops/defs/reduction_softmax.cc and ops/defs/loss.cc share.
#ifndef CHX_SERVER_CUDA_KERNELS_SOFTMAX_ROWS_H_
#define CHX_SERVER_CUDA_KERNELS_SOFTMAX_ROWS_H_

#include <cstdint>

#include "server/cuda/loops/rows.h"
#include "server/kernels/reduce_ops.h"

namespace chx::server::cuda {

template <typename C>
CHX_HD bool IsFinite(C x) {
  return x > kernels::LowestValue<C>() && x < kernels::HighestValue<C>();
}

// Bodies of ForEachRow (rows.h) that gather the largest element of a row and the sum of exp(x -
// it), where that is finite.
template <typename T, typename Loop>
struct SoftmaxRows {
  using C = kernels::Compute<T>;
  using Acc = kernels::MaxAndSum<C>;
  using Held = typename Loop::template Items<C>;

  Loop loop;
  const T* x;

  // As kernels::LogSumExpReducer, with one exponential.
  CHX_HD static Acc Combine(const Acc& a, const Acc& b) {
    const bool first = (a.max > b.max) | (a.max != a.max);
    const C max = first ? a.max : b.max;
    const C other = first ? b.max : a.max;
    const C scale = other == max ? C(1) : kernels::Exp(other - max);
    return {max, (first ? a.sum : b.sum) + (first ? b.sum : a.sum) * scale};
  }
  // Of a thread's elements of a step.
  CHX_HD Acc OfStep(int begin, int rank, const Held& held) const {
    Acc acc{kernels::LowestValue<C>(), C(0)};
    loop.ForPacks(begin, rank, [&](int i, int) {
      CHX_UNROLL
      for (int j = i; j < i + Loop::kPack; ++j) acc.max = kernels::Maximum()(acc.max, held.at[j]);
    });
    const C max = acc.max;
    if (!IsFinite(max)) return acc;
    loop.ForPacks(begin, rank, [&](int i, int) {
      CHX_UNROLL
      for (int j = i; j < i + Loop::kPack; ++j) acc.sum += kernels::Exp(held.at[j] - max);
    });
    return acc;
  }
  CHX_HD void Load(int64_t row, int begin, int rank, Held* held) const {
    loop.Load(x + row * loop.n(), begin, rank, held);
  }
  CHX_HD Acc Gather(int64_t row, int rank, Held* held) const {
    return GatherSteps(*this, row, rank, held);
  }
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNELS_SOFTMAX_ROWS_H_
