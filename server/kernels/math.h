// Scalar mathematics for host and device: float versions of exp, log, tanh and sigmoid that
// compilers vectorise, and integer arithmetic that wraps around and never traps.
//
// Largest errors found against double precision (math_test.cc, every 97th float):
// exp 1.0 ulp, log 0.8 ulp, tanh 1.4 ulp, sigmoid 2.3 ulp; infinities, NaNs, subnormals included.
// Fused multiply-adds are written as such, so that every instruction set gives the same bits (with
// -ffp-contract=off).
#ifndef CHX_SERVER_KERNELS_MATH_H_
#define CHX_SERVER_KERNELS_MATH_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "server/kernels/half.h"
#include "server/kernels/host_device.h"

namespace chx::server::kernels {

// a * b + c, rounded once. Slow on processors that have no instruction for it.
CHX_HD float Fma(float a, float b, float c) { return ::fmaf(a, b, c); }
CHX_HD double Fma(double a, double b, double c) { return ::fma(a, b, c); }

#ifndef __CUDA_ARCH__
namespace host {

// 2^n for an integral n in [-126, 127]; any float for others.
CHX_HD float Exp2Int(int32_t n) { return BitCast<float>((static_cast<uint32_t>(n) + 127) << 23); }

// exp(r) - 1 for |r| up to log(2) / 2.
CHX_HD float Expm1Near0(float r) {
  float p = 1.9875691500e-4f;
  p = Fma(p, r, 1.3981999507e-3f);
  p = Fma(p, r, 8.3334519073e-3f);
  p = Fma(p, r, 4.1665795894e-2f);
  p = Fma(p, r, 1.6666665459e-1f);
  p = Fma(p, r, 5.0000001201e-1f);
  return Fma(p, r * r, r);
}

// exp(x) = 2^n * exp(r), |r| <= ln(2) / 2; the polynomial is Cephes' expf.
CHX_HD float ExpFloat(float x) {
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it leaves an integer
  // Beyond these the result is infinity or 0 in any case; NaN passes through.
  float bounded = x > 89.0f ? 89.0f : x;
  bounded = bounded < -104.0f ? -104.0f : bounded;
  const float rounded = Fma(bounded, 1.44269504088896341f, kRounder);
  const float n = rounded - kRounder;
  const int32_t exponent = static_cast<int32_t>(BitCast<uint32_t>(rounded) - 0x4b400000u);
  const float r = Fma(n, 2.12194440e-4f, Fma(n, -0.693359375f, bounded));
  const float y = Expm1Near0(r) + 1.0f;
  // In two steps, so that results near the largest and the subnormal ones come out right. A NaN
  // has made `exponent` meaningless, but is in y.
  const int32_t half = exponent >> 1;
  const int32_t rest = static_cast<int32_t>(static_cast<uint32_t>(exponent) - half);
  return y * Exp2Int(half) * Exp2Int(rest);
}

// log(x) = e * ln(2) + log(m), m in [sqrt(1/2), sqrt(2)); the polynomial is Cephes' logf.
CHX_HD float LogFloat(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const float scaled = subnormal ? x * 8388608.0f : x;
  const uint32_t bits = BitCast<uint32_t>(scaled);
  // Shifts sqrt(1/2) to a power of 2, so that the exponent field splits there.
  const uint32_t shifted = bits - 0x3f3504f3u;
  const int32_t exponent = static_cast<int32_t>(shifted) >> 23;
  const float m = BitCast<float>((shifted & 0x007fffffu) + 0x3f3504f3u);
  const float e = static_cast<float>(exponent) - (subnormal ? 23.0f : 0.0f);
  const float r = m - 1.0f;
  float p = 7.0376836292e-2f;
  p = Fma(p, r, -1.1514610310e-1f);
  p = Fma(p, r, 1.1676998740e-1f);
  p = Fma(p, r, -1.2420140846e-1f);
  p = Fma(p, r, 1.4249322787e-1f);
  p = Fma(p, r, -1.6668057665e-1f);
  p = Fma(p, r, 2.0000714765e-1f);
  p = Fma(p, r, -2.4999993993e-1f);
  p = Fma(p, r, 3.3333331174e-1f);
  const float square = r * r;
  float y = r * square * p;
  y = y + e * -2.12194440e-4f;
  y = y - 0.5f * square;
  float result = (r + y) + e * 0.693359375f;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  result = x == kInf ? kInf : result;
  result = x == 0.0f ? -kInf : result;
  // Also catches NaN.
  return x >= 0.0f ? result : std::numeric_limits<float>::quiet_NaN();
}

CHX_HD float TanhFloat(float x) {
  const float magnitude = std::fabs(x);
  const float square = x * x;
  float p = -5.70498872745e-3f;
  p = Fma(p, square, 2.06390887954e-2f);
  p = Fma(p, square, -5.37397155531e-2f);
  p = Fma(p, square, 1.33314422036e-1f);
  p = Fma(p, square, -3.33332819422e-1f);
  const float small = Fma(p * square, x, x);
  const float large = 1.0f - 2.0f / (ExpFloat(magnitude + magnitude) + 1.0f);
  return std::copysign(magnitude < 0.625f ? small : large, x);
}

}  // namespace host
#endif  // __CUDA_ARCH__

CHX_HD float Exp(float x) {
#ifdef __CUDA_ARCH__
  return ::expf(x);
#else
  return host::ExpFloat(x);
#endif
}
CHX_HD double Exp(double x) { return ::exp(x); }

CHX_HD float Log(float x) {
#ifdef __CUDA_ARCH__
  return ::logf(x);
#else
  return host::LogFloat(x);
#endif
}
CHX_HD double Log(double x) { return ::log(x); }

CHX_HD float Tanh(float x) {
#ifdef __CUDA_ARCH__
  return ::tanhf(x);
#else
  return host::TanhFloat(x);
#endif
}
CHX_HD double Tanh(double x) { return ::tanh(x); }

// exp of a non-positive number only: no overflow, and exact where the result is subnormal.
template <typename T>
CHX_HD T Sigmoid(T x) {
  const T z = Exp(-std::fabs(x));
  return (x < T(0) ? z : T(1)) / (T(1) + z);
}

CHX_HD float Sqrt(float x) { return ::sqrtf(x); }
CHX_HD double Sqrt(double x) { return ::sqrt(x); }

// The unsigned type to do T's arithmetic in: at least 32 bits, because narrower ones would be
// promoted to int, where overflow is undefined.
template <typename T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

template <typename T>
CHX_HD T WrapAdd(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <typename T>
CHX_HD T WrapSubtract(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <typename T>
CHX_HD T WrapMultiply(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}

// Rounds to minus infinity; a / 0 is 0, and the smallest number / -1 wraps around to itself.
template <typename T>
CHX_HD T IntFloorDivide(T a, T b) {
  if (b == T(0)) return T(0);
  if constexpr (std::is_signed<T>::value) {
    if (b == T(-1)) return WrapSubtract(T(0), a);
    const T quotient = static_cast<T>(a / b);
    const bool inexact = quotient * b != a;
    return static_cast<T>(quotient - (inexact && (a < 0) != (b < 0) ? 1 : 0));
  } else {
    return static_cast<T>(a / b);
  }
}

// Of the divisor's sign; a % 0 is 0.
template <typename T>
CHX_HD T IntRemainder(T a, T b) {
  if (b == T(0)) return T(0);
  if constexpr (std::is_signed<T>::value) {
    if (b == T(-1)) return T(0);
    const T rest = static_cast<T>(a % b);
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  } else {
    return static_cast<T>(a % b);
  }
}

// Of the dividend's sign; 0 for a divisor of 0.
template <typename T>
CHX_HD T IntFmod(T a, T b) {
  if (b == T(0)) return T(0);
  // The smallest number % -1 traps on x86.
  if constexpr (std::is_signed<T>::value) {
    if (b == T(-1)) return T(0);
  }
  return static_cast<T>(a % b);
}

// Wraps around. Negative exponents round towards zero; 0 to a negative power is 0.
template <typename T>
CHX_HD T IntPower(T base, T exponent) {
  if constexpr (std::is_signed<T>::value) {
    if (exponent < 0) {
      if (base == T(1)) return T(1);
      if (base == T(-1)) return (exponent & 1) != 0 ? T(-1) : T(1);
      return T(0);
    }
  }
  T result = 1;
  for (T e = exponent; e != 0; e = static_cast<T>(e >> 1)) {
    if ((e & 1) != 0) result = WrapMultiply(result, base);
    base = WrapMultiply(base, base);
  }
  return result;
}

// Python's float %: of the divisor's sign; NaN for a divisor of 0. `rest` is fmod(a, b).
template <typename T>
CHX_HD T FloatRemainder(T a, T b, T rest) {
  const T moved = (rest < T(0)) != (b < T(0)) ? rest + b : rest;
  const T result = rest == T(0) ? std::copysign(T(0), b) : moved;
  return b == T(0) ? rest : result;
}

// Python's float //, consistent with the remainder; a / 0 is an infinity or NaN. `rest` as above.
template <typename T>
CHX_HD T FloatFloorDivide(T a, T b, T rest) {
  T quotient = (a - rest) / b;
  quotient -= rest != T(0) && (rest < T(0)) != (b < T(0)) ? T(1) : T(0);
  const T floor = std::floor(quotient);
  const T rounded = quotient - floor > T(0.5) ? floor + T(1) : floor;
  const T result = quotient == T(0) ? std::copysign(T(0), a / b) : rounded;
  return b == T(0) ? a / b : result;
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_MATH_H_
