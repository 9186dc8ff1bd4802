// Folding dense elements, and stopping in long rows.
// Included only by files that are compiled once per instruction set (parts.h).
#ifndef CHX_SERVER_NATIVE_LOOPS_FOLD_H_
#define CHX_SERVER_NATIVE_LOOPS_FOLD_H_

#include <cstdint>
#include <limits>
#include <type_traits>

#include "server/engine/stop_requested.h"
#include "server/kernels/elementwise_fns.h"
#include "server/native/loops/elements.h"

namespace chx::server::native::CHX_ISA {

inline constexpr int kLanes = 32;
inline constexpr int64_t kBlock = 1024;

// Long rows ask after so many elements whether to stop; a multiple of kBlock.
inline constexpr int64_t kPiece = 128 * kBlock;
CHX_HD bool StopBefore(int64_t element) {
  return element > 0 && element % kPiece == 0 && StopRequested();
}
// Calls fn(begin, end) for pieces of [0, n) until it is to stop.
template <typename Fn>
CHX_HD void InPieces(int64_t n, Fn fn) {
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    if (StopBefore(begin)) return;
    fn(begin, n - begin < kPiece ? n : begin + kPiece);
  }
}

// Folds kWidth lanes, a power of two: lane l and lane l + kWidth / 2, and so on. As a recursion, of
// which compilers make vectors; of a loop over widths they do not.
template <typename Fn, int kWidth, typename C>
CHX_HD C FoldLanes(const C* lanes) {
  if constexpr (kWidth == 1) {
    return lanes[0];
  } else {
    C halves[kWidth / 2];
    CHX_LANES
    for (int l = 0; l < kWidth / 2; ++l) halves[l] = Fn()(lanes[l], lanes[l + kWidth / 2]);
    return FoldLanes<Fn, kWidth / 2>(halves);
  }
}

// Maximum or Minimum of n >= kLanes dense elements; NaN if one is. Apart from NaN a step is one
// instruction, and elements may be seen twice.
template <typename Fn, typename C, typename T>
CHX_HD C FoldExtreme(const T* x, int64_t n) {
  using Mask = std::conditional_t<sizeof(C) == 8, int64_t, int32_t>;
  const auto better = [](C a, C b) {
    if constexpr (std::is_same<Fn, kernels::Maximum>::value) {
      return a > b ? a : b;
    } else {
      return a < b ? a : b;
    }
  };
  C lanes[kLanes];
  Mask numbers[kLanes];  // 0: there was a NaN
  for (int l = 0; l < kLanes; ++l) {
    lanes[l] = static_cast<C>(Load(x[l]));
    numbers[l] = -1;
  }
  const auto look = [&](const T* at) {
    for (int l = 0; l < kLanes; ++l) {
      const C value = static_cast<C>(Load(at[l]));
      lanes[l] = better(value, lanes[l]);
      if constexpr (kernels::kIsFloat<C>) numbers[l] = value == value ? numbers[l] : 0;
    }
  };
  for (int64_t i = 0; i + kLanes <= n; i += kLanes) look(x + i);
  look(x + n - kLanes);
  if constexpr (kernels::kIsFloat<C>) {
    if (FoldLanes<kernels::BitwiseAnd, kLanes>(numbers) == 0) {
      return std::numeric_limits<C>::quiet_NaN();
    }
  }
  return FoldLanes<Fn, kLanes>(lanes);
}

// Folds n dense elements (n > 0) by an associative functor: few in order, from `identity` on; from
// kLanes on in independent chains, element i in chain i % kLanes, without `identity`. Extremes are
// FoldExtreme's then: which zero of both signs it is may differ, and which NaN.
template <typename Fn, typename C, typename T>
CHX_HD C FoldDense(const T* x, int64_t n, C identity) {
  const Fn fn;
  if (n < kLanes) {
    C total = identity;
    for (int64_t i = 0; i < n; ++i) total = fn(total, static_cast<C>(Load(x[i])));
    return total;
  }
  if constexpr (std::is_same<Fn, kernels::Maximum>::value ||
                std::is_same<Fn, kernels::Minimum>::value) {
    return FoldExtreme<Fn, C>(x, n);
  }
  C lanes[kLanes];
  for (int l = 0; l < kLanes; ++l) lanes[l] = static_cast<C>(Load(x[l]));
  int64_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] = fn(lanes[l], static_cast<C>(Load(x[i + l])));
  }
  const int rest = static_cast<int>(n - i);
  for (int l = 0; l < rest; ++l) lanes[l] = fn(lanes[l], static_cast<C>(Load(x[i + l])));
  return FoldLanes<Fn, kLanes>(lanes);
}

}  // namespace chx::server::native::CHX_ISA

#endif  // CHX_SERVER_NATIVE_LOOPS_FOLD_H_
