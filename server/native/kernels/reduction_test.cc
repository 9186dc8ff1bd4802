// Reductions against sums and searches in extended precision, over random shapes and layouts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "gtest/gtest.h"
#include "ops/inference_rules.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

// The elements that go into each result, in C order.
std::vector<std::vector<Number>> Groups(const TestArray& x, uint32_t axes) {
  const Shape kept = rules::ReducedShape(x.shape(), axes, true);
  const Strides positions = ContiguousStrides(kept, 1);
  std::vector<std::vector<Number>> groups(NumElements(kept));
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t rest = i;
    int64_t group = 0;
    for (int d = x.shape().size() - 1; d >= 0; --d) {
      const int64_t index = rest % x.shape()[d];
      if (((axes >> d) & 1) == 0) group += index * positions[d];
      rest /= x.shape()[d];
    }
    groups[group].push_back(x.Get(i));
  }
  return groups;
}

// By halves: even Number would lose digits over millions of additions.
Number Sum(const Number* values, size_t n) {
  if (n == 1) return values[0];
  return n == 0 ? 0 : Sum(values, n / 2) + Sum(values + n / 2, n - n / 2);
}
Number Sum(const std::vector<Number>& values) { return Sum(values.data(), values.size()); }

// Position of the largest, the first of equals; NaN before all.
size_t ArgMax(const std::vector<Number>& values, Number sign) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (std::isnan(values[best])) break;
    if (std::isnan(values[i]) || sign * values[i] > sign * values[best]) best = i;
  }
  return best;
}

Number LogSumExp(const std::vector<Number>& values) {
  const Number max = values[ArgMax(values, 1)];
  if (!std::isfinite(max)) return max;
  Number sum = 0;
  for (const Number value : values) sum += std::exp(value - max);
  return max + std::log(sum);
}

class ReductionTest : public testing::Test {
 protected:
  TestArray Random(Dtype dtype, bool specials) {
    Shape shape = RandomShape(rng_, 4, 7);
    if (RandomInt(rng_, 0, 12) == 0) shape = {RandomInt(rng_, 1, 60), RandomInt(rng_, 1, 1700)};
    if (RandomInt(rng_, 0, 30) == 0) shape = {RandomInt(rng_, 1, 4), 40000, RandomInt(rng_, 1, 3)};
    if (RandomInt(rng_, 0, 6) == 0) {  // many columns, and short rows
      shape = {RandomInt(rng_, 1, 3), RandomInt(rng_, 1, 9), RandomInt(rng_, 1, 600),
               RandomInt(rng_, 1, 9)};
    }
    TestArray x = TestArray::RandomLayout(rng_, dtype, shape);
    x.FillRandom(rng_, specials);
    return x;
  }
  uint32_t RandomAxes(int ndim, AttrValue* attr) {
    if (RandomInt(rng_, 0, 3) == 0) {
      *attr = AttrValue();
      return (uint32_t{1} << ndim) - 1;
    }
    uint32_t axes = 0;
    Ints list;
    for (int d = 0; d < ndim; ++d) {
      if (RandomInt(rng_, 0, 1) == 0) continue;
      axes |= uint32_t{1} << d;
      list.push_back(RandomInt(rng_, 0, 1) == 0 ? d : d - ndim);
    }
    *attr = AttrValue(list);
    return axes;
  }

  Rng rng_ = MakeRng();
  KernelRunner runner_{2};
};

constexpr int kRounds = Rounds(40);

TEST_F(ReductionTest, Sum) {
  for (int round = 0; round < kRounds; ++round) {
    for (const Dtype dtype : kAllDtypes) {
      const TestArray x = Random(dtype, false);
      AttrValue axis;
      const uint32_t axes = RandomAxes(x.shape().size(), &axis);
      const TestArray got = runner_.Run("sum", {x}, {axis, AttrValue(round % 2 == 0)});
      const auto groups = Groups(x, axes);
      ASSERT_EQ(got.size(), static_cast<int64_t>(groups.size()));
      for (int64_t i = 0; i < got.size(); ++i) {
        // Relative to the sum of magnitudes, as rounding is.
        Number magnitude = 1;
        for (const Number value : groups[i]) magnitude += std::fabs(value);
        const Number bound = IsFloat(dtype) ? magnitude * Tolerance(dtype) : 0;
        ASSERT_LE(std::fabs(got.Get(i) - Sum(groups[i])), bound)
            << DtypeName(dtype) << " " << x.shape().ToString() << " " << axis.ToString();
      }
    }
  }
}

TEST_F(ReductionTest, Extremes) {
  for (int round = 0; round < kRounds; ++round) {
    for (const Dtype dtype : kAllDtypes) {
      const TestArray x = Random(dtype, round % 2 == 0);
      if (x.size() == 0) continue;
      AttrValue axis;
      const uint32_t axes = RandomAxes(x.shape().size(), &axis);
      const TestArray max = runner_.Run("amax", {x}, {axis, AttrValue(false)});
      const TestArray min = runner_.Run("amin", {x}, {axis, AttrValue(false)});
      const auto groups = Groups(x, axes);
      for (int64_t i = 0; i < max.size(); ++i) {
        ASSERT_TRUE(Close(dtype, max.Get(i), groups[i][ArgMax(groups[i], 1)], 0));
        ASSERT_TRUE(Close(dtype, min.Get(i), groups[i][ArgMax(groups[i], -1)], 0));
      }
    }
  }
}

TEST_F(ReductionTest, Positions) {
  for (int round = 0; round < kRounds; ++round) {
    for (const Dtype dtype : kAllDtypes) {
      const TestArray x = Random(dtype, round % 2 == 0);
      if (x.size() == 0) continue;
      AttrValue axis;
      uint32_t axes = (uint32_t{1} << x.shape().size()) - 1;
      if (axes != 0 && round % 3 != 0) {
        const int64_t d = RandomInt(rng_, 0, x.shape().size() - 1);
        axis = d;
        axes = uint32_t{1} << d;
      }
      const TestArray max = runner_.Run("argmax", {x}, {axis});
      const TestArray min = runner_.Run("argmin", {x}, {axis});
      const auto groups = Groups(x, axes);
      for (int64_t i = 0; i < max.size(); ++i) {
        ASSERT_EQ(max.Get(i), static_cast<Number>(ArgMax(groups[i], 1)))
            << DtypeName(dtype) << x.shape().ToString() << axis.ToString();
        ASSERT_EQ(min.Get(i), static_cast<Number>(ArgMax(groups[i], -1)));
      }
    }
  }
}

TEST_F(ReductionTest, LogSumExp) {
  for (int round = 0; round < kRounds; ++round) {
    for (const Dtype dtype : kFloatDtypes) {
      const TestArray x = Random(dtype, round % 4 == 0);
      if (x.size() == 0) continue;
      AttrValue axis;
      const uint32_t axes = RandomAxes(x.shape().size(), &axis);
      const TestArray got = runner_.Run("logsumexp", {x}, {axis, AttrValue(false)});
      const auto groups = Groups(x, axes);
      for (int64_t i = 0; i < got.size(); ++i) {
        const Number want = LogSumExp(groups[i]);
        ASSERT_TRUE(Close(dtype, got.Get(i), want, 2)) << got.Get(i) << " " << want;
      }
    }
  }
}

TEST_F(ReductionTest, SumsOfManyElementsAreAccurate) {
  const int64_t n = 3000001;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat64}) {
    TestArray x(dtype, {n});
    for (int64_t i = 0; i < n; ++i) x.Set(i, 0.1L + (i % 7) * 1e-3L);
    const Number want = Sum(x.Values());
    const Number got = runner_.Run("sum", {x}).Get(0);
    // Less than 2 units of the last place, where adding one by one is off by thousands.
    const Number ulp = want * (dtype == Dtype::kFloat32 ? 1.2e-7L : 2.3e-16L);
    EXPECT_LT(std::fabs(got - want), 2 * ulp) << DtypeName(dtype);
  }
}

TEST_F(ReductionTest, OneElementIsItself) {
  for (const Dtype dtype : kAllDtypes) {
    for (const Shape& shape : {Shape{5, 1, 7}, Shape{1, 3}, Shape{1}, Shape{4, 2, 1}}) {
      TestArray x = TestArray::RandomLayout(rng_, dtype, shape);
      x.FillRandom(rng_, true);
      Ints axes;
      for (int d = 0; d < shape.size(); ++d) {
        if (shape[d] == 1) axes.push_back(d);
      }
      for (const char* const op : {"sum", "prod", "amax", "amin"}) {
        for (const bool keepdims : {false, true}) {
          const TestArray got = runner_.Run(op, {x}, {AttrValue(axes), AttrValue(keepdims)});
          ASSERT_EQ(got.size(), x.size());
          for (int64_t i = 0; i < x.size(); ++i) {
            const Number want = x.Get(i);
            ASSERT_TRUE(got.Get(i) == want || (std::isnan(got.Get(i)) && std::isnan(want)))
                << op << " " << DtypeName(dtype) << " " << shape.ToString();
          }
        }
      }
    }
  }
}

TEST_F(ReductionTest, NothingSumsToZeroAndInfinityStays) {
  EXPECT_EQ(runner_.Run("sum", {TestArray(Dtype::kFloat32, {0})}).Get(0), 0);
  const TestArray empty = runner_.Run("sum", {TestArray(Dtype::kFloat64, {0, 3})},
                                      {AttrValue(Ints{0}), AttrValue(false)});
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(empty.Get(i), 0);
  // Empty dimensions that don't merge, because of a gap between rows.
  TestArray gap(Dtype::kFloat32, {4, 0, 3});
  gap.tensor().strides = {1000, 400, 8};
  const TestArray zeros = runner_.Run("sum", {gap}, {AttrValue(Ints{1, 2}), AttrValue(false)});
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(zeros.Get(i), 0);
  TestArray x(Dtype::kFloat64, {2});
  x.Set(0, std::numeric_limits<Number>::infinity());
  x.Set(1, 1);
  EXPECT_EQ(runner_.Run("sum", {x}).Get(0), std::numeric_limits<Number>::infinity());
}

TEST_F(ReductionTest, AnyNumberOfThreadsGivesTheSameBits) {
  KernelRunner one(1);
  KernelRunner many(4);
  for (const Shape& shape : {Shape{700001}, Shape{900, 1301}, Shape{100000, 9}, Shape{3, 300000}}) {
    for (const Dtype dtype : kFloatDtypes) {
      TestArray x(dtype, shape);
      x.FillRandom(rng_, false);
      for (int axis = -1; axis < shape.size(); ++axis) {
        const AttrValue axes = axis < 0 ? AttrValue() : AttrValue(Ints{axis});
        for (const char* const op : {"sum", "logsumexp", "amax"}) {
          EXPECT_EQ(one.Run(op, {x}, {axes, AttrValue(false)}).Bytes(),
                    many.Run(op, {x}, {axes, AttrValue(false)}).Bytes())
              << op << shape.ToString() << axis;
        }
      }
    }
  }
}

}  // namespace
}  // namespace chx::server::native
