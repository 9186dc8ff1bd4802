#include "ops/dtype.h"

#include <cmath>
#include <limits>
#include <tuple>

#include "gtest/gtest.h"

namespace chx {
namespace {

// ChainerX 7.8.1's promotion, in the order of the enum: b(ool) 1 2 4 8 (int) u(int8) h f d;
// t is bfloat16, where JAX's rules add to them.
constexpr char kCodes[] = "b1248uhfdt";
constexpr const char* kPromoted[kNumDtypes] = {
    "b1248uhfdt",  // bool
    "112482hfdt",  // int8
    "222482hfdt",  // int16
    "444484hfdt",  // int32
    "888888hfdt",  // int64
    "u2248uhfdt",  // uint8
    "hhhhhhhfdf",  // float16
    "ffffffffdf",  // float32
    "dddddddddd",  // float64
    "ttttttffdt",  // bfloat16
};

Dtype FromCode(char code) {
  for (int i = 0; i < kNumDtypes; ++i) {
    if (kCodes[i] == code) return static_cast<Dtype>(i);
  }
  ADD_FAILURE() << code;
  return Dtype::kBool;
}

TEST(DtypeTest, PromotionOfArrays) {
  for (int a = 0; a < kNumDtypes; ++a) {
    for (int b = 0; b < kNumDtypes; ++b) {
      const char code = kPromoted[a][b];
      EXPECT_EQ(PromoteTypes(static_cast<Dtype>(a), static_cast<Dtype>(b)), FromCode(code))
          << DtypeName(static_cast<Dtype>(a)) << " and " << DtypeName(static_cast<Dtype>(b));
      EXPECT_EQ(PromoteTypes(static_cast<Dtype>(a), static_cast<Dtype>(b)),
                PromoteTypes(static_cast<Dtype>(b), static_cast<Dtype>(a)));
    }
  }
}

TEST(DtypeTest, PromotionWithScalars) {
  const char* const with_bool = "b1248uhfdt";
  const char* const with_int = "41248uhfdt";
  const char* const with_float = "ffffffhfdt";
  for (int i = 0; i < kNumDtypes; ++i) {
    const Dtype dtype = static_cast<Dtype>(i);
    EXPECT_EQ(PromoteTypes(dtype, ScalarKind::kBool), FromCode(with_bool[i])) << DtypeName(dtype);
    EXPECT_EQ(PromoteTypes(dtype, ScalarKind::kInt), FromCode(with_int[i])) << DtypeName(dtype);
    EXPECT_EQ(PromoteTypes(dtype, ScalarKind::kFloat), FromCode(with_float[i])) << DtypeName(dtype);
  }
}

TEST(DtypeTest, NamesAndSizes) {
  for (int i = 0; i < kNumDtypes; ++i) {
    EXPECT_EQ(DtypeFromName(DtypeName(static_cast<Dtype>(i))), static_cast<Dtype>(i));
  }
  EXPECT_EQ(DtypeFromName("uint16"), absl::nullopt);
  EXPECT_EQ(ItemSize(Dtype::kFloat16), 2);
  EXPECT_EQ(ItemSize(Dtype::kBfloat16), 2);
  EXPECT_EQ(ItemSize(Dtype::kBool), 1);
  EXPECT_FALSE(IsValidDtype(-1) || IsValidDtype(kNumDtypes));
}

TEST(DtypeTest, NarrowFloats) {
  const auto half = [](uint16_t bits) { return NarrowFloatToDouble(Dtype::kFloat16, bits); };
  const auto brain = [](uint16_t bits) { return NarrowFloatToDouble(Dtype::kBfloat16, bits); };
  EXPECT_EQ(half(0x3c00), 1);
  EXPECT_EQ(half(0x7bff), GreatestOf(Dtype::kFloat16));
  EXPECT_EQ(half(0x8001), -0x1p-24);
  EXPECT_EQ(brain(0x3f80), 1);
  EXPECT_EQ(brain(0x7f7f), GreatestOf(Dtype::kBfloat16));
  EXPECT_EQ(brain(0x8001), -0x1p-133);
  for (const auto& [value, infinity, nan] : {std::tuple(half(0), half(0xfc00), half(0x7e00)),
                                             {brain(0), brain(0xff80), brain(0x7fc0)}}) {
    EXPECT_EQ(value, 0);
    EXPECT_EQ(infinity, -HUGE_VAL);
    EXPECT_TRUE(std::isnan(nan));
  }
}

TEST(ScalarTest, ConversionsNeverTrap) {
  EXPECT_EQ(Scalar(2.9).AsInt(), 2);
  EXPECT_EQ(Scalar(-2.9).AsInt(), -2);
  for (double odd : {std::nan(""), 1e300, -1e300, 9223372036854775808.0,
                     std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(Scalar(odd).AsInt(), INT64_MIN);
    EXPECT_TRUE(Scalar(odd).AsBool());
  }
  EXPECT_EQ(Scalar(true).AsDouble(), 1.0);
  EXPECT_EQ(Scalar(INT64_MAX).ToString(), "9223372036854775807");
  EXPECT_EQ(Scalar(2.0).ToString(), "2.0");
  EXPECT_EQ(Scalar(false).ToString(), "False");
}

}  // namespace
}  // namespace chx
