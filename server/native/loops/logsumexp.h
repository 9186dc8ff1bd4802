// The running logsumexp of a row or of columns.
// Included only by files that are compiled once per instruction set (parts.h).
#ifndef CHX_SERVER_NATIVE_LOOPS_LOGSUMEXP_H_
#define CHX_SERVER_NATIVE_LOOPS_LOGSUMEXP_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "server/kernels/elementwise_fns.h"
#include "server/kernels/reduce_ops.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/fold.h"
#include "server/native/loops/sums.h"

namespace chx::server::native::CHX_ISA {

// out[i] = exp(x[i] * by - shift), for n >= 0 elements. Returns their sum, as FoldDense adds.
template <typename T, typename C>
CHX_HD C SumOfExps(const T* x, int64_t n, C by, C shift, C* out) {
  if (n < kLanes) {
    C total(0);
    for (int64_t i = 0; i < n; ++i) total += out[i] = kernels::Exp(Load(x[i]) * by - shift);
    return total;
  }
  C lanes[kLanes] = {};
  const auto add = [&](int64_t begin, int count) {
    CHX_INDEPENDENT
    for (int l = 0; l < count; ++l) {
      const C e = kernels::Exp(Load(x[begin + l]) * by - shift);
      out[begin + l] = e;
      lanes[l] += e;
    }
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) add(i, kLanes);
  add(i, static_cast<int>(n - i));
  return FoldLanes<kernels::Add, kLanes>(lanes);
}

// The largest element and the sum of exp(x - it), in one pass over blocks that stay in the cache.
template <typename T>
struct LogSumExpGather {
  using Reducer = kernels::LogSumExpReducer<T>;
  using Acc = typename Reducer::Acc;
  using Out = T;
  using C = Compute<T>;

  CHX_HD static Acc Identity() { return Reducer::Identity(); }
  CHX_HD static void Combine(Acc* acc, const Acc& other) { *acc = Reducer::Combine(*acc, other); }
  CHX_HD static Out Finish(const Acc& acc) { return Reducer::Finish(acc); }
  // Of 0 < n <= kBlock elements.
  CHX_HD static Acc Block(const char* x, int64_t stride, int64_t n) {
    C block[kBlock];
    if (stride == sizeof(T)) {
      const T* const dense = reinterpret_cast<const T*>(x);
      for (int64_t i = 0; i < n; ++i) block[i] = Load(dense[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) block[i] = Load(At<T>(x, i * stride));
    }
    const C max = FoldDense<kernels::Maximum>(block, n, Identity().max);
    // Infinite or NaN: the sum does not count, but must not become NaN by inf - inf.
    if (!(std::fabs(max) <= std::numeric_limits<C>::max())) return {max, C(1)};
    return {max, SumOfExps(block, n, C(1), max, block)};
  }
  static void Row(const char* x, int64_t stride, int64_t n, int64_t, Acc* acc) {
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t count = n - begin < kBlock ? n - begin : kBlock;
      if (StopBefore(begin)) return;
      *acc = Reducer::Combine(*acc, Block(x + begin * stride, stride, count));
    }
  }
  static void Columns(const char* x, int64_t row_stride, int64_t rows, int64_t n, int64_t first,
                      Acc* accs) {
    constexpr int64_t kRows = 32;
    constexpr int64_t kColumns = 256;
    C max[kColumns];
    C sum[kColumns];
    for (int64_t column = 0; column < n; column += kColumns) {
      const int64_t count = n - column < kColumns ? n - column : kColumns;
      for (int64_t begin = 0; begin < rows; begin += kRows) {
        const int64_t end = rows - begin < kRows ? rows : begin + kRows;
        const auto row_at = [&](int64_t row) {
          return reinterpret_cast<const T*>(x + row * row_stride) + column;
        };
        for (int64_t i = 0; i < count; ++i) max[i] = Identity().max;
        for (int64_t row = begin; row < end; ++row) {
          const T* const in = row_at(row);
          for (int64_t i = 0; i < count; ++i) max[i] = kernels::Maximum()(max[i], Load(in[i]));
        }
        for (int64_t i = 0; i < count; ++i) sum[i] = C(0);
        for (int64_t row = begin; row < end; ++row) {
          const T* const in = row_at(row);
          for (int64_t i = 0; i < count; ++i) sum[i] += kernels::Exp(Load(in[i]) - max[i]);
        }
        for (int64_t i = 0; i < count; ++i) {
          // As in Block.
          const bool finite = std::fabs(max[i]) <= std::numeric_limits<C>::max();
          Acc& acc = accs[column + i];
          acc = Reducer::Combine(acc, {max[i], finite ? sum[i] : C(1)});
        }
      }
    }
  }
};

// out = exp(x - max(x)) for a dense row, n > 0. Returns the sum; 1 where the largest is infinite or
// NaN, as in LogSumExpGather.
template <typename C>
CHX_HD double Exponentials(const C* x, int64_t n, C* out) {
  C max = LogSumExpGather<C>::Identity().max;
  InPieces(n, [&max, x](int64_t begin, int64_t end) {
    const C identity = LogSumExpGather<C>::Identity().max;
    const C here = FoldDense<kernels::Maximum>(x + begin, end - begin, identity);
    max = kernels::Maximum()(max, here);
  });
  double sum = 0;
  for (int64_t begin = 0; begin < n && !StopBefore(begin); begin += kBlock) {
    const int64_t count = n - begin < kBlock ? n - begin : kBlock;
    sum += static_cast<double>(SumOfExps(x + begin, count, C(1), max, out + begin));
  }
  return std::fabs(max) <= std::numeric_limits<C>::max() ? sum : 1;
}

}  // namespace chx::server::native::CHX_ISA

#endif  // CHX_SERVER_NATIVE_LOOPS_LOGSUMEXP_H_
