// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), and how its
// bits become array elements. Element i of an array depends on seed, counter and i only, so every
// backend and every number of threads gives the same one.
#ifndef CHX_SERVER_KERNELS_PHILOX_H_
#define CHX_SERVER_KERNELS_PHILOX_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "server/kernels/float_bits.h"
#include "server/kernels/host_device.h"
#include "server/kernels/types.h"

namespace chx::server::kernels {

struct PhiloxBlock {
  uint32_t words[4];
};

// `stream` tells blocks of one counter apart.
CHX_HD PhiloxBlock Philox(uint64_t seed, uint64_t counter, uint32_t stream = 0) {
  uint32_t c0 = static_cast<uint32_t>(counter);
  uint32_t c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = stream;
  uint32_t c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed);
  uint32_t k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

// The seed that an array has as a key.
CHX_HD uint64_t PhiloxSeed(double key) { return BitCast<uint64_t>(key); }

// Elements that one block of 128 bits makes: 2 for float64, 4 for the smaller floats. An array of
// n elements uses the blocks counter ... counter + (n - 1) / kPerBlock.
template <typename T>
inline constexpr int kPhiloxPerBlock = sizeof(T) == 8 ? 2 : 4;

// In [0, 1), with as many bits as T's significand holds, or 11 for bfloat16: exact in T but for
// that, and in any wider Real.
template <typename T, typename Real = double>
CHX_HD Real PhiloxUnit(const PhiloxBlock& block, int index) {
  if constexpr (sizeof(T) == 8) {
    const uint64_t bits = (uint64_t{block.words[2 * index + 1]} << 32) | block.words[2 * index];
    return static_cast<Real>(bits >> 11) * Real(0x1p-53);
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<Real>(block.words[index] >> 8) * Real(0x1p-24);
  } else {
    return static_cast<Real>(block.words[index] >> 21) * Real(0x1p-11);
  }
}

// The largest number below x, which is finite and not 0.
template <typename T>
CHX_HD T NextBelow(T x) {
  using Bits = typename std::conditional<
      sizeof(T) == 8, uint64_t,
      typename std::conditional<sizeof(T) == 4, uint32_t, uint16_t>::type>::type;
  const Bits bits = BitCast<Bits>(x);
  return BitCast<T>(static_cast<Bits>(Cast<double>(x) > 0 ? bits - 1 : bits + 1));
}

// A number from [low, high) that has been rounded to y: where that is high, the number of T below
// it, unless this is below low, too.
template <typename T>
CHX_HD T BelowEnd(T y, double low, double high) {
  if (!(low < high && Cast<double>(y) >= high)) return y;
  const T below = Cast<double>(y) == 0 ? Cast<T>(low) : NextBelow(y);
  return Cast<double>(below) >= low ? below : y;
}

// low + unit * (high - low), rounded after each step: no fused multiply-add on any backend.
template <typename T>
CHX_HD T PhiloxUniform(const PhiloxBlock& block, int index, double low, double high) {
  const double unit = PhiloxUnit<T>(block, index);
#ifdef __CUDA_ARCH__
  const T y = Cast<T>(__dadd_rn(low, __dmul_rn(unit, __dsub_rn(high, low))));
#else
  const T y = Cast<T>(low + unit * (high - low));
#endif
  return BelowEnd(y, low, high);
}

// Fills out[0 ... kPhiloxPerBlock<T>) with normal numbers by the Box-Muller transform, in float
// for the smaller floats. Equal over backends up to the rounding of log, sin and cos.
template <typename T>
CHX_HD void PhiloxNormal(const PhiloxBlock& block, double loc, double scale, T* out) {
  using Real = typename std::conditional<sizeof(T) == 8, double, float>::type;
  for (int pair = 0; pair < kPhiloxPerBlock<T>; pair += 2) {
    Real first;
    Real second;
    if constexpr (sizeof(T) == 8) {
      first = PhiloxUnit<double>(block, pair);
      second = PhiloxUnit<double>(block, pair + 1);
    } else {
      first = static_cast<float>(PhiloxUnit<float>(block, pair));
      second = static_cast<float>(PhiloxUnit<float>(block, pair + 1));
    }
    // 1 - first is in (0, 1]: its logarithm is finite.
    const Real radius = std::sqrt(Real(-2) * std::log(Real(1) - first));
    const Real angle = Real(6.283185307179586476925) * second;
    out[pair] = Cast<T>(loc + scale * static_cast<double>(radius * std::cos(angle)));
    out[pair + 1] = Cast<T>(loc + scale * static_cast<double>(radius * std::sin(angle)));
  }
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_PHILOX_H_
