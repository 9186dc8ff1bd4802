// How exact the scalar formulas are, against double precision and the compiler's float16.
#include "server/kernels/math.h"
#include "base/sanitizers.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include "gtest/gtest.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/half.h"

namespace chx::server::kernels {
namespace {

// Distance in units of the last place of the float nearest to `want`.
double UlpError(float got, double want) {
  const float nearest = static_cast<float>(want);
  if (std::isnan(want) || std::isinf(nearest) || std::isinf(got)) {
    const bool same = std::isnan(want) ? std::isnan(got) : got == nearest;
    // The largest finite float and infinity are neighbours.
    const bool edge = std::fabs(got) >= 3.4028234e38f && std::fabs(want) >= 3.4028234e38;
    return same || (edge && (got > 0) == (want > 0)) ? 0 : 1e9;
  }
  const double magnitude = std::max(std::fabs(want), 1.1754943508222875e-38);
  const double ulp = std::ldexp(1.0, std::ilogb(magnitude) - 23);
  return std::fabs(static_cast<double>(got) - want) / ulp;
}

template <typename Got, typename Want>
double WorstError(const char* name, Got got, Want want) {
  double worst = 0;
  float at = 0;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += kSanitized ? 797 : 97) {
    const float x = BitCast<float>(static_cast<uint32_t>(bits));
    const double error = UlpError(got(x), want(static_cast<double>(x)));
    if (error > worst) {
      worst = error;
      at = x;
    }
  }
  std::printf("%s: at most %.3f ulp, at %a\n", name, worst, at);
  return worst;
}

TEST(MathTest, ExpIsExact) {
  EXPECT_LT(WorstError(
                "exp", [](float x) { return Exp(x); }, [](double x) { return std::exp(x); }),
            1.5);
}

TEST(MathTest, LogIsExact) {
  EXPECT_LT(WorstError(
                "log", [](float x) { return Log(x); }, [](double x) { return std::log(x); }),
            1.5);
}

TEST(MathTest, TanhIsExact) {
  EXPECT_LT(WorstError(
                "tanh", [](float x) { return Tanh(x); }, [](double x) { return std::tanh(x); }),
            3);
}

TEST(MathTest, SigmoidIsExact) {
  EXPECT_LT(WorstError(
                "sigmoid", [](float x) { return Sigmoid(x); },
                [](double x) { return 1 / (1 + std::exp(-x)); }),
            3);
}

TEST(MathTest, SpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Exp(-kInf), 0);
  EXPECT_EQ(Exp(kInf), kInf);
  EXPECT_EQ(Exp(0.0f), 1);
  EXPECT_TRUE(std::isnan(Exp(std::nanf(""))));
  EXPECT_EQ(Log(0.0f), -kInf);
  EXPECT_EQ(Log(kInf), kInf);
  EXPECT_EQ(Log(1.0f), 0);
  EXPECT_TRUE(std::isnan(Log(-1.0f)));
  EXPECT_EQ(Tanh(kInf), 1);
  EXPECT_EQ(Tanh(-kInf), -1);
  EXPECT_TRUE(std::signbit(Tanh(-0.0f)));
  EXPECT_EQ(Sigmoid(kInf), 1);
  EXPECT_EQ(Sigmoid(-kInf), 0);
}

TEST(MathTest, IntegersFollowPythonAndNeverTrap) {
  for (int a = -128; a < 128; ++a) {
    for (int b = -128; b < 128; ++b) {
      const int8_t x = static_cast<int8_t>(a);
      const int8_t y = static_cast<int8_t>(b);
      const int8_t quotient = IntFloorDivide(x, y);
      const int8_t rest = IntRemainder(x, y);
      if (b == 0) {
        EXPECT_EQ(quotient, 0);
        EXPECT_EQ(rest, 0);
        continue;
      }
      EXPECT_EQ(quotient, static_cast<int8_t>(static_cast<int>(std::floor(double(a) / b))));
      EXPECT_EQ(rest, a - b * static_cast<int>(std::floor(double(a) / b)));
    }
  }
  EXPECT_EQ(IntFloorDivide(INT64_MIN, int64_t{-1}), INT64_MIN);
  EXPECT_EQ(IntRemainder(INT64_MIN, int64_t{-1}), 0);
  EXPECT_EQ(IntPower(int32_t{3}, int32_t{4}), 81);
  EXPECT_EQ(IntPower(int32_t{2}, int32_t{-1}), 0);
  EXPECT_EQ(IntPower(int32_t{-1}, int32_t{-3}), -1);
  EXPECT_EQ(IntPower(int32_t{0}, int32_t{-3}), 0);
  EXPECT_EQ(IntPower(uint8_t{2}, uint8_t{9}), 0);
}

TEST(MathTest, FloatRemainderFollowsPython) {
  EXPECT_EQ(Remainder()(-7.5, 2.0), 0.5);
  EXPECT_EQ(Remainder()(7.5, -2.0), -0.5);
  EXPECT_EQ(FloorDivide()(-7.5, 2.0), -4);
  EXPECT_TRUE(std::isnan(Remainder()(1.0, 0.0)));
  EXPECT_TRUE(std::isinf(FloorDivide()(1.0, 0.0)));
  EXPECT_TRUE(std::signbit(Remainder()(4.0, -2.0)));
}

TEST(MathTest, CastsFromFloatAreDefined) {
  EXPECT_EQ(Cast<int32_t>(3e9f), INT32_MIN);
  EXPECT_EQ(Cast<int64_t>(std::nan("")), INT64_MIN);
  EXPECT_EQ(Cast<int8_t>(-2.9f), -2);
  EXPECT_EQ(Cast<uint8_t>(300.0), 44);
  EXPECT_TRUE(bool(Cast<Bool>(std::nan(""))));
  EXPECT_EQ(ScalarAs<int8_t>(Scalar(int64_t{257})), 1);
}

#ifdef __FLT16_MANT_DIG__
uint16_t BitsOf(_Float16 value) { return BitCast<uint16_t>(value); }

TEST(HalfTest, EveryHalfConvertsAndComesBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float got = HalfBitsToFloat(half);
    const float want = static_cast<float>(BitCast<_Float16>(half));
    ASSERT_EQ(BitCast<uint32_t>(got), BitCast<uint32_t>(want)) << bits;
    if (got == got) {
      ASSERT_EQ(FloatToHalfBits(got), half);
    }
  }
}

TEST(HalfTest, FloatsAndDoublesRoundOnce) {
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += kSanitized ? 1597 : 199) {
    const float x = BitCast<float>(static_cast<uint32_t>(bits));
    if (x != x) {
      EXPECT_GT(FloatToHalfBits(x) & 0x7fff, 0x7c00);
      continue;
    }
    ASSERT_EQ(FloatToHalfBits(x), BitsOf(static_cast<_Float16>(x))) << x;
    const double y = static_cast<double>(x) * (1 + 1e-12 * (static_cast<int>(bits % 7) - 3));
    ASSERT_EQ(DoubleToHalfBits(y), BitsOf(static_cast<_Float16>(y))) << y;
  }
}
#endif

TEST(Bfloat16Test, EveryOneConvertsAndComesBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto stored = static_cast<uint16_t>(bits);
    const float value = Bfloat16BitsToFloat(stored);
    if (value == value) {
      ASSERT_EQ(FloatToBfloat16Bits(value), stored);
      ASSERT_EQ(Bfloat16(static_cast<double>(value)).bits, stored);
    } else {
      ASSERT_GT(FloatToBfloat16Bits(value) & 0x7fff, 0x7f80);
    }
  }
}

// The nearer of two neighbours, of which one lies below the number; the even one of two as near.
uint16_t NearestBfloat16(double value) {
  const double magnitude = std::fabs(value);
  uint16_t below = 0;  // by bisection over the patterns, which are in order
  for (int bit = 14; bit >= 0; --bit) {
    const auto larger = static_cast<uint16_t>(below | 1 << bit);
    if (larger <= 0x7f7f && static_cast<double>(Bfloat16BitsToFloat(larger)) <= magnitude) {
      below = larger;
    }
  }
  const auto above = static_cast<uint16_t>(below + 1);
  const double low = Bfloat16BitsToFloat(below);
  // What would follow the greatest one, in the place of infinity.
  const double high = above == 0x7f80 ? 0x1p128 : static_cast<double>(Bfloat16BitsToFloat(above));
  const double middle = low / 2 + high / 2;
  const bool up = magnitude > middle || (magnitude == middle && below % 2 == 1);
  return static_cast<uint16_t>((up ? above : below) | (std::signbit(value) ? 0x8000 : 0));
}

TEST(Bfloat16Test, FloatsAndDoublesRoundOnce) {
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += kSanitized ? 30011 : 2003) {
    const float x = BitCast<float>(static_cast<uint32_t>(bits));
    if (!std::isfinite(x)) continue;
    ASSERT_EQ(FloatToBfloat16Bits(x), NearestBfloat16(x)) << x;
    const double y = static_cast<double>(x) * (1 + 1e-12 * (static_cast<int>(bits % 7) - 3));
    ASSERT_EQ(Bfloat16(y).bits, NearestBfloat16(y)) << y;
    // Halfway between two, and a little beside it.
    const double half =
        static_cast<double>(BitCast<float>((static_cast<uint32_t>(bits) & 0xffff0000) | 0x8000));
    if (!std::isfinite(half)) continue;
    for (const double factor : {1.0, 1 + 1e-14, 1 - 1e-14}) {
      ASSERT_EQ(Bfloat16(half * factor).bits, NearestBfloat16(half * factor)) << half;
    }
  }
  EXPECT_EQ(Bfloat16(1e300).bits, 0x7f80);
  EXPECT_EQ(Bfloat16(-HUGE_VAL).bits, 0xff80);
}

}  // namespace
}  // namespace chx::server::kernels
