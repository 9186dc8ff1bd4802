// Decompositions must give back what was decomposed, for random shapes and layouts.
#include <unistd.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ops/error.h"
#include "ops/op_def.h"
#include "ops/registry.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
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

// Ends the process, and so the test, where LAPACK does not come back.
class TimeLimit {
 public:
  explicit TimeLimit(unsigned seconds) { alarm(seconds); }
  ~TimeLimit() { alarm(0); }
};

constexpr const char* kOfOneMatrix[] = {"cholesky", "eigh", "eigvalsh", "svd",
                                        "qr",       "eig",  "eigvals",  "cofactors"};

bool NeedsFinite(absl::string_view op) {
  return op != "cholesky" && op != "qr" && op != "cofactors";
}

TEST_F(DecompositionsTest, HostileElementsNeitherCrashNorHang) {
  const TimeLimit limit(100);
  for (int round = 0; round < 120; ++round) {
    const Dtype dtype = kFloatDtypes[round / 4 % 4];
    const Number huge = GreatestOf(dtype);
    const std::vector<Number> all = {-1,       33,       0,   1e-7L,    huge,     -huge,
                                     huge / 3, 1 / huge, NAN, INFINITY, -INFINITY};
    // Infinities alone are what LAPACK takes for numbers.
    const std::vector<Number> infinities = {-1, 33, 0, INFINITY, -INFINITY};
    const std::vector<Number> some(all.begin(), all.end() - 3);
    const std::vector<Number>& from = round % 4 == 0 ? some : round % 4 == 1 ? infinities : all;
    const int64_t n = round < 60 ? RandomInt(rng_, 1, 4) : RandomInt(rng_, 1, 40);
    TestArray a = TestArray::RandomLayout(rng_, dtype, {2, n, n});
    const Number filled = round % 7 == 0 ? from[RandomInt(rng_, 0, from.size() - 1)] : 0;
    bool finite = true;
    bool lower_finite = true;
    for (int64_t i = 0; i < a.size(); ++i) {
      a.Set(i, filled != 0 ? filled : from[RandomInt(rng_, 0, from.size() - 1)]);
      if (std::isfinite(a.Get(i))) continue;
      finite = false;
      if (i % n <= i / n % n) lower_finite = false;
    }
    for (const char* op : kOfOneMatrix) {
      Attrs attrs;
      for (const AttrDef& attr : OpRegistry::Global().Find(op)->attrs) {
        attrs.push_back(attr.default_value);
      }
      const absl::Status status = runner_.TryRun(op, {a}, attrs).status();
      if (!NeedsFinite(op)) continue;
      const bool refused = absl::StartsWith(
          status.message(), absl::StrCat("[", op, "] expects finite elements, got "));
      const bool half = absl::StartsWith(op, "eigh") || absl::StartsWith(op, "eigvalsh");
      ASSERT_EQ(refused, half ? !lower_finite : !finite) << op << " " << status;
    }
    runner_.TryRun("svd", {a}, {AttrValue(false), AttrValue(false)}).status().IgnoreError();
    runner_.TryRun("solve", {a, a}).status().IgnoreError();
  }
}

TEST_F(DecompositionsTest, WhatIsNotFiniteIsNamed) {
  TestArray a(Dtype::kFloat32, {2, 3, 3});
  for (int64_t i = 0; i < a.size(); ++i) a.Set(i, i % 9 % 4 == 0 ? 1 : 0);
  a.Set(11, -INFINITY);  // above the diagonal
  EXPECT_EQ(runner_.TryRun("eig", {a}).status().message(),
            "[eig] expects finite elements, got -inf in matrix 1");
  EXPECT_EQ(KindOf(runner_.TryRun("eigvals", {a}).status()), ErrorKind::kChainerx);
  EXPECT_TRUE(runner_.TryRun("eigvalsh", {a}, {AttrValue(int64_t{0})}).ok());
  EXPECT_EQ(runner_.TryRun("eigvalsh", {a}, {AttrValue(int64_t{1})}).status().message(),
            "[eigvalsh] expects finite elements, got -inf in matrix 1");
  TestArray nan(Dtype::kFloat64, {2, 3});
  for (int64_t i = 0; i < nan.size(); ++i) nan.Set(i, NAN);
  EXPECT_EQ(runner_.TryRun("svd", {nan}, {AttrValue(true), AttrValue(true)}).status().message(),
            "[svd] expects finite elements, got nan");
}

}  // namespace
}  // namespace chx::server::native
