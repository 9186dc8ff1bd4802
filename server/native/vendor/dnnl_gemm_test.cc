// Products by oneDNN against sums in double precision.
#include "server/native/vendor/dnnl_gemm.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace chx::server::native {
namespace {

std::vector<float> Random(std::mt19937* random, int64_t size) {
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> values(size);
  for (float& value : values) value = distribution(*random);
  return values;
}

DnnlGemmCall CallOf(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k) {
  return {transpose_a, transpose_b,         m, n,       k, nullptr, transpose_a ? m : k,
          nullptr,     transpose_b ? k : n, 0, nullptr, n};
}

TEST(DnnlGemmTest, TakesWhatItIsFasterAt) {
  EXPECT_TRUE(DnnlGemmIsFaster(CallOf(false, false, 500, 500, 500)));
  EXPECT_TRUE(DnnlGemmIsFaster(CallOf(true, false, 64, 128, 128)));
  EXPECT_TRUE(DnnlGemmIsFaster(CallOf(false, true, 100, 1000, 784)));
  // Hardly any work; few columns; both transposed.
  EXPECT_FALSE(DnnlGemmIsFaster(CallOf(false, false, 64, 64, 64)));
  EXPECT_FALSE(DnnlGemmIsFaster(CallOf(false, false, 1000, 10, 1000)));
  EXPECT_FALSE(DnnlGemmIsFaster(CallOf(false, true, 100, 100, 1000)));
  EXPECT_FALSE(DnnlGemmIsFaster(CallOf(true, true, 512, 512, 512)));
}

// Clients choose shapes and strides.
TEST(DnnlGemmTest, LeavesWildShapesAlone) {
  EXPECT_FALSE(DnnlGemmIsFaster(CallOf(false, false, 1, int64_t{1} << 30, 1 << 20)));
  EXPECT_FALSE(DnnlGemmIsFaster(CallOf(false, false, int64_t{1} << 31, 512, int64_t{1} << 31)));
  DnnlGemmCall call = CallOf(false, false, 512, 512, 512);
  call.lda = int64_t{1} << 30;
  EXPECT_FALSE(DnnlGemmIsFaster(call));
}

TEST(DnnlGemmTest, GivesProducts) {
  const uint32_t seed = std::random_device()();
  printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    const auto size = [&random] { return static_cast<int64_t>(1 + random() % 150); };
    DnnlGemmCall call = CallOf(round % 2 == 1, round / 2 % 2 == 1, size(), size(), size());
    call.beta = round % 3 == 0 ? 1.0f : 0.0f;
    for (int64_t* ld : {&call.lda, &call.ldb, &call.ldc}) *ld += static_cast<int64_t>(random() % 3);
    const std::vector<float> a = Random(&random, call.lda * (call.transpose_a ? call.k : call.m));
    const std::vector<float> b = Random(&random, call.ldb * (call.transpose_b ? call.n : call.k));
    std::vector<float> c = Random(&random, call.ldc * call.m);
    // What is not added to is not read.
    if (call.beta == 0) c.assign(c.size(), std::numeric_limits<float>::quiet_NaN());
    const std::vector<float> before = c;
    call.a = a.data();
    call.b = b.data();
    call.c = c.data();
    ASSERT_TRUE(DnnlGemm(call));
    for (int64_t i = 0; i < call.m; ++i) {
      for (int64_t j = 0; j < call.ldc; ++j) {
        const float got = c[i * call.ldc + j];
        const float was = before[i * call.ldc + j];
        if (j >= call.n) {  // between rows
          ASSERT_TRUE(got == was || (std::isnan(got) && std::isnan(was)));
          continue;
        }
        double want = call.beta == 0 ? 0 : was;
        for (int64_t p = 0; p < call.k; ++p) {
          want +=
              static_cast<double>(call.transpose_a ? a[p * call.lda + i] : a[i * call.lda + p]) *
              (call.transpose_b ? b[j * call.ldb + p] : b[p * call.ldb + j]);
        }
        ASSERT_NEAR(got, want, 1e-6 * static_cast<double>(call.k + 4)) << "round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace chx::server::native
