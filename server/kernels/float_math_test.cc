// How exact the float formulas are, against double precision: over floats of all magnitudes, and
// more densely where arguments usually are.
#include "server/kernels/float_math.h"
#include "base/sanitizers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "server/kernels/elementwise_fns.h"

namespace chx::server::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double UlpError(float got, double want) {
  const float nearest = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
  if (std::isinf(nearest) || std::isinf(got)) return got == nearest ? 0 : 1e9;
  if (got == 0 && nearest == 0) return std::signbit(got) == std::signbit(nearest) ? 0 : 1e9;
  const double magnitude = std::max(std::fabs(want), 1.1754943508222875e-38);
  return std::fabs(static_cast<double>(got) - want) / std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

template <typename Fn, typename Want>
double WorstError(const char* name, Want want) {
  double worst = 0;
  float at = 0;
  const auto check = [&](float x) {
    const double error = UlpError(Fn()(x), want(static_cast<double>(x)));
    if (error > worst) {
      worst = error;
      at = x;
    }
  };
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += kSanitized ? 7919 : 991) {
    check(BitCast<float>(static_cast<uint32_t>(bits)));
  }
  for (int i = -2'000'000; i <= 2'000'000; i += kSanitized ? 7 : 1)
    check(static_cast<float>(i) * 5.1e-6f);
  for (const float x : {0.0f, -0.0f, 1.0f, -1.0f, kInf, -kInf, kNan, 1e-45f, -1e-45f}) check(x);
  std::printf("%s: at most %.3f ulp, at %a\n", name, worst, at);
  return worst;
}

#define CHX_EXPECT_ULPS(Fn, function, limit) \
  EXPECT_LT(WorstError<Fn>(#function, [](double x) { return std::function(x); }), limit)

TEST(FloatMathTest, Log1pOfNumbersUpToOneIsExact) {
  double worst = 0;
  for (uint32_t bits = 0; bits <= BitCast<uint32_t>(1.0f); bits += 97) {
    const auto x = BitCast<float>(bits);
    worst = std::max(worst, UlpError(Log1pUnit(x), std::log1p(static_cast<double>(x))));
  }
  EXPECT_LT(worst, 2.5);
  EXPECT_EQ(Log1pUnit(0.0f), 0.0f);
  EXPECT_TRUE(std::isnan(Log1pUnit(kNan)));
}

TEST(FloatMathTest, UnaryFunctionsAreExact) {
  CHX_EXPECT_ULPS(Exp2Fn, exp2, 0.6);
  CHX_EXPECT_ULPS(Log2Fn, log2, 0.6);
  CHX_EXPECT_ULPS(Log10Fn, log10, 0.6);
  CHX_EXPECT_ULPS(Expm1Fn, expm1, 2);
  CHX_EXPECT_ULPS(Log1pFn, log1p, 2);
  CHX_EXPECT_ULPS(ErfFn, erf, 2);
  CHX_EXPECT_ULPS(SinFn, sin, 2);
  CHX_EXPECT_ULPS(CosFn, cos, 2);
  CHX_EXPECT_ULPS(TanFn, tan, 3.5);
  CHX_EXPECT_ULPS(ArcsinFn, asin, 3);
  CHX_EXPECT_ULPS(ArccosFn, acos, 3);
  CHX_EXPECT_ULPS(ArctanFn, atan, 3);
  CHX_EXPECT_ULPS(SinhFn, sinh, 0.6);
  CHX_EXPECT_ULPS(CoshFn, cosh, 0.6);
  CHX_EXPECT_ULPS(ArcsinhFn, asinh, 0.6);
  CHX_EXPECT_ULPS(ArccoshFn, acosh, 0.6);
  CHX_EXPECT_ULPS(ArctanhFn, atanh, 0.6);
}

TEST(FloatMathTest, TheNormalDistributionIsExact) {
  double worst = 0;
  double worst_part = 0;  // of what there is, down to -5
  for (int i = -2'000'000; i <= 2'000'000; i += kSanitized ? 7 : 1) {
    const float x = static_cast<float>(i) * 5.1e-6f;
    const double want = 0.5 * std::erfc(static_cast<double>(x) * -0.70710678118654752);
    const double error = std::fabs(static_cast<double>(NormalBelow(x)) - want);
    worst = std::max(worst, error);
    if (x > -5) worst_part = std::max(worst_part, error / want);
  }
  std::printf("NormalBelow: at most %.3g, and %.3g of what there is\n", worst, worst_part);
  EXPECT_LT(worst, 1e-7);
  EXPECT_LT(worst_part, 1e-4);
  EXPECT_EQ(NormalBelow(0.0f), 0.5f);
  for (const float x : {8.0f, 1e30f, kInf}) {
    EXPECT_EQ(NormalBelow(x), 1.0f);
    EXPECT_EQ(NormalBelow(-x), 0.0f);
  }
  EXPECT_TRUE(std::isnan(NormalBelow(kNan)));
}

template <typename Fn, typename Want>
double WorstBinaryError(const char* name, Want want) {
  std::mt19937 rng(7);
  double worst = 0;
  float at[2] = {0, 0};
  const auto check = [&](float x, float y) {
    const double error = UlpError(Fn()(x, y), want(x, y));
    if (error > worst) {
      worst = error;
      at[0] = x;
      at[1] = y;
    }
  };
  std::normal_distribution<float> normal(0, 4);
  for (int i = 0; i < Rounds(2'000'000); ++i) {
    check(normal(rng), normal(rng));
    check(std::fabs(normal(rng)), normal(rng));
    check(normal(rng), static_cast<float>(static_cast<int>(normal(rng))));
    check(BitCast<float>(static_cast<uint32_t>(rng())),
          BitCast<float>(static_cast<uint32_t>(rng())));
  }
  constexpr float kSpecials[] = {0.0f, -0.0f, 1.0f, -1.0f,  0.5f,    -0.5f, 2.0f,   3.0f, -3.0f,
                                 kInf, -kInf, kNan, 1e-45f, -1e-45f, 3e38f, -3e38f, 1e30f};
  for (const float x : kSpecials) {
    for (const float y : kSpecials) check(x, y);
  }
  std::printf("%s: at most %.3f ulp, at %a, %a\n", name, worst, at[0], at[1]);
  return worst;
}

TEST(FloatMathTest, BinaryFunctionsAreExact) {
  const auto atan2 = [](double x, double y) { return std::atan2(x, y); };
  EXPECT_LT(WorstBinaryError<Arctan2>("atan2", atan2), 3.5);
  const auto pow = [](double x, double y) { return std::pow(x, y); };
  EXPECT_LT(WorstBinaryError<Power>("pow", pow), 0.9);
  const auto fmod = [](double x, double y) { return std::fmod(x, y); };
  EXPECT_EQ(WorstBinaryError<Fmod>("fmod", fmod), 0);
  // Exactly as before they were vectorised.
  const auto remainder = [](float x, float y) { return FloatRemainder(x, y, ::fmodf(x, y)); };
  EXPECT_EQ(WorstBinaryError<Remainder>("remainder", remainder), 0);
  const auto floor_divide = [](float x, float y) { return FloatFloorDivide(x, y, ::fmodf(x, y)); };
  EXPECT_EQ(WorstBinaryError<FloorDivide>("floor_divide", floor_divide), 0);
}

}  // namespace
}  // namespace chx::server::kernels
