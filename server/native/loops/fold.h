// Folding dense elements, and stopping in long rows.
// Included only by files that are compiled once per instruction set (parts.h).
#ifndef CHX_SERVER_NATIVE_LOOPS_FOLD_H_
#define CHX_SERVER_NATIVE_LOOPS_FOLD_H_

#include <cstdint>

#include "server/engine/stop_requested.h"
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

// Folds n dense elements (n > 0) by an associative functor, in kLanes independent chains.
template <typename Fn, typename C, typename T>
CHX_HD C FoldDense(const T* x, int64_t n, C identity) {
  const Fn fn;
  C total = identity;
  int64_t i = 0;
  if (n >= kLanes) {
    C lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = static_cast<C>(Load(x[l]));
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] = fn(lanes[l], static_cast<C>(Load(x[i + l])));
    }
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int l = 0; l < width; ++l) lanes[l] = fn(lanes[l], lanes[l + width]);
    }
    total = lanes[0];
  }
  for (; i < n; ++i) total = fn(total, static_cast<C>(Load(x[i])));
  return total;
}

}  // namespace chx::server::native::CHX_ISA

#endif  // CHX_SERVER_NATIVE_LOOPS_FOLD_H_
