// Sums over dense elements, by blocks.
// Included only by files that are compiled once per instruction set (parts.h).
#ifndef CHX_SERVER_NATIVE_LOOPS_SUMS_H_
#define CHX_SERVER_NATIVE_LOOPS_SUMS_H_

#include <cstdint>

#include "server/native/loops/elements.h"
#include "server/native/loops/fold.h"

namespace chx::server::native::CHX_ISA {

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

// Of f, of it times g, and of g squared, in one pass.
struct Sums {
  double of_f = 0;
  double of_product = 0;
  double of_square = 0;
};
template <typename C, typename F, typename G>
CHX_HD Sums SumsOf(int64_t n, F f, G g) {
  Sums total;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    if (StopBefore(begin)) return total;
    const int64_t end = n - begin < kBlock ? n : begin + kBlock;
    C sums[kChains] = {};
    C products[kChains] = {};
    C squares[kChains] = {};
    int64_t i = begin;
    for (; i + kChains <= end; i += kChains) {
      for (int l = 0; l < kChains; ++l) {
        const C value = f(i + l);
        const C factor = g(i + l);
        sums[l] += value;
        products[l] += value * factor;
        squares[l] += factor * factor;
      }
    }
    C sum = C(0);
    C product = C(0);
    C square = C(0);
    for (; i < end; ++i) {
      const C value = f(i);
      const C factor = g(i);
      sum += value;
      product += value * factor;
      square += factor * factor;
    }
    total.of_f += Total(sums) + static_cast<double>(sum);
    total.of_product += Total(products) + static_cast<double>(product);
    total.of_square += Total(squares) + static_cast<double>(square);
  }
  return total;
}

}  // namespace chx::server::native::CHX_ISA

#endif  // CHX_SERVER_NATIVE_LOOPS_SUMS_H_
