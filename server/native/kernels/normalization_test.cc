// Batch normalization and its gradients against their definitions.
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/registry.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

constexpr double kEps = 1e-3;

struct Case {
  Shape shape;  // (outer..., channels..., inner...)
  Shape channels;
  Ints axis;
};

const Case kCases[] = {
    {{4, 3, 5, 6}, {3}, {0, 2, 3}},
    {{7, 300}, {300}, {0}},
    {{2, 3, 5}, {3, 5}, {0}},
    {{3, 2000}, {3}, {1}},
    {{1, 4}, {4}, {0}},
    {{2, 2, 1100}, {2}, {0, 2}},
    {{40, 5, 1, 1}, {5}, {0, 2, 3}},
    {{3, 4, 2, 2}, {4}, {-1, 0, 2}},
    {{300, 3, 7}, {3}, {0, 2}},
    {{40, 2, 7, 7}, {2}, {0, 2, 3}},
    {{3, 2, 600}, {2}, {0, 2}},
    // Rows whose last elements do not fill a vector.
    {{5, 2, 9}, {2}, {0, 2}},
    {{5, 2, 17}, {2}, {0, 2}},
    {{4, 2, 31}, {2}, {0, 2}},
    {{3, 2, 33}, {2}, {0, 2}},
    {{3, 2, 49}, {2}, {0, 2}},
};

class NormalizationTest : public testing::Test {
 protected:
  TestArray Random(Dtype dtype, const Shape& shape) {
    TestArray array = TestArray::RandomLayout(rng_, dtype, shape);
    array.FillRandom(rng_, false);
    return array;
  }
  // All outputs of a kernel.
  std::vector<TestArray> Call(const std::string& name, const std::vector<TestArray>& inputs,
                              const std::vector<TestArray>& outputs, const Attrs& attrs) {
    std::vector<KernelTensor> in;
    std::vector<KernelTensor> out;
    for (const TestArray& array : inputs) in.push_back(array.tensor());
    for (const TestArray& array : outputs) out.push_back(array.tensor());
    const absl::Status status =
        runner_.Call(*OpRegistry::Global().Find(name), in, out, absl::MakeConstSpan(attrs));
    EXPECT_TRUE(status.ok()) << status;
    return outputs;
  }
  static void ExpectClose(const TestArray& got, const std::vector<Number>& want, Number terms) {
    ASSERT_EQ(got.size(), static_cast<int64_t>(want.size()));
    for (int64_t i = 0; i < got.size(); ++i) {
      const Number bound = Tolerance(got.dtype()) * 8 * terms;
      ASSERT_LE(std::fabs(got.Get(i) - want[i]), bound * (1 + std::fabs(want[i]))) << i;
    }
  }

  Rng rng_ = MakeRng();
  KernelRunner runner_{2};
};

TEST_F(NormalizationTest, ForwardAndGradients) {
  for (const Case& c : kCases) {
    for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat64}) {
      const TestArray x = Random(dtype, c.shape);
      const TestArray gy = Random(dtype, c.shape);
      const TestArray gamma = Random(dtype, c.channels);
      const TestArray beta = Random(dtype, c.channels);
      const int64_t channels = gamma.size();
      // The first axes that are normalized over are one outer dimension, the last ones an inner
      // one.
      int64_t inner = 1;
      for (int d = c.shape.size() - 1; NumElements(c.shape) / c.shape[0] / inner > channels; --d) {
        inner *= c.shape[d];
      }
      if (c.axis == Ints{1}) inner = c.shape[1];
      const auto channel_of = [&](int64_t i) { return i / inner % channels; };
      const Number count = static_cast<Number>(x.size()) / static_cast<Number>(channels);
      std::vector<Number> mean(channels), variance(channels), gbeta(channels), ggamma(channels);
      for (int64_t i = 0; i < x.size(); ++i) mean[channel_of(i)] += x.Get(i) / count;
      for (int64_t i = 0; i < x.size(); ++i) {
        const Number centered = x.Get(i) - mean[channel_of(i)];
        variance[channel_of(i)] += centered * centered / count;
      }
      const auto normalized = [&](int64_t i) {
        return (x.Get(i) - mean[channel_of(i)]) / std::sqrt(variance[channel_of(i)] + kEps);
      };
      std::vector<Number> y(x.size()), gx(x.size());
      for (int64_t i = 0; i < x.size(); ++i) {
        const int64_t k = channel_of(i);
        y[i] = normalized(i) * gamma.Get(k) + beta.Get(k);
        gbeta[k] += gy.Get(i);
        ggamma[k] += gy.Get(i) * normalized(i);
      }
      for (int64_t i = 0; i < x.size(); ++i) {
        const int64_t k = channel_of(i);
        gx[i] = (gy.Get(i) - (normalized(i) * ggamma[k] + gbeta[k]) / count) * gamma.Get(k) /
                std::sqrt(variance[k] + kEps);
      }
      const Attrs attrs = {kEps, c.axis};
      const TestArray whole(dtype, c.shape);
      const TestArray part(dtype, c.channels);
      const TestArray other(dtype, c.channels);
      std::vector<TestArray> out =
          Call("batch_norm_forward", {x, gamma, beta}, {whole, part, other}, attrs);
      // Small variances magnify what x lacks in digits.
      const Number terms = 40 / static_cast<Number>(std::sqrt(kEps));
      ExpectClose(out[0], y, terms);
      ExpectClose(out[1], mean, terms);
      ExpectClose(out[2], variance, terms);
      out = Call("fixed_batch_norm", {x, gamma, beta, out[1], out[2]}, {TestArray(dtype, c.shape)},
                 attrs);
      ExpectClose(out[0], y, terms);
      out = Call("batch_norm_grad", {x, gamma, gy}, {whole, part, other}, attrs);
      ExpectClose(out[0], gx, terms * 4);
      ExpectClose(out[1], ggamma, terms * std::sqrt(count));
      ExpectClose(out[2], gbeta, terms * std::sqrt(count));
    }
  }
}

// Means of rows shorter than a vector are as exact as others.
TEST_F(NormalizationTest, ShortRowsFarFromZero) {
  const Shape shape = {500, 2, 3};
  TestArray x = Random(Dtype::kFloat32, shape);
  for (int64_t i = 0; i < x.size(); ++i) x.Set(i, 1000 + x.Get(i));
  const TestArray scale = Random(Dtype::kFloat32, {2});
  const std::vector<TestArray> out =
      Call("batch_norm_forward", {x, scale, scale},
           {TestArray(Dtype::kFloat32, shape), TestArray(Dtype::kFloat32, {2}),
            TestArray(Dtype::kFloat32, {2})},
           {kEps, Ints{0, 2}});
  for (int64_t channel = 0; channel < 2; ++channel) {
    Number mean = 0;
    for (int64_t i = 0; i < x.size(); ++i) mean += i / 3 % 2 == channel ? x.Get(i) / 1500 : 0;
    EXPECT_NEAR(static_cast<double>(out[1].Get(channel)), static_cast<double>(mean), 1e-4);
  }
}

TEST_F(NormalizationTest, NoElements) {
  for (const Shape& shape : {Shape{2, 3, 0}, Shape{0, 3, 2}}) {
    const TestArray x(Dtype::kFloat32, shape);
    const TestArray scale(Dtype::kFloat32, {3});
    const Attrs attrs = {kEps, Ints{0, 2}};
    Call("batch_norm_grad", {x, scale, x}, {x, scale, scale}, attrs);
    Call("batch_norm_forward", {x, scale, scale}, {x, scale, scale}, attrs);
    // Whoever names the operator is told before.
    EXPECT_FALSE(runner_.TryRun("batch_norm_grad", {x, scale, x}, attrs).ok());
    EXPECT_FALSE(runner_.TryRun("batch_norm_forward", {x, scale, scale}, attrs).ok());
  }
}

TEST_F(NormalizationTest, DeclinesWhatTheCompositionDoes) {
  const auto declines = [&](Dtype x, Dtype gamma, const Ints& axis) {
    const TestArray array = Random(x, {4, 3, 5});
    const TestArray scale = Random(gamma, axis == Ints{1} ? Shape{4, 5} : Shape{3});
    return absl::IsUnimplemented(
        runner_.TryRun("batch_norm_forward", {array, scale, scale}, {kEps, axis}).status());
  };
  EXPECT_FALSE(declines(Dtype::kFloat32, Dtype::kFloat32, {0, 2}));
  EXPECT_TRUE(declines(Dtype::kFloat32, Dtype::kFloat32, {1}));
  EXPECT_TRUE(declines(Dtype::kFloat16, Dtype::kFloat16, {0, 2}));
  EXPECT_TRUE(declines(Dtype::kFloat32, Dtype::kFloat64, {0, 2}));
}

}  // namespace
}  // namespace chx::server::native
