// Products against sums in extended precision, over random shapes and layouts.
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "gtest/gtest.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

class LinalgTest : public testing::Test {
 protected:
  TestArray Random(Dtype dtype, const Shape& shape) {
    TestArray array = TestArray::RandomLayout(rng_, dtype, shape);
    array.FillRandom(rng_, false);
    return array;
  }
  // Results of k products each of magnitude up to 16.
  static void ExpectClose(Dtype dtype, int64_t k, Number got, Number want,
                          const std::string& what) {
    if (IsFloat(dtype)) {
      const Number bound = Tolerance(dtype) * 16 * (k + 4);
      ASSERT_LE(std::fabs(got - want), bound) << what;
    } else if (IsBool(dtype)) {
      ASSERT_EQ(got, Number(want != 0)) << what;
    } else {
      const Number modulus = std::ldexp(Number(1), static_cast<int>(ItemSize(dtype)) * 8);
      ASSERT_EQ(std::fmod(got - want, modulus), 0) << what;
    }
  }
  void CheckLinear(Dtype dtype, const Shape& batch, const Shape& features, int64_t outputs,
                   bool with_bias) {
    const int64_t k = features[0] * features[1];
    const TestArray x = Random(dtype, {batch[0], batch[1], features[0], features[1]});
    const TestArray w = Random(dtype, {outputs, k});
    const TestArray b = Random(dtype, {outputs});
    std::vector<TestOperand> inputs = {x, w};
    if (with_bias) inputs.push_back(b);
    const TestArray got = runner_.Run("linear", inputs, {AttrValue(2)});
    for (int64_t i = 0; i < got.size(); ++i) {
      Number want = with_bias ? b.Get(i % outputs) : 0;
      for (int64_t p = 0; p < k; ++p) {
        want += x.Get(i / outputs * k + p) * w.Get(i % outputs * k + p);
      }
      ExpectClose(dtype, k, got.Get(i), want, std::string(DtypeName(dtype)));
    }
  }
  void CheckMatmul(Dtype dtype, const TestArray& a, const TestArray& b) {
    const TestArray got = runner_.Run("matmul", {a, b});
    TestArray x = a;
    TestArray y = b;
    const auto expand = [](const TestArray& array, const Shape& shape, const Strides& strides) {
      TestArray result = array;
      result.tensor().shape = shape;
      result.tensor().strides = strides;
      return result;
    };
    if (a.shape().size() == 1) x = expand(a, {1, a.shape()[0]}, {0, a.tensor().strides[0]});
    if (b.shape().size() == 1) y = expand(b, {b.shape()[0], 1}, {b.tensor().strides[0], 0});
    const int64_t m = x.shape()[x.shape().size() - 2];
    const int64_t k = x.shape().back();
    const int64_t n = y.shape().back();
    Shape batch(x.shape().span().subspan(0, x.shape().size() - 2));
    ASSERT_TRUE(BroadcastInto(&batch, Shape(y.shape().span().subspan(0, y.shape().size() - 2))));
    const int64_t count = NumElements(batch);
    batch.push_back(m);
    batch.push_back(k);
    const TestArray left = x.BroadcastTo(batch);
    batch[batch.size() - 2] = k;
    batch[batch.size() - 1] = n;
    const TestArray right = y.BroadcastTo(batch);
    ASSERT_EQ(got.size(), count * m * n);
    for (int64_t i = 0; i < got.size(); ++i) {
      Number want = 0;
      for (int64_t p = 0; p < k; ++p) {
        want += left.Get(i / n * k + p) * right.Get(i / (m * n) * k * n + p * n + i % n);
      }
      ExpectClose(dtype, k, got.Get(i), want,
                  std::string(DtypeName(dtype)) + a.shape().ToString() + b.shape().ToString());
    }
  }

  // (2, rows, columns), by rows or by columns.
  TestArray Bfloat16Matrices(int64_t rows, int64_t columns, bool by_rows) {
    if (by_rows) {
      TestArray array(Dtype::kBfloat16, {2, rows, columns});
      array.FillRandom(rng_, false);
      return array;
    }
    TestArray array = Bfloat16Matrices(columns, rows, true);
    KernelTensor& tensor = array.tensor();
    tensor.shape = {2, rows, columns};
    tensor.strides = {tensor.strides[0], tensor.strides[2], tensor.strides[1]};
    return array;
  }
  // Rounded once: of `want`, a sum of k products, in float32.
  void ExpectRounded(const TestArray& got, int64_t i, const TestArray& a, const TestArray& b,
                     Number bias, int64_t k, int64_t n) {
    const int64_t first_a = i / n * k;
    const int64_t matrix = i / got.shape()[got.shape().size() - 2] / n;
    Number want = bias;
    Number size = std::fabs(bias);
    for (int64_t p = 0; p < k; ++p) {
      const Number product = a.Get(first_a + p) * b.Get(matrix * k * n + p * n + i % n);
      want += product;
      size += std::fabs(product);
    }
    ASSERT_LE(std::fabs(got.Get(i) - want), std::fabs(want) / 256 + size / (1 << 18))
        << got.shape().ToString() << " of " << k << " products, element " << i;
  }

  Rng rng_ = MakeRng();
  KernelRunner runner_{2};
};

TEST_F(LinalgTest, Matmul) {
  for (int round = 0; round < Rounds(40); ++round) {
    for (const Dtype dtype : kAllDtypes) {
      const int64_t m = RandomInt(rng_, 0, 9);
      const int64_t k = RandomInt(rng_, 0, 9);
      const int64_t n = RandomInt(rng_, 0, 9);
      const Shape batch = RandomShape(rng_, 2, 3);
      Shape shape_a = RandomBroadcastable(rng_, batch);
      Shape shape_b = RandomBroadcastable(rng_, batch);
      for (const int64_t dim : {m, k}) shape_a.push_back(dim);
      for (const int64_t dim : {k, n}) shape_b.push_back(dim);
      if (round % 5 == 1) shape_a = {k};
      if (round % 5 == 2) shape_b = {k};
      if (round % 5 == 3) shape_a = shape_b = {k};
      CheckMatmul(dtype, Random(dtype, shape_a), Random(dtype, shape_b));
    }
  }
}

TEST_F(LinalgTest, RepeatedRowsAndColumns) {
  for (const Dtype dtype : kFloatDtypes) {
    const TestArray row = Random(dtype, {1, 5}).BroadcastTo({4, 5});
    const TestArray column = Random(dtype, {5, 1}).BroadcastTo({5, 6});
    CheckMatmul(dtype, row, column);
    CheckMatmul(dtype, Random(dtype, {1}).BroadcastTo({5}), column);
  }
}

// Columns times rows, whose sums are of one product.
TEST_F(LinalgTest, OuterProducts) {
  for (int round = 0; round < Rounds(20); ++round) {
    for (const Dtype dtype : kAllDtypes) {
      const Shape batch = RandomShape(rng_, 2, 3);
      Shape shape_a = RandomBroadcastable(rng_, batch);
      Shape shape_b = RandomBroadcastable(rng_, batch);
      for (const int64_t dim : {RandomInt(rng_, 0, 40), int64_t{1}}) shape_a.push_back(dim);
      for (const int64_t dim : {int64_t{1}, RandomInt(rng_, 0, 40)}) shape_b.push_back(dim);
      if (round % 4 == 1) shape_a = {1};
      if (round % 4 == 2) shape_b = {1};
      CheckMatmul(dtype, Random(dtype, shape_a), Random(dtype, shape_b));
    }
  }
}

TEST_F(LinalgTest, LargeMatmulInPanels) {
  CheckMatmul(Dtype::kFloat32, Random(Dtype::kFloat32, {70, 90}),
              Random(Dtype::kFloat32, {90, 333}));
  CheckMatmul(Dtype::kFloat64, Random(Dtype::kFloat64, {333, 90}),
              Random(Dtype::kFloat64, {90, 70}));
  CheckMatmul(Dtype::kFloat32, Random(Dtype::kFloat32, {1, 900}),
              Random(Dtype::kFloat32, {900, 700}));
  CheckMatmul(Dtype::kFloat32, Random(Dtype::kFloat32, {9, 50, 60}),
              Random(Dtype::kFloat32, {60, 50}));
}

TEST_F(LinalgTest, Linear) {
  for (int round = 0; round < Rounds(30); ++round) {
    for (const Dtype dtype : kAllDtypes) {
      CheckLinear(dtype, {RandomInt(rng_, 0, 5), RandomInt(rng_, 1, 4)},
                  {RandomInt(rng_, 1, 4), RandomInt(rng_, 0, 5)}, RandomInt(rng_, 0, 6),
                  round % 2 == 0);
    }
  }
}

TEST_F(LinalgTest, LinearOfManyRows) {
  std::vector<Dtype> dtypes(std::begin(kAllDtypes), std::end(kAllDtypes));
  if (kSanitized) dtypes = {Dtype::kInt32, Dtype::kFloat32, Dtype::kBfloat16};  // for their time
  for (const Dtype dtype : dtypes) {
    CheckLinear(dtype, {3, 100}, {4, 10}, 70, true);
    CheckLinear(dtype, {256, 1}, {1, 33}, 129, false);
  }
}

// What is left over of rows and columns that are cut; one row, one column, few products; parts of
// wider matrices.
TEST_F(LinalgTest, ProductsOfBfloat16OfOddSizes) {
  struct Sizes {
    int64_t m, k, n, gap;
  };
  for (const Sizes& s : {Sizes{257, 64, 129, 0}, Sizes{1, 700, 129, 0}, Sizes{129, 700, 1, 0},
                         Sizes{300, 1, 300, 0}, Sizes{513, 33, 1, 0}, Sizes{65, 200, 130, 7}}) {
    for (const bool by_rows : {false, true}) {
      TestArray a = Bfloat16Matrices(s.m, s.k + s.gap, by_rows);
      TestArray b = Bfloat16Matrices(s.k, s.n + s.gap, !by_rows);
      a.tensor().shape = {2, s.m, s.k};
      b.tensor().shape = {2, s.k, s.n};
      const TestArray got = runner_.Run("matmul", {a, b});
      for (int64_t i = 0; i < got.size(); i += 1 + got.size() / 2000) {
        ExpectRounded(got, i, a, b, 0, s.k, s.n);
      }
      ExpectRounded(got, got.size() - 1, a, b, 0, s.k, s.n);
    }
  }
}

// Some processors have instructions for those with much work.
TEST_F(LinalgTest, ProductsOfBfloat16AreRoundedOnce) {
  KernelRunner one(1);
  for (int round = 0; round < Rounds(24); ++round) {
    const bool is_large = round % 6 == 0;
    const int64_t m = is_large ? RandomInt(rng_, 130, 400) : RandomInt(rng_, 1, 90);
    const int64_t k = RandomInt(rng_, 1, 300);
    const int64_t n = is_large ? RandomInt(rng_, 130, 400) : RandomInt(rng_, 1, 90);
    const TestArray a = Bfloat16Matrices(m, k, round % 2 == 0);
    const TestArray b = Bfloat16Matrices(k, n, round / 2 % 2 == 0);
    const TestArray got = runner_.Run("matmul", {a, b});
    EXPECT_EQ(got.Bytes(), one.Run("matmul", {a, b}).Bytes());
    for (int j = 0; j < 300; ++j) {
      ExpectRounded(got, RandomInt(rng_, 0, got.size() - 1), a, b, 0, k, n);
    }
    // x (2 m, k), w (n, k) and a bias of each column.
    const TestArray w = Bfloat16Matrices(n, k, true);
    TestArray first = w;
    first.tensor().shape = {n, k};
    first.tensor().strides = {w.tensor().strides[1], w.tensor().strides[2]};
    TestArray columns = w;
    columns.tensor().shape = {2, k, n};
    columns.tensor().strides = {0, w.tensor().strides[2], w.tensor().strides[1]};
    const TestArray bias = Random(Dtype::kBfloat16, {n});
    const TestArray sums = runner_.Run("linear", {a, first, bias}, {AttrValue(2)});
    for (int j = 0; j < 300; ++j) {
      const int64_t i = RandomInt(rng_, 0, sums.size() - 1);
      ExpectRounded(sums, i, a, columns, bias.Get(i % n), k, n);
    }
  }
}

TEST_F(LinalgTest, AnyNumberOfThreadsGivesTheSameBits) {
  KernelRunner one(1);
  KernelRunner many(4);
  for (const Dtype dtype : kFloatDtypes) {
    const TestArray a = Random(dtype, {130, 200});
    const TestArray b = Random(dtype, {200, 310});
    EXPECT_EQ(one.Run("matmul", {a, b}).Bytes(), many.Run("matmul", {a, b}).Bytes());
  }
}

}  // namespace
}  // namespace chx::server::native
