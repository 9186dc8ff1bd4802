// Loss kernels, and random numbers.
#include <cmath>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "ops/error.h"
#include "server/kernels/philox.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

class LossTest : public testing::Test {
 protected:
  Rng rng_ = MakeRng();
  KernelRunner runner_{2};
};

TEST_F(LossTest, SoftmaxCrossEntropyAndItsGradient) {
  for (int round = 0; round < 30; ++round) {
    for (const Dtype dtype : kFloatDtypes) {
      const int64_t rows = RandomInt(rng_, 0, 40);
      const int64_t classes = round % 4 == 0 ? RandomInt(rng_, 1000, 2500) : RandomInt(rng_, 1, 12);
      TestArray x = TestArray::RandomLayout(rng_, dtype, {rows, classes});
      x.FillRandom(rng_, false);
      TestArray labels(Dtype::kInt32, {rows});
      for (int64_t i = 0; i < rows; ++i) labels.Set(i, RandomInt(rng_, -1, classes - 1));
      TestArray gy = TestArray::RandomLayout(rng_, dtype, {rows});
      gy.FillRandom(rng_, false);
      const TestArray loss = runner_.Run("softmax_cross_entropy", {x, labels});
      const TestArray gx = runner_.Run("softmax_cross_entropy_grad", {x, labels, gy});
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t label = static_cast<int64_t>(labels.Get(row));
        Number sum = 0;
        for (int64_t c = 0; c < classes; ++c) sum += std::exp(x.Get(row * classes + c));
        const Number want = label < 0 ? 0 : std::log(sum) - x.Get(row * classes + label);
        ASSERT_TRUE(Close(dtype, loss.Get(row), want, 2)) << loss.Get(row) << " " << want;
        for (int64_t c = 0; c < classes; ++c) {
          const Number softmax = std::exp(x.Get(row * classes + c)) / sum;
          const Number slope = label < 0 ? 0 : (softmax - (c == label ? 1 : 0)) * gy.Get(row);
          ASSERT_TRUE(Close(dtype, gx.Get(row * classes + c), slope, 4));
        }
      }
    }
  }
}

TEST_F(LossTest, LargeScoresDoNotOverflow) {
  TestArray x(Dtype::kFloat32, {1, 3});
  x.Set(0, 1e4);
  x.Set(1, -1e4);
  x.Set(2, 9999);
  TestArray label(Dtype::kInt64, {1});
  label.Set(0, 2);
  const Number got = runner_.Run("softmax_cross_entropy", {x, label}).Get(0);
  EXPECT_NEAR(static_cast<double>(got), 1 + std::log1p(std::exp(-1.0)), 1e-6);
}

TEST_F(LossTest, LabelsOutOfRangeAreErrors) {
  TestArray x(Dtype::kFloat32, {2, 3});
  x.FillRandom(rng_, false);
  TestArray labels(Dtype::kInt64, {2});
  labels.Set(0, 0);
  for (const int64_t bad : {int64_t{3}, int64_t{-2}, INT64_MIN, INT64_MAX}) {
    labels.Set(1, bad);
    EXPECT_EQ(KindOf(runner_.TryRun("softmax_cross_entropy", {x, labels}).status()),
              ErrorKind::kIndex);
  }
}

class RandomTest : public LossTest {
 protected:
  TestArray Draw(const std::string& op, const Shape& shape, double a, double b, Dtype dtype,
                 int64_t seed, int64_t counter) {
    return runner_.Run(op, {}, {AttrValue::FromInts(shape.span()), a, b, dtype, seed, counter});
  }
};

// The vectors of Random123's kat_vectors for the all-zero input.
TEST_F(RandomTest, PhiloxKnownAnswer) {
  const kernels::PhiloxBlock block = kernels::Philox(0, 0);
  EXPECT_EQ(block.words[0], 0x6627e8d5u);
  EXPECT_EQ(block.words[1], 0xe169c58du);
  EXPECT_EQ(block.words[2], 0xbc57ac4cu);
  EXPECT_EQ(block.words[3], 0x9b00dbd8u);
}

TEST_F(RandomTest, ElementsDependOnSeedAndPositionOnly) {
  for (const Dtype dtype : kFloatDtypes) {
    const int64_t per_block = dtype == Dtype::kFloat64 ? 2 : 4;
    for (const char* const op : {"random_uniform", "random_normal"}) {
      const TestArray all = Draw(op, {300001}, 0, 1, dtype, 7, 100);
      const TestArray part = Draw(op, {5, 3}, 0, 1, dtype, 7, 110);
      for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(part.Get(i), all.Get(10 * per_block + i));
      EXPECT_NE(Draw(op, {100}, 0, 1, dtype, 8, 100).Bytes(),
                Draw(op, {100}, 0, 1, dtype, 7, 100).Bytes());
    }
  }
}

TEST_F(RandomTest, Moments) {
  const int64_t n = 400000;
  for (const Dtype dtype : kFloatDtypes) {
    const TestArray uniform = Draw("random_uniform", {n}, -1, 3, dtype, 42, 0);
    const TestArray normal = Draw("random_normal", {n}, 2, 0.5, dtype, 42, 1 << 20);
    Number sum = 0;
    Number square = 0;
    Number normal_sum = 0;
    Number normal_square = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Number u = uniform.Get(i);
      ASSERT_GE(u, -1);
      ASSERT_LT(u, 3);
      sum += u;
      square += u * u;
      const Number z = (normal.Get(i) - 2) / 0.5L;
      normal_sum += z;
      normal_square += z * z;
    }
    EXPECT_NEAR(static_cast<double>(sum / n), 1, 0.02);
    EXPECT_NEAR(static_cast<double>(square / n), 1 + 16.0 / 12, 0.02);
    EXPECT_NEAR(static_cast<double>(normal_sum / n), 0, 0.01);
    EXPECT_NEAR(static_cast<double>(normal_square / n), 1, 0.02);
  }
}

}  // namespace
}  // namespace chx::server::native
