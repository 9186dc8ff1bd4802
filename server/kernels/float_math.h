// Float versions of elementary functions that compilers vectorise, for the host; devices and double
// use their C library's.
//
// Largest errors found against double precision (float_math_test.cc): 1 ulp and less where
// the work is done in double, up to 2.5 ulp where it is done in float; special values are C99's.
// The polynomials are minimax fits made for this file.
#ifndef CHX_SERVER_KERNELS_FLOAT_MATH_H_
#define CHX_SERVER_KERNELS_FLOAT_MATH_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "server/kernels/half.h"
#include "server/kernels/host_device.h"
#include "server/kernels/math.h"

namespace chx::server::kernels {

#ifndef __CUDA_ARCH__
namespace host {

inline constexpr double kDoubleRounder = 6755399441055744.0;  // 1.5 * 2^52, as kRounder in ExpFloat
inline constexpr float kFloatInf = std::numeric_limits<float>::infinity();
inline constexpr float kFloatNan = std::numeric_limits<float>::quiet_NaN();

// 2^t, to 2^-34; t is bounded by what a float can still tell from 0 and infinity.
CHX_HD double Exp2Double(double t) {
  double bounded = t > 200.0 ? 200.0 : t;
  bounded = bounded < -200.0 ? -200.0 : bounded;
  const double rounded = bounded + kDoubleRounder;
  const double f = bounded - (rounded - kDoubleRounder);
  double p = 1.5201928657274308e-05;
  p = Fma(p, f, 1.5469292228075806e-04);
  p = Fma(p, f, 1.3333922541673227e-03);
  p = Fma(p, f, 9.61802725048123e-03);
  p = Fma(p, f, 5.550410353466001e-02);
  p = Fma(p, f, 2.4022651198170034e-01);
  p = Fma(p, f, 6.931471807284337e-01);
  p = Fma(p, f, 9.999999999616884e-01);
  return p * BitCast<double>((BitCast<uint64_t>(rounded) + 1023) << 52);
}

// log2 of a positive, finite, normal x, to a relative 2^-45.
CHX_HD double Log2Double(double x) {
  // The distance to sqrt(1/2), so that the exponent field splits there.
  const uint64_t shifted = BitCast<uint64_t>(x) - 0x3fe6a09e667f3bcdu;
  const double m = BitCast<double>((shifted & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
  // The exponent, biased to be positive, becomes a double by its bits.
  const uint64_t biased = (shifted + 0x3ff0000000000000u) >> 52;
  const double e = BitCast<double>(biased | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 2.8290202466170283e-01;
  p = Fma(p, z, 3.199055629461016e-01);
  p = Fma(p, z, 4.122092558225144e-01);
  p = Fma(p, z, 5.770779423269906e-01);
  p = Fma(p, z, 9.617966941135062e-01);
  p = Fma(p, z, 2.88539008177785);
  return Fma(s, p, e);
}

// log2 of any float, times a factor, rounded once.
CHX_HD float ScaledLog(double x, double factor) {
  float y = static_cast<float>(Log2Double(x) * factor);
  y = x > 1e300 ? kFloatInf : y;
  y = x == 0.0 ? -kFloatInf : y;
  return x >= 0.0 ? y : kFloatNan;
}

inline constexpr double kLn2 = 0.6931471805599453;
inline constexpr double kLog2E = 1.4426950408889634;
inline constexpr double kLog10Of2 = 0.30102999566398120;

CHX_HD float Exp2Float(float x) { return static_cast<float>(Exp2Double(x)); }
CHX_HD float Log2Float(float x) { return ScaledLog(x, 1.0); }
CHX_HD float Log10Float(float x) { return ScaledLog(x, kLog10Of2); }

// exp(x) - 1 = 2^n * (expm1(r) + 1 - 2^-n), with r and n of ExpFloat.
CHX_HD float Expm1Float(float x) {
  constexpr float kRounder = 12582912.0f;
  float bounded = x > 89.0f ? 89.0f : x;
  bounded = bounded < -18.0f ? -18.0f : bounded;
  const float rounded = Fma(bounded, 1.44269504088896341f, kRounder);
  const float n = rounded - kRounder;
  const uint32_t exponent = BitCast<uint32_t>(rounded) - 0x4b400000u;
  const float r = Fma(n, 2.12194440e-4f, Fma(n, -0.693359375f, bounded));
  const float expm1 = Expm1Near0(r);
  // n is in [-26, 128]; 2^-n is a subnormal at its end, where it does not count. 2^n in two steps.
  const float inverse = BitCast<float>((127u - exponent) << 23);
  const float y = (expm1 + (1.0f - (n > 64.0f ? 0.0f : inverse))) *
                  BitCast<float>((126u + exponent) << 23) * 2.0f;
  return x == 0.0f ? x : y;
}

// log(u) and what rounding took from u = 1 + x.
CHX_HD float Log1pFloat(float x) {
  const float u = 1.0f + x;
  const float y = LogFloat(u) + (x - (u - 1.0f)) / u;
  // Infinite, or so small that u is 1; -1 has made a NaN of the correction.
  const bool same = x == kFloatInf || std::fabs(x) < 5.9604645e-8f;
  return same ? x : (x == -1.0f ? -kFloatInf : y);
}

// For x from 0 to 1: log((1 + s) / (1 - s)), which is odd in s.
CHX_HD float Log1pUnitFloat(float x) {
  const float s = x / (x + 2.0f);
  const float z = s * s;
  float p = 0.28178334f;
  p = Fma(p, z, 0.279606f);
  p = Fma(p, z, 0.4002491f);
  p = Fma(p, z, 0.66666317f);
  return Fma(p * z, s, s + s);
}

// The sign is the argument's, for zeros and NaNs as well.
CHX_HD float ErfFloat(float x) {
  const float magnitude = std::fabs(x);
  const float z = magnitude * magnitude;
  float p = 8.38239e-05f;
  p = Fma(p, z, -8.145597e-04f);
  p = Fma(p, z, 5.201286e-03f);
  p = Fma(p, z, -2.68595e-02f);
  p = Fma(p, z, 1.1283697e-01f);
  p = Fma(p, z, -3.7612635e-01f);
  p = Fma(p, z, 1.2837917e-01f);
  const float small = Fma(p, magnitude, magnitude);
  // 1 - exp(-q), q = -log(erfc); beyond 4 that is 1.
  const float t = magnitude > 4.0f ? 4.0f : magnitude;
  float q = 2.1095235e-05f;
  q = Fma(q, t, -4.3446457e-04f);
  q = Fma(q, t, 4.1710716e-03f);
  q = Fma(q, t, -2.5119448e-02f);
  q = Fma(q, t, 1.08280115e-01f);
  q = Fma(q, t, 6.3334686e-01f);
  q = Fma(q, t, 1.1295149f);
  q = Fma(q, t, -1.7468634e-04f);
  const float large = 1.0f - ExpFloat(-q);
  return std::copysign(magnitude < 0.92f ? small : large, x);
}

// The part of the standard normal distribution that is below x: to 1e-7, from -5 on to 1e-4 of
// itself; 0 below -8. Beyond |x| it is 2^-p, where p is a polynomial.
CHX_HD float NormalBelowFloat(float x) {
  constexpr float kRounder = 12582912.0f;
  float t = std::fabs(x);
  t = t > 8.0f ? 8.0f : t;
  float p = -1.92829759e-07f;
  p = Fma(p, t, 4.63583865e-06f);
  p = Fma(p, t, -4.42702003e-05f);
  p = Fma(p, t, 1.8433979e-04f);
  p = Fma(p, t, 1.68122831e-04f);
  p = Fma(p, t, -7.1199853e-03f);
  p = Fma(p, t, 5.25386892e-02f);
  p = Fma(p, t, 4.59194839e-01f);
  p = Fma(p, t, 1.15110648f);
  p = Fma(p, t, 1.0f);
  const float rounded = p + kRounder;
  const float f = (rounded - kRounder) - p;
  float y = 1.5353362e-04f;
  y = Fma(y, f, 1.3398875e-03f);
  y = Fma(y, f, 9.618437e-03f);
  y = Fma(y, f, 5.5503324e-02f);
  y = Fma(y, f, 2.4022648e-01f);
  y = Fma(y, f, 6.9314718e-01f);
  y = Fma(y, f, 1.0f);
  // The exponent field takes the low bits of `rounded`; less what there is at 8.
  const float beyond =
      BitCast<float>(BitCast<uint32_t>(y) - (BitCast<uint32_t>(rounded) << 23)) - 0x1.b7830cp-51f;
  return x > 0.0f ? 1.0f - beyond : beyond;
}

// atan(low / high) for 0 <= low <= high.
CHX_HD float AtanOfRatio(float low, float high) {
  const bool steep = low > 0.41421357f * high;
  const float t = (steep ? low - high : low) / (steep ? low + high : high);
  const float z = t * t;
  float p = -6.0781155e-02f;
  p = Fma(p, z, 1.05937734e-01f);
  p = Fma(p, z, -1.4243528e-01f);
  p = Fma(p, z, 1.9998471e-01f);
  p = Fma(p, z, -3.3333316e-01f);
  const float y = Fma(p * z, t, t);
  // pi / 4 in two parts.
  return steep ? (y - 2.1855694e-08f) + 0.78539819f : y;
}

CHX_HD float AtanFloat(float x) {
  const float magnitude = std::fabs(x);
  const bool beyond = magnitude > 1.0f;
  const float y = AtanOfRatio(beyond ? 1.0f : magnitude, beyond ? magnitude : 1.0f);
  return std::copysign(beyond ? 1.5707964f - (y + 4.3711388e-08f) : y, x);
}

// For numbers that neither overflow when added nor are both zero.
CHX_HD bool IsUsualForAtan2(float y, float x) {
  const float a = std::fabs(y);
  const float b = std::fabs(x);
  return (a <= 1e38f) & (b <= 1e38f) & (a + b > 0.0f);
}
CHX_HD float Atan2Usual(float y, float x) {
  const float a = std::fabs(y);
  const float b = std::fabs(x);
  const bool beyond = a > b;
  float angle = AtanOfRatio(beyond ? b : a, beyond ? a : b);
  angle = beyond ? 1.5707964f - (angle + 4.3711388e-08f) : angle;
  angle = x < 0.0f ? 3.1415927f - (angle + 8.7422777e-08f) : angle;
  return std::copysign(angle, y);
}

// asin(x) of 0 <= x <= 1/2.
CHX_HD float AsinOfHalf(float x) {
  const float z = x * x;
  float p = 4.2166326e-02f;
  p = Fma(p, z, 2.4179503e-02f);
  p = Fma(p, z, 4.547038e-02f);
  p = Fma(p, z, 7.4952975e-02f);
  p = Fma(p, z, 1.6666752e-01f);
  return Fma(p * z, x, x);
}
CHX_HD float AsinFloat(float x) {
  const float magnitude = std::fabs(x);
  const bool beyond = magnitude > 0.5f;
  const float y = AsinOfHalf(beyond ? ::sqrtf((1.0f - magnitude) * 0.5f) : magnitude);
  return std::copysign(beyond ? 1.5707964f - (y + y + 4.3711388e-08f) : y, x);
}
CHX_HD float AcosFloat(float x) {
  const float magnitude = std::fabs(x);
  const bool beyond = magnitude > 0.5f;
  const float y = AsinOfHalf(beyond ? ::sqrtf((1.0f - magnitude) * 0.5f) : magnitude);
  const float middle = 1.5707964f - (std::copysign(y, x) + 4.3711388e-08f);
  const float end = x > 0.0f ? y + y : 3.1415927f - (y + y + 8.7422777e-08f);
  return beyond ? end : middle;
}

// Half of exp(x) minus or plus its inverse, in double, where neither cancellation nor overflow
// harms.
CHX_HD float SinhFloat(float x) {
  const double magnitude = std::fabs(x);
  const double e = Exp2Double(magnitude * kLog2E);
  const double z = magnitude * magnitude;
  const double small = ((z * (1.0 / 120) + 1.0 / 6) * z + 1.0) * magnitude;
  return std::copysign(static_cast<float>(magnitude < 0.06 ? small : 0.5 * (e - 1.0 / e)), x);
}
CHX_HD float CoshFloat(float x) {
  const double e = Exp2Double(std::fabs(x) * kLog2E);
  return static_cast<float>(0.5 * (e + 1.0 / e));
}
CHX_HD float AsinhFloat(float x) {
  const double magnitude = std::fabs(x);
  const double z = magnitude * magnitude;
  const float y = ScaledLog(magnitude + ::sqrt(z + 1.0), kLn2);
  const float small = static_cast<float>(magnitude - magnitude * z * (1.0 / 6));
  return std::copysign(magnitude < 2e-3 ? small : y, x);
}
CHX_HD float AcoshFloat(float x) {
  const double y = x;
  const float result = ScaledLog(y + ::sqrt(y * y - 1.0), kLn2);
  return x >= 1.0f ? result : kFloatNan;
}
CHX_HD float AtanhFloat(float x) {
  const double magnitude = std::fabs(x);
  const float y = ScaledLog((1.0 + magnitude) / (1.0 - magnitude), 0.5 * kLn2);
  const float small = static_cast<float>(magnitude + magnitude * magnitude * magnitude / 3.0);
  const float inside = magnitude < 2e-3 ? small : y;
  return std::copysign(magnitude == 1.0 ? kFloatInf : inside, x);
}

// The remainder of a division by pi / 2, and the quotient's low bits.
struct Quadrant {
  float r;
  uint32_t quotient;
};
CHX_HD bool IsUsualForSin(float x) { return std::fabs(x) <= 1048576.0f; }
CHX_HD Quadrant QuadrantOf(float x) {
  const double wide = x;
  const double rounded = wide * 0.63661977236758134 + kDoubleRounder;
  const double n = rounded - kDoubleRounder;
  // The first part of pi / 2 has 33 bits: its product is exact.
  const double r = (wide - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;
  return {static_cast<float>(r), static_cast<uint32_t>(BitCast<uint64_t>(rounded))};
}
CHX_HD float SinOfQuadrant(float r, float z) {
  float p = -1.9515256e-04f;
  p = Fma(p, z, 8.33216e-03f);
  p = Fma(p, z, -1.6666655e-01f);
  return Fma(p * z, r, r);
}
CHX_HD float CosOfQuadrant(float z) {
  float p = 2.4433128e-05f;
  p = Fma(p, z, -1.3887316e-03f);
  p = Fma(p, z, 4.1666646e-02f);
  return Fma(Fma(p, z, -0.5f), z, 1.0f);
}
CHX_HD float SinOrCos(const Quadrant& of, uint32_t quotient) {
  const float z = of.r * of.r;
  const float y = (quotient & 1) != 0 ? CosOfQuadrant(z) : SinOfQuadrant(of.r, z);
  return BitCast<float>(BitCast<uint32_t>(y) ^ ((quotient & 2) << 30));
}
CHX_HD float SinUsual(float x) {
  const Quadrant of = QuadrantOf(x);
  return x == 0.0f ? x : SinOrCos(of, of.quotient);
}
CHX_HD float CosUsual(float x) {
  const Quadrant of = QuadrantOf(x);
  return SinOrCos(of, of.quotient + 1);
}
CHX_HD float TanUsual(float x) {
  const Quadrant of = QuadrantOf(x);
  const float z = of.r * of.r;
  const float sin = SinOfQuadrant(of.r, z);
  const float cos = CosOfQuadrant(z);
  const bool odd = (of.quotient & 1) != 0;
  const float y = (odd ? -cos : sin) / (odd ? sin : cos);
  return x == 0.0f ? x : y;
}

// Finite; a negative x has integral powers only.
CHX_HD bool IsUsualForPow(float x, float y) {
  constexpr float kMax = std::numeric_limits<float>::max();
  return (std::fabs(x) <= kMax) & (std::fabs(y) <= kMax) & ((x >= 0.0f) | (y == std::floor(y)));
}
CHX_HD float PowUsual(float x, float y) {
  const double magnitude = std::fabs(x);
  // The logarithm of 0 is so large that any power but 0 gives 0 or infinity.
  const double log2 = magnitude == 0.0 ? -1e300 : Log2Double(magnitude == 0.0 ? 1.0 : magnitude);
  const float p = static_cast<float>(Exp2Double(static_cast<double>(y) * log2));
  const float half = y * 0.5f;
  const bool odd = (y == std::floor(y)) & (half != std::floor(half));
  // A square is exact.
  return y == 2.0f ? x * x : (odd ? std::copysign(p, x) : p);
}

// The quotient has at most 27 bits: its product with b, and the difference, are exact in double.
CHX_HD bool IsUsualForFmod(float a, float b) {
  constexpr float kMax = std::numeric_limits<float>::max();
  const float magnitude = std::fabs(b);
  return (std::fabs(a) <= kMax) & (magnitude <= kMax) & (magnitude > 0.0f) &
         (std::fabs(a) <= magnitude * 67108864.0f);
}
CHX_HD float FmodUsual(float a, float b) {
  const double wide = a;
  const double divisor = b;
  const double quotient = static_cast<double>(static_cast<int32_t>(wide / divisor));
  return std::copysign(static_cast<float>(wide - quotient * divisor), a);
}

}  // namespace host
#endif  // __CUDA_ARCH__

// Each function for both types: `usual` is the condition under which `fast` holds.
#ifdef __CUDA_ARCH__
#define CHX_FLOAT_FN(Name, libm, fast) \
  CHX_HD float Name(float x) { return ::libm##f(x); }
#define CHX_USUAL_FLOAT_FN(Name, libm, usual, fast) CHX_FLOAT_FN(Name, libm, fast)
#define CHX_USUAL_FLOAT_FN2(Name, libm, usual, fast) \
  CHX_HD float Name(float x, float y) { return ::libm##f(x, y); }
#else
#define CHX_FLOAT_FN(Name, libm, fast) \
  CHX_HD float Name(float x) { return host::fast(x); }
#define CHX_USUAL_FLOAT_FN(Name, libm, usual, fast) \
  CHX_HD float Name(float x) { return host::usual(x) ? host::fast(x) : ::libm##f(x); }
#define CHX_USUAL_FLOAT_FN2(Name, libm, usual, fast)               \
  CHX_HD float Name(float x, float y) {                            \
    return host::usual(x, y) ? host::fast(x, y) : ::libm##f(x, y); \
  }
#endif
#define CHX_DOUBLE_FN(Name, libm) \
  CHX_HD double Name(double x) { return ::libm(x); }
#define CHX_DOUBLE_FN2(Name, libm) \
  CHX_HD double Name(double x, double y) { return ::libm(x, y); }

CHX_FLOAT_FN(Exp2, exp2, Exp2Float)
CHX_DOUBLE_FN(Exp2, exp2)
CHX_FLOAT_FN(Log2, log2, Log2Float)
CHX_DOUBLE_FN(Log2, log2)
CHX_FLOAT_FN(Log10, log10, Log10Float)
CHX_DOUBLE_FN(Log10, log10)
CHX_FLOAT_FN(Expm1, expm1, Expm1Float)
CHX_DOUBLE_FN(Expm1, expm1)
CHX_FLOAT_FN(Log1p, log1p, Log1pFloat)
CHX_DOUBLE_FN(Log1p, log1p)
CHX_FLOAT_FN(Erf, erf, ErfFloat)
CHX_DOUBLE_FN(Erf, erf)
// Of numbers from 0 to 1.
CHX_HD double Log1pUnit(double x) { return Log1p(x); }
CHX_HD float Log1pUnit(float x) {
#ifdef __CUDA_ARCH__
  return Log1p(x);
#else
  return host::Log1pUnitFloat(x);
#endif
}
CHX_HD double NormalBelow(double x) { return 0.5 * (1.0 + Erf(x * 0.70710678118654752)); }
CHX_HD float NormalBelow(float x) {
#ifdef __CUDA_ARCH__
  return 0.5f * (1.0f + Erf(x * 0.70710678118654752f));
#else
  return host::NormalBelowFloat(x);
#endif
}
CHX_FLOAT_FN(Atan, atan, AtanFloat)
CHX_DOUBLE_FN(Atan, atan)
CHX_FLOAT_FN(Asin, asin, AsinFloat)
CHX_DOUBLE_FN(Asin, asin)
CHX_FLOAT_FN(Acos, acos, AcosFloat)
CHX_DOUBLE_FN(Acos, acos)
CHX_FLOAT_FN(Sinh, sinh, SinhFloat)
CHX_DOUBLE_FN(Sinh, sinh)
CHX_FLOAT_FN(Cosh, cosh, CoshFloat)
CHX_DOUBLE_FN(Cosh, cosh)
CHX_FLOAT_FN(Asinh, asinh, AsinhFloat)
CHX_DOUBLE_FN(Asinh, asinh)
CHX_FLOAT_FN(Acosh, acosh, AcoshFloat)
CHX_DOUBLE_FN(Acosh, acosh)
CHX_FLOAT_FN(Atanh, atanh, AtanhFloat)
CHX_DOUBLE_FN(Atanh, atanh)
CHX_USUAL_FLOAT_FN(Sin, sin, IsUsualForSin, SinUsual)
CHX_DOUBLE_FN(Sin, sin)
CHX_USUAL_FLOAT_FN(Cos, cos, IsUsualForSin, CosUsual)
CHX_DOUBLE_FN(Cos, cos)
CHX_USUAL_FLOAT_FN(Tan, tan, IsUsualForSin, TanUsual)
CHX_DOUBLE_FN(Tan, tan)
CHX_USUAL_FLOAT_FN2(Atan2, atan2, IsUsualForAtan2, Atan2Usual)
CHX_DOUBLE_FN2(Atan2, atan2)
CHX_USUAL_FLOAT_FN2(Pow, pow, IsUsualForPow, PowUsual)
CHX_DOUBLE_FN2(Pow, pow)
CHX_USUAL_FLOAT_FN2(FmodOf, fmod, IsUsualForFmod, FmodUsual)
CHX_DOUBLE_FN2(FmodOf, fmod)

#undef CHX_FLOAT_FN
#undef CHX_USUAL_FLOAT_FN
#undef CHX_USUAL_FLOAT_FN2
#undef CHX_DOUBLE_FN
#undef CHX_DOUBLE_FN2

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_FLOAT_MATH_H_
