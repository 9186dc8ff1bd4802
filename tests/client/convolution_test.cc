#include "client/convolution.h"

#include <cstdlib>
#include <random>

#include "absl/strings/match.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

using absl::StrContains;

class ConvolutionTest : public ClientTest {
 protected:
  void SetUp() override {
    ClientTest::SetUp();
    const char* const given = std::getenv("CHX_TEST_SEED");
    const uint64_t seed =
        given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
    printf("CHX_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
    rng_.seed(seed);
  }
  Vector Random(int64_t n) {
    std::normal_distribution<double> normal;
    Vector values;
    for (int64_t i = 0; i < n; ++i) values.push_back(normal(rng_));
    return values;
  }

  // By the definition, of one image (C, H, W) with `before` zeros before rows and columns of x.
  struct Sizes {
    int64_t channels, height, width, outputs, kernel_height, kernel_width;
  };
  static Vector Wanted(const Sizes& s, const Vector& x, const Vector& w, const Ints& stride,
                       const Ints& before, const Ints& dilation, int64_t groups, int64_t out_height,
                       int64_t out_width) {
    Vector y;
    const int64_t own = s.channels / groups;
    for (int64_t k = 0; k < s.outputs; ++k) {
      for (int64_t i = 0; i < out_height * out_width; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < own * s.kernel_height * s.kernel_width; ++j) {
          const int64_t c = j / (s.kernel_height * s.kernel_width);
          const int64_t row = i / out_width * stride[0] - before[0] +
                              j / s.kernel_width % s.kernel_height * dilation[0];
          const int64_t column =
              i % out_width * stride[1] - before[1] + j % s.kernel_width * dilation[1];
          if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
          const int64_t channel = k / (s.outputs / groups) * own + c;
          sum += x[static_cast<size_t>((channel * s.height + row) * s.width + column)] *
                 w[static_cast<size_t>(k * own * s.kernel_height * s.kernel_width + j)];
        }
        y.push_back(sum);
      }
    }
    return y;
  }

  std::mt19937_64 rng_;
};

TEST_F(ConvolutionTest, IsTheDefinition) {
  const Sizes s = {4, 7, 6, 6, 3, 2};
  for (const int64_t groups : {1, 2}) {
    const Vector x = Random(4 * 7 * 6);
    const Vector w = Random(6 * 4 / groups * 3 * 2);
    ConvOptions options;
    options.stride = {2, 1};
    options.padding = {1, 2};
    options.groups = groups;
    options.dilation = {1, groups};
    const Array y = conv2d(Make(x, {4, 7, 6}), Make(w, {6, 4 / groups, 3, 2}), Operand(), options);
    const int64_t width = 6 + 4 - groups;
    ASSERT_EQ(y.shape(), Shape({6, 4, width}));
    ExpectNear(Values(y), Wanted(s, x, w, {2, 1}, {1, 2}, {1, groups}, groups, 4, width), 1e-12);
  }
}

// An odd element of padding comes behind x.
TEST_F(ConvolutionTest, MayKeepTheSize) {
  const Sizes s = {2, 5, 6, 4, 3, 4};
  const Vector x = Random(2 * 5 * 6);
  const Vector w = Random(4 * 2 * 3 * 4);
  const Vector b = Random(4);
  ConvOptions options;
  options.pads_same = true;
  for (const int64_t dilation : {1, 3}) {
    options.dilation = {dilation};
    const Array y = conv2d(Make(x, {1, 2, 5, 6}), Make(w, {4, 2, 3, 4}), Make(b), options);
    ASSERT_EQ(y.shape(), Shape({1, 4, 5, 6}));
    Vector wanted =
        Wanted(s, x, w, {1, 1}, {dilation, 3 * dilation / 2}, {dilation, dilation}, 1, 5, 6);
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += b[i / 30];
    ExpectNear(Values(y), wanted, 1e-12);
  }
}

TEST_F(ConvolutionTest, OfOneAndThreeDimensions) {
  ConvOptions options;
  options.padding = {1};
  const Array x = Make({1, 2, 3}, {1, 3});
  const Array y = conv1d(x, Make({1, 10, 100}, {1, 1, 3}), Operand(), options);
  EXPECT_EQ(Values(y), Vector({210, 321, 32}));
  const Array volumes = Make(Vector(2 * 27, 1), {2, 1, 3, 3, 3});
  const Array sums = conv3d(volumes, Make(Vector(8, 1), {1, 1, 2, 2, 2}));
  EXPECT_EQ(sums.shape(), Shape({2, 1, 2, 2, 2}));
  EXPECT_EQ(Values(sums), Vector(16, 8));
  // Its gradient counts the windows of an element.
  const Array kernels = Make({1, 1}, {1, 1, 2}).RequireGrad();
  ASSERT_OK(Backward(sum(conv1d(x, kernels))));
  EXPECT_EQ(Values(kernels.Grad()), Vector({3, 5}));
}

TEST_F(ConvolutionTest, WhatItRefuses) {
  const Array x = Make(Vector(8, 1), {1, 2, 4});
  const Array w = Make(Vector(6, 1), {1, 2, 3});
  const auto message = [](const Array& array) { return array.status().message(); };
  EXPECT_TRUE(StrContains(message(conv2d(x, w)), "[conv2d] expects x of 3 or 4 dimensions"));
  EXPECT_TRUE(StrContains(message(conv3d(x, w)), "[conv3d] expects x of 4 or 5 dimensions"));
  ConvOptions options;
  options.pads_same = true;
  options.stride = {2};
  EXPECT_TRUE(StrContains(message(conv1d(x, w, Operand(), options)), "expects stride 1"));
  options.stride = {1};
  options.dilation = {1, 2};
  EXPECT_TRUE(StrContains(message(conv1d(x, w, Operand(), options)), "expects 1 dilations, got 2"));
  options.dilation = {INT64_MAX};
  EXPECT_TRUE(StrContains(message(conv1d(x, w, Operand(), options)), "expects positive kernels"));
  options.pads_same = false;
  EXPECT_FALSE(conv1d(x, w, Operand(), options).ok());
  options.dilation = {1, 1};
  EXPECT_FALSE(conv1d(x, w, Operand(), options).ok());
  options.pads_same = true;
  options.dilation = {-1};
  EXPECT_FALSE(conv1d(x, w, Operand(), options).ok());
  EXPECT_FALSE(conv1d(Array(), w).ok());
  EXPECT_FALSE(conv1d(x, Array()).ok());
}

}  // namespace
}  // namespace chx
