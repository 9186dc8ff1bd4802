// Decompositions must give back what was decomposed, for random shapes and layouts.
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/error.h"
#include "ops/op_def.h"
#include "ops/registry.h"
#include "server/native/testing/test_array.h"

namespace chx::native {
namespace {

class DecompositionsTest : public testing::Test {
 protected:
  // Matrices that are far from singular.
  TestArray Random(Dtype dtype, const Shape& shape) {
    TestArray array = TestArray::RandomLayout(rng_, dtype, shape);
    array.FillRandom(rng_, false);
    const int64_t columns = shape.back();
    const int64_t rows = shape[shape.size() - 2];
    for (int64_t i = 0; i < array.size(); ++i) {
      const bool diagonal = i / columns % rows == i % columns;
      array.Set(i, array.Get(i) / 8 + (diagonal ? static_cast<Number>(rows + columns) : 0));
    }
    return array;
  }
  // (matrix^T matrix)[i, j] or matrix[i, :] other[:, j] of the p-th matrices.
  static Number Product(const TestArray& a, const TestArray& b, int64_t p, int64_t i, int64_t j,
                        bool transpose_b) {
    const int last = a.shape().size() - 1;
    const int64_t rows = a.shape()[last - 1];
    const int64_t inner = a.shape()[last];
    const int64_t columns = transpose_b ? b.shape()[last - 1] : b.shape()[last];
    Number sum = 0;
    for (int64_t k = 0; k < inner; ++k) {
      sum += a.Get((p * rows + i) * inner + k) *
             b.Get(transpose_b ? (p * columns + j) * inner + k : (p * inner + k) * columns + j);
    }
    return sum;
  }
  static void ExpectClose(Dtype dtype, Number got, Number want, const std::string& what) {
    ASSERT_LE(std::fabs(got - want), Tolerance(dtype) * 500) << what;
  }

  Rng rng_ = MakeRng();
  KernelRunner runner_{3};
};

constexpr Dtype kDtypes[] = {Dtype::kFloat32, Dtype::kFloat64};

TEST_F(DecompositionsTest, SolveSatisfiesTheEquations) {
  for (int round = 0; round < 40; ++round) {
    const Dtype dtype = kDtypes[round % 2];
    const int64_t n = RandomInt(rng_, 1, 6);
    const int64_t k = RandomInt(rng_, 0, 3);
    const int64_t count = RandomInt(rng_, 1, 9);
    const TestArray a = Random(dtype, {count, n, n});
    TestArray b = TestArray::RandomLayout(rng_, dtype, {1, n, k});
    b.FillRandom(rng_, false);
    const TestArray x = runner_.Run("solve", {a, b});
    const TestArray right = b.BroadcastTo({count, n, k});
    ASSERT_EQ(x.shape(), right.shape());
    for (int64_t i = 0; i < x.size(); ++i) {
      ExpectClose(dtype, Product(a, x, i / (n * k), i / k % n, i % k, false), right.Get(i),
                  "solve");
    }
  }
}

TEST_F(DecompositionsTest, CholeskyGivesAFactor) {
  for (int round = 0; round < 20; ++round) {
    const Dtype dtype = kDtypes[round % 2];
    const int64_t n = RandomInt(rng_, 1, 6);
    const TestArray a = Random(dtype, {3, n, n});  // of which the lower half counts
    const TestArray l = runner_.Run("cholesky", {a});
    for (int64_t p = 0; p < 3; ++p) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          if (j > i) {
            ASSERT_EQ(l.Get((p * n + i) * n + j), 0);
          } else {
            ExpectClose(dtype, Product(l, l, p, i, j, true), a.Get((p * n + i) * n + j),
                        "cholesky");
          }
        }
      }
    }
  }
}

TEST_F(DecompositionsTest, FailuresNameTheMatrix) {
  TestArray a(Dtype::kFloat64, {2, 2, 2});
  for (int64_t i = 0; i < 8; ++i) a.Set(i, i % 4 == 0 || i % 4 == 3 ? 1 : 0);
  a.Set(7, -1);
  const absl::StatusOr<TestArray> l = runner_.TryRun("cholesky", {a});
  ASSERT_FALSE(l.ok());
  EXPECT_EQ(KindOf(l.status()), ErrorKind::kChainerx);
  EXPECT_EQ(l.status().message(),
            "[cholesky] expects positive definite matrices; LAPACK's code is 2 for matrix 1");
  a.Set(7, 0);
  const absl::StatusOr<TestArray> x = runner_.TryRun("solve", {a, a});
  ASSERT_FALSE(x.ok());
  EXPECT_EQ(x.status().message(),
            "[solve] expects matrices that are not singular; LAPACK's code is 2 for matrix 1");
}

TEST_F(DecompositionsTest, NotANumberIsNoCrash) {
  for (const char* op : {"cholesky", "eigh", "eigvalsh", "svd", "qr"}) {
    for (const Number value : {Number(NAN), Number(INFINITY)}) {
      TestArray a = Random(Dtype::kFloat32, {4, 4});
      for (int64_t i = 0; i < 16; ++i) a.Set(i, value);
      Attrs attrs;
      for (const AttrDef& attr : OpRegistry::Global().Find(op)->attrs) {
        attrs.push_back(attr.default_value);
      }
      runner_.TryRun(op, {a}, attrs).status().IgnoreError();
    }
  }
}

}  // namespace
}  // namespace chx::native
