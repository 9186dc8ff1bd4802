// Activations, losses, convolutions, pooling, normalization and recurrent networks, against values
// computed by hand or by naive loops.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/chainerx/chainerx_fixture.h"

namespace chainerx {
namespace {

class NeuralNetworksTest : public ChainerxTest {};

double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

TEST_F(NeuralNetworksTest, Activation) {
  const Array x = Doubles({3}, {-1, 0.5, 30});
  ExpectArray(Relu(x), {3}, {0, 0.5, 30});
  ExpectArray(ClippedRelu(x, 20.0), {3}, {0, 0.5, 20});
  ExpectArray(LeakyRelu(x, 0.5), {3}, {-0.5, 0.5, 30});
  ExpectArray(Elu(x), {3}, {std::expm1(-1), 0.5, 30});
  ExpectArray(Sigmoid(x), {3}, {Logistic(-1), Logistic(0.5), 1});
  ExpectArray(Softplus(x), {3}, {std::log1p(std::exp(-1)), std::log1p(std::exp(0.5)), 30});
  ExpectArray(CRelu(Doubles({1, 2}, {-1, 2}), 1), {1, 4}, {0, 2, 1, 0});
}

TEST_F(NeuralNetworksTest, Loss) {
  const Array a = Doubles({2}, {1, 4});
  const Array b = Doubles({2}, {1.5, 1});
  ExpectArray(AbsoluteError(a, b), {2}, {0.5, 3});
  ExpectArray(SquaredError(a, b), {2}, {0.25, 9});
  ExpectArray(HuberLoss(a, b, 1.0), {2}, {0.125, 2.5});
  ExpectArray(GaussianKLDivergence(a, b), {2},
              {0.5 * (1 + std::exp(1.5) - 1.5 - 1), 0.5 * (16 + std::exp(1) - 1 - 1)});
  const Array t = Build<int64_t>({2}, {1, -1});
  ExpectArray(SoftmaxCrossEntropy(Zeros({2, 4}, Dtype::kFloat64), t), {2}, {std::log(4), 0});
  ExpectArray(SigmoidCrossEntropy(Zeros({2}, Dtype::kFloat64), t), {2}, {std::log(2), 0});
  ExpectArray(Hinge(Doubles({1, 2}, {0.5, -3}), Build<int64_t>({1}, {0}), 1.0), {1, 2}, {0.5, 0});
  ExpectArray(Accuracy(Doubles({2, 2}, {1, 2, 5, 0}), Build<int64_t>({2}, {1, 1}), absl::nullopt),
              {}, {0.5});
}

TEST_F(NeuralNetworksTest, Linear) {
  const Array x = Doubles({2, 3}, {1, 2, 3, 4, 5, 6});
  const Array w = Doubles({2, 3}, {1, 0, 1, 0, 2, 0});
  ExpectArray(Linear(x, w), {2, 2}, {4, 4, 10, 10});
  ExpectArray(Linear(x, w, Doubles({2}, {1, -1})), {2, 2}, {5, 3, 11, 9});
  EXPECT_EQ(Linear(x.Reshape({1, 2, 3}), w, absl::nullopt, 2).shape(), (Shape{1, 2, 2}));
}

TEST_F(NeuralNetworksTest, ConvolutionIsThatOfNaiveLoops) {
  constexpr int64_t kSize = 4;
  const Array x = Ramp({1, 1, kSize, kSize}, -3, 0.5);
  const Array w = Ramp({1, 1, 2, 2}, 1, -0.75);
  const std::vector<double> xs = Values(x);
  const std::vector<double> ws = Values(w);
  std::vector<double> expected;
  for (int64_t i = -1; i + 1 <= kSize; i += 2) {  // stride 2, pad 1
    for (int64_t j = -1; j + 1 <= kSize; j += 2) {
      double sum = 10;
      for (int64_t k = 0; k < 4; ++k) {
        const int64_t row = i + k / 2;
        const int64_t column = j + k % 2;
        if (row < 0 || row >= kSize || column < 0 || column >= kSize) continue;
        sum += xs[static_cast<size_t>(row * kSize + column)] * ws[static_cast<size_t>(k)];
      }
      expected.push_back(sum);
    }
  }
  const Array y = Conv(x, w, Doubles({1}, {10}), {2, 2}, {1, 1});
  ExpectArray(y, {1, 1, 3, 3}, expected);
  EXPECT_EQ(Conv(x, w, absl::nullopt, {1, 1}, {0, 0}, false, Dtype::kFloat32).dtype(),
            Dtype::kFloat32);
  EXPECT_EQ(ConvTranspose(y, w, absl::nullopt, {2, 2}, {1, 1}).shape(), x.shape());
  EXPECT_EQ(ConvTranspose(y, w, absl::nullopt, {2, 2}, {1, 1}, Dims{5, 5}).shape(),
            (Shape{1, 1, 5, 5}));
}

TEST_F(NeuralNetworksTest, Pooling) {
  const Array x = Doubles({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  ExpectArray(MaxPool(x, {2, 2}, {2, 2}, {0, 0}), {1, 1, 2, 2}, {4, 5, 7, 8});
  ExpectArray(MaxPool(x, {2, 2}, {2, 2}, {0, 0}, false), {1, 1, 1, 1}, {4});
  ExpectArray(AveragePool(x, {2, 2}, {2, 2}, {1, 1}), {1, 1, 2, 2}, {0, 1.5, 4.5, 6});
  ExpectArray(AveragePool(x, {2, 2}, {2, 2}, {1, 1}, AveragePoolPadMode::kZero), {1, 1, 2, 2},
              {0, 0.75, 2.25, 6});
}

TEST_F(NeuralNetworksTest, Normalization) {
  const Array x = Doubles({2, 1}, {1, 3});
  const Array one = Ones({1}, Dtype::kFloat64);
  const Array running_mean = Zeros({1}, Dtype::kFloat64);
  const Array running_var = Ones({1}, Dtype::kFloat64);
  const Array y = BatchNorm(x, one, one, running_mean, running_var, 0.0, 0.5);
  ExpectArray(y, {2, 1}, {0, 2});
  ExpectArray(running_mean, {1}, {1});
  ExpectArray(running_var, {1}, {1.5});  // of the unbiased variance
  ExpectArray(FixedBatchNorm(x, one, one, one, 4 * one, 0.0), {2, 1}, {1, 2});
}

TEST_F(NeuralNetworksTest, Lstm) {
  const Array c = Doubles({1, 1}, {0.5});
  // a, i, f, o
  const std::vector<Array> next = Lstm(c, Doubles({1, 4}, {0.1, 0.2, 0.3, 0.4}));
  const double cell = std::tanh(0.1) * Logistic(0.2) + 0.5 * Logistic(0.3);
  ExpectArray(next[0], {1, 1}, {cell});
  ExpectArray(next[1], {1, 1}, {Logistic(0.4) * std::tanh(cell)});
}

// One unit: weights and biases are numbers.
struct Gates {
  std::vector<double> w;
  std::vector<double> b;
  std::vector<Array> Weights() const {
    std::vector<Array> arrays;
    for (double value : w) arrays.push_back(Doubles({1, 1}, {value}));
    return arrays;
  }
  std::vector<Array> Biases() const {
    std::vector<Array> arrays;
    for (double value : b) arrays.push_back(Doubles({1}, {value}));
    return arrays;
  }
};

TEST_F(NeuralNetworksTest, NStepLstmEndsStatesOfShortSequences) {
  const Gates gates{{0.1, -0.2, 0.3, 0.4, 0.5, 0.6, -0.7, 0.8},
                    {0.0, 0.1, 0.2, 0.3, -0.1, 0.0, 0.1, 0.2}};
  // Two sequences, of 2 and 1 steps.
  std::vector<Array> xs = {Doubles({2, 1}, {1, 2}), Doubles({1, 1}, {-1})};
  const Array hx = Doubles({1, 2, 1}, {0.5, -0.5});
  const Array cx = Doubles({1, 2, 1}, {0.25, -0.25});
  double h[] = {0.5, -0.5};
  double c[] = {0.25, -0.25};
  const auto step = [&](int row, double x) {
    const auto gate = [&](size_t i) {
      return gates.w[i] * x + gates.b[i] + gates.w[i + 4] * h[row] + gates.b[i + 4];
    };
    // i, f, candidate, o
    c[row] = Logistic(gate(1)) * c[row] + Logistic(gate(0)) * std::tanh(gate(2));
    h[row] = Logistic(gate(3)) * std::tanh(c[row]);
    return h[row];
  };
  const double first = step(0, 1);
  const double other = step(1, 2);
  const double second = step(0, -1);
  const ArrayLists out = NStepLstm(1, hx, cx, {gates.Weights()}, {gates.Biases()}, xs);
  ExpectArray(out[0][0], {1, 2, 1}, {h[0], h[1]});
  ExpectArray(out[0][1], {1, 2, 1}, {c[0], c[1]});
  ExpectArray(out[1][0], {2, 1}, {first, other});
  ExpectArray(out[1][1], {1, 1}, {second});
}

TEST_F(NeuralNetworksTest, NStepBiRnnGoesBothWays) {
  const Gates forwards{{0.5, 0.25}, {0.1, 0.2}};
  const Gates backwards{{-0.5, 0.75}, {0.0, 0.3}};
  std::vector<Array> xs = {Doubles({1, 1}, {1}), Doubles({1, 1}, {2})};
  const auto step = [](const Gates& g, double x, double h) {
    return std::tanh(g.w[0] * x + g.b[0] + g.w[1] * h + g.b[1]);
  };
  const double f1 = step(forwards, 1, 0);
  const double f2 = step(forwards, 2, f1);
  const double b2 = step(backwards, 2, 0);
  const double b1 = step(backwards, 1, b2);
  const ArrayLists ws = {forwards.Weights(), backwards.Weights()};
  const ArrayLists bs = {forwards.Biases(), backwards.Biases()};
  const Array hx = Zeros({2, 1, 1}, Dtype::kFloat64);
  const ArrayLists out = NStepBiRnn(1, hx, ws, bs, xs, absl::nullopt);
  ExpectArray(out[0][0], {2, 1, 1}, {f2, b1});
  ExpectArray(out[1][0], {1, 2}, {f1, b1});
  ExpectArray(out[1][1], {1, 2}, {f2, b2});
  EXPECT_EQ(out[0].size(), 1U);
  EXPECT_THROW(NStepRnn(1, hx, ws, bs, xs, "gelu"), ValueError);
  EXPECT_THROW(NStepRnn(1, hx, ws, bs, xs, "relu"), DimensionError);
}

TEST_F(NeuralNetworksTest, NStepGru) {
  const Gates gates{{0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, {0.1, 0, 0, 0, 0, -0.1}};
  std::vector<Array> xs = {Doubles({1, 1}, {1})};
  const double h = 0.5;
  const auto part = [&](size_t i, double x) { return gates.w[i] * x + gates.b[i]; };
  const double r = Logistic(part(0, 1) + part(3, h));
  const double z = Logistic(part(1, 1) + part(4, h));
  const double candidate = std::tanh(part(2, 1) + r * part(5, h));
  const ArrayLists out =
      NStepGru(1, Doubles({1, 1, 1}, {h}), {gates.Weights()}, {gates.Biases()}, xs);
  ExpectArray(out[1][0], {1, 1}, {(1 - z) * candidate + z * h});
}

}  // namespace
}  // namespace chainerx
