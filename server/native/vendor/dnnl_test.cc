// What is special about convolutions by oneDNN; that they are right is in connection_test.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/native/testing/test_array.h"
#include "server/native/vendor/dnnl_convolution.h"
#include "server/native/vendor/dnnl_library.h"

namespace chx::server::native {
namespace {

ConvShape ShapeOf(ConvKind kind, int64_t samples, int64_t channels, int64_t size, int64_t features,
                  int64_t kernel) {
  ConvShape shape = {kind, samples, channels, features, {}};
  for (int d = 0; d < 2; ++d) shape.windows.Append(size, size, kernel, 1, kernel / 2);
  return shape;
}

TEST(DnnlTest, IsInstalledHere) { EXPECT_NE(Dnnl(), nullptr); }

TEST(DnnlTest, TakesWhatItIsFasterAt) {
  EXPECT_TRUE(DnnlIsFaster(ShapeOf(ConvKind::kForward, 8, 64, 56, 64, 3)));
  EXPECT_TRUE(DnnlIsFaster(ShapeOf(ConvKind::kImage, 8, 64, 56, 64, 3)));
  EXPECT_TRUE(DnnlIsFaster(ShapeOf(ConvKind::kWeight, 8, 64, 56, 64, 3)));
  // Hardly any work; one product of matrices; an image of few channels; large weights.
  EXPECT_FALSE(DnnlIsFaster(ShapeOf(ConvKind::kForward, 1, 8, 5, 8, 3)));
  EXPECT_FALSE(DnnlIsFaster(ShapeOf(ConvKind::kForward, 1, 64, 56, 64, 1)));
  EXPECT_FALSE(DnnlIsFaster(ShapeOf(ConvKind::kImage, 8, 3, 224, 64, 7)));
  EXPECT_FALSE(DnnlIsFaster(ShapeOf(ConvKind::kWeight, 1, 512, 7, 512, 3)));
}

// Clients choose shapes; oneDNN's machine code has 32 bits for each offset.
TEST(DnnlTest, LeavesWildShapesAlone) {
  ConvShape shape = ShapeOf(ConvKind::kForward, 8, 64, 56, 64, 3);
  shape.windows.stride[1] = 1 << 20;
  EXPECT_FALSE(DnnlIsFaster(shape));
  shape.windows.stride[1] = 1;
  shape.windows.pad[0] = int64_t{1} << 31;
  EXPECT_FALSE(DnnlIsFaster(shape));
  EXPECT_FALSE(DnnlIsFaster(ShapeOf(ConvKind::kForward, 1, 64, 1 << 14, 64, 3)));
  EXPECT_FALSE(DnnlIsFaster(ShapeOf(ConvKind::kForward, 8, 1 << 20, 4, 1 << 20, 3)));
}

// Sums are cut by shapes alone, and oneDNN runs on our threads only.
TEST(DnnlTest, ThreadsDontChangeResults) {
  Rng rng = MakeRng();
  TestArray x(Dtype::kFloat32, {19, 16, 12, 12});
  TestArray w(Dtype::kFloat32, {24, 16, 3, 3});
  TestArray y(Dtype::kFloat32, {19, 24, 12, 12});
  for (TestArray* array : {&x, &w, &y}) array->FillRandom(rng, false);
  const auto run = [&](int threads) {
    KernelRunner runner(threads);
    const Ints one{1};
    return std::vector<std::string>{
        runner.Run("conv", {x, w, TestOperand()}, {one, one, false}).Bytes(),
        runner.Run("conv_transpose", {y, w, TestOperand()}, {one, one, AttrValue()}).Bytes(),
        runner.Run("conv_grad_weight", {x, y}, {Ints{3}, one, one}).Bytes()};
  };
  const std::vector<std::string> want = run(1);
  for (const int threads : {2, 3, 5}) EXPECT_EQ(run(threads), want) << threads;
}

// On any processor: in float32, and rounded once.
class Bfloat16Test : public testing::Test {
 protected:
  static TestArray Filled(Rng& rng, const Shape& shape) {
    TestArray array(Dtype::kBfloat16, shape);
    array.FillRandom(rng, false);
    return array;
  }
  static TestArray Wide(const TestArray& narrow, bool absolute) {
    TestArray wide(Dtype::kFloat32, narrow.shape());
    for (int64_t i = 0; i < narrow.size(); ++i) {
      wide.Set(i, absolute ? std::fabs(narrow.Get(i)) : narrow.Get(i));
    }
    return wide;
  }
  void Check(const std::string& op, const std::vector<TestArray>& inputs, const Attrs& attrs) {
    const auto run = [&](KernelRunner* runner, int kind) {
      std::vector<TestOperand> operands;
      for (const TestArray& input : inputs) {
        operands.emplace_back(kind == 0 ? input : Wide(input, kind == 2));
      }
      if (inputs.size() == 2 && op.find("grad") == std::string::npos) operands.emplace_back();
      return runner->Run(op, operands, attrs);
    };
    const TestArray got = run(&runner_, 0);
    EXPECT_EQ(got.Bytes(), run(&other_, 0).Bytes()) << op;
    const TestArray want = run(&runner_, 1);
    const TestArray size = run(&runner_, 2);  // of what is added up
    for (int64_t i = 0; i < got.size(); ++i) {
      ASSERT_LE(std::fabs(got.Get(i) - want.Get(i)),
                std::fabs(want.Get(i)) / 256 + size.Get(i) / (1 << 16))
          << op << " " << got.shape().ToString() << " element " << i;
    }
  }

  Rng rng_ = MakeRng();
  KernelRunner runner_{2};
  KernelRunner other_{1};
};

TEST_F(Bfloat16Test, ConvolutionsAreRoundedOnce) {
  const Ints one{1};
  for (const int64_t samples : {1, 3, 19}) {
    const TestArray x = Filled(rng_, {samples, 16, 12, 13});
    const TestArray w = Filled(rng_, {24, 16, 3, 3});
    const TestArray b = Filled(rng_, {24});
    const TestArray y = Filled(rng_, {samples, 24, 12, 13});
    Check("conv", {x, w}, {one, one, false});
    Check("conv", {x, w, b}, {one, one, false});
    Check("conv_transpose", {y, w}, {one, one, AttrValue()});
    Check("conv_transpose", {y, w, Filled(rng_, {16})}, {one, one, AttrValue()});
    Check("conv_grad_weight", {x, y}, {Ints{3}, one, one});
    const TestArray of_groups = Filled(rng_, {24, 8, 3, 3});
    const Attrs attrs = {one, one, one, AttrValue(2)};
    Check("grouped_conv", {x, of_groups, b}, attrs);
    const TestArray single = Filled(rng_, {16, 1, 3, 3});
    Check("grouped_conv", {x, single}, {one, Ints{2}, Ints{2}, AttrValue(16)});
  }
}

}  // namespace
}  // namespace chx::server::native
