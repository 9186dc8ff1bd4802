// Sums over dense elements, by blocks.
// Included only by files that are compiled once per instruction set (parts.h).
#ifndef CHX_SERVER_NATIVE_LOOPS_SUMS_H_
#define CHX_SERVER_NATIVE_LOOPS_SUMS_H_

#include <cstdint>
#include <cstring>

#include "server/kernels/elementwise_fns.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/fold.h"

namespace chx::server::native::CHX_ISA {

// Independent chains of additions: enough to hide how long one takes; fewer where there are few
// elements, which would be left over.
inline constexpr int kChains = 32;
inline constexpr int kFewChains = 8;
inline constexpr int64_t kFew = 8 * kChains;

template <int kCount, typename C>
CHX_HD double Total(const C* lanes) {
  return static_cast<double>(FoldLanes<kernels::Add, kCount>(lanes));
}

// f(begin) + ... + f(end - 1), as C.
template <int kCount, typename C, typename F>
CHX_HD double SumOfBlock(int64_t begin, int64_t end, F f) {
  C lanes[kCount] = {};
  int64_t i = begin;
  for (; i + kCount <= end; i += kCount) {
    for (int l = 0; l < kCount; ++l) lanes[l] += f(i + l);
  }
  C rest = C(0);
  for (; i < end; ++i) rest += f(i);
  return Total<kCount>(lanes) + static_cast<double>(rest);
}

// f(0) + ... + f(n - 1), by blocks that are summed as C.
template <typename C, typename F>
CHX_HD double SumOf(int64_t n, F f) {
  if (n < kFew) return SumOfBlock<kFewChains, C>(0, n, f);
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    if (StopBefore(begin)) return total;
    total += SumOfBlock<kChains, C>(begin, n - begin < kBlock ? n : begin + kBlock, f);
  }
  return total;
}

// Of f, of it times g, and of g squared, in one pass.
struct Sums {
  double of_f = 0;
  double of_product = 0;
  double of_square = 0;

  CHX_HD void Add(const Sums& other, double weight) {
    of_f += weight * other.of_f;
    of_product += weight * other.of_product;
    of_square += other.of_square;
  }
};

// Of less than kFew elements. By the compiler's vectors: it does not find them for so few.
template <typename C, typename F, typename G>
CHX_HD Sums SumsOfFew(int64_t n, F f, G g) {
  typedef C Vector __attribute__((vector_size(kFewChains * sizeof(C))));  // NOLINT
  Vector sums = {};
  Vector products = {};
  Vector squares = {};
  int64_t i = 0;
  for (; i + kFewChains <= n; i += kFewChains) {
    C lanes[kFewChains];
    Vector value;
    Vector factor;
    CHX_LANES
    for (int l = 0; l < kFewChains; ++l) lanes[l] = f(i + l);
    std::memcpy(&value, lanes, sizeof(value));
    CHX_LANES
    for (int l = 0; l < kFewChains; ++l) lanes[l] = g(i + l);
    std::memcpy(&factor, lanes, sizeof(factor));
    sums += value;
    products += value * factor;
    squares += factor * factor;
  }
  C sum = C(0);
  C product = C(0);
  C square = C(0);
  for (; i < n; ++i) {
    const C value = f(i);
    const C factor = g(i);
    sum += value;
    product += value * factor;
    square += factor * factor;
  }
  const auto total = [](const Vector& chains, C rest) {
    C lanes[kFewChains];
    std::memcpy(lanes, &chains, sizeof(lanes));
    return Total<kFewChains>(lanes) + static_cast<double>(rest);
  };
  return {total(sums, sum), total(products, product), total(squares, square)};
}

template <typename C, typename F, typename G>
CHX_HD Sums SumsOf(int64_t n, F f, G g) {
  if (n < kFew) return SumsOfFew<C>(n, f, g);
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
    Sums rest;
    for (; i < end; ++i) {
      const auto value = static_cast<double>(f(i));
      const auto factor = static_cast<double>(g(i));
      rest.Add({value, value * factor, factor * factor}, 1);
    }
    total.Add({Total<kChains>(sums), Total<kChains>(products), Total<kChains>(squares)}, 1);
    total.Add(rest, 1);
  }
  return total;
}

}  // namespace chx::server::native::CHX_ISA

#endif  // CHX_SERVER_NATIVE_LOOPS_SUMS_H_
