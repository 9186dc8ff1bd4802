// Every instruction set that this processor has gives the bits of the baseline, and dense and
// strided operands give the same.
#include "server/native/loops/loops.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

constexpr int64_t kSize = 1003;

const LoopSet& Baseline() { return *SupportedLoops().front(); }

std::vector<const LoopSet*> OtherSets() {
  std::vector<const LoopSet*> sets = SupportedLoops();
  sets.erase(sets.begin());
  return sets;
}

// Calls fn(loops by dtype, whether the results are bools, number of inputs, name) for each
// elementwise formula of a set.
template <typename Fn>
void ForEachFormula(const LoopSet& set, Fn&& fn) {
  const auto visit = [&](const auto& rows, bool to_bool, int inputs, const std::string& list) {
    for (size_t i = 0; i < std::size(rows); ++i) {
      fn(rows[i], to_bool, inputs, list + std::to_string(i));
    }
  };
  visit(set.unary_float, false, 1, "unary_float");
  visit(set.unary_same, false, 1, "unary_same");
  visit(set.unary_logical, true, 1, "unary_logical");
  visit(set.unary_test, true, 1, "unary_test");
  visit(set.arithmetic, false, 2, "arithmetic");
  visit(set.binary_float, false, 2, "binary_float");
  visit(set.comparison, true, 2, "comparison");
  visit(set.logical, true, 2, "logical");
}

class LoopsTest : public testing::Test {
 protected:
  TestArray Random(Dtype dtype) {
    TestArray array(dtype, {kSize});
    array.FillRandom(rng_, true);
    return array;
  }
  // The elements of a one-dimensional array, `step` times as far apart.
  static TestArray Spread(const TestArray& array, int64_t step) {
    TestArray spread(array.dtype(), {array.size() * step});
    spread.tensor().shape = {array.size()};
    spread.tensor().strides = {ItemSize(array.dtype()) * step};
    for (int64_t i = 0; i < array.size(); ++i) spread.Set(i, array.Get(i));
    return spread;
  }
  // Arithmetic on NaNs may give any NaN: only that it is one counts.
  static void ExpectSame(const TestArray& a, const TestArray& b, const std::string& what) {
    for (int64_t i = 0; i < a.size(); ++i) {
      const Number u = a.Get(i);
      const Number v = b.Get(i);
      ASSERT_TRUE(u == v || (u != u && v != v)) << what << " at " << i << ": " << u << ", " << v;
    }
  }
  static TestArray Run(Loop loop, TestArray out, const std::vector<TestArray>& inputs) {
    std::vector<int64_t> strides = {out.tensor().strides[0]};
    std::vector<char*> data = {out.tensor().data};
    for (const TestArray& input : inputs) {
      strides.push_back(input.tensor().strides[0]);
      data.push_back(input.tensor().data);
    }
    loop(data.data(), strides.data(), out.size());
    return out;
  }
  // Both loops on dense operands.
  static void Compare(Loop loop, Loop other, Dtype out_dtype, const std::vector<TestArray>& inputs,
                      const std::string& what) {
    ASSERT_EQ(loop == nullptr, other == nullptr) << what;
    if (loop == nullptr) return;
    const TestArray out(out_dtype, {kSize});
    ExpectSame(Run(loop, out, inputs), Run(other, TestArray(out_dtype, {kSize}), inputs), what);
  }
  // One loop on dense operands and on spread ones.
  static void CompareStrides(Loop loop, Dtype out_dtype, const std::vector<TestArray>& inputs,
                             const std::string& what) {
    if (loop == nullptr) return;
    const TestArray out(out_dtype, {kSize});
    std::vector<TestArray> spread;
    for (const TestArray& input : inputs) spread.push_back(Spread(input, 3));
    ExpectSame(Run(loop, out, inputs), Run(loop, Spread(out, 2), spread), what);
  }

  Rng rng_ = MakeRng();
};

TEST_F(LoopsTest, TheFastestSetIsUsed) {
  const std::vector<const LoopSet*> sets = SupportedLoops();
  EXPECT_STREQ(sets.front()->name, "baseline");
  EXPECT_EQ(sets.back(), &Loops());
}

TEST_F(LoopsTest, EachFormulaHasALoop) {
  for (const LoopSet* const set : SupportedLoops()) {
    ForEachFormula(*set, [&](const auto& loops, bool, int, const std::string& name) {
      EXPECT_TRUE(std::any_of(std::begin(loops), std::end(loops), [](Loop l) { return l; }))
          << set->name << " " << name;
    });
    for (const auto& loops : set->reduce) {
      EXPECT_NE(loops[static_cast<int>(Dtype::kFloat32)].row, nullptr) << set->name;
    }
  }
}

TEST_F(LoopsTest, ElementwiseLoopsAgree) {
  for (const LoopSet* const set : OtherSets()) {
    for (const Dtype dtype : kAllDtypes) {
      const int d = static_cast<int>(dtype);
      const TestArray x = Random(dtype);
      const TestArray y = Random(dtype);
      const std::string what = std::string(set->name) + " " + std::string(DtypeName(dtype)) + " ";
      std::vector<Loop> loops;
      ForEachFormula(Baseline(), [&](const auto& row, bool, int, const std::string&) {
        loops.push_back(row[d]);
      });
      size_t next = 0;
      ForEachFormula(*set, [&](const auto& row, bool to_bool, int inputs, const std::string& name) {
        const std::vector<TestArray> both = {x, y};
        Compare(loops[next++], row[d], to_bool ? Dtype::kBool : dtype,
                {both.begin(), both.begin() + inputs}, what + name);
      });
      for (const Dtype to : kAllDtypes) {
        const int t = static_cast<int>(to);
        Compare(Baseline().cast[d][t], set->cast[d][t], to, {x},
                what + "cast to " + std::string(DtypeName(to)));
      }
      Compare(Baseline().where[d], set->where[d], dtype, {Random(Dtype::kBool), x, y},
              what + "where");
    }
  }
}

TEST_F(LoopsTest, StridesDontChangeElements) {
  for (const LoopSet* const set : SupportedLoops()) {
    for (const Dtype dtype : kAllDtypes) {
      const int d = static_cast<int>(dtype);
      const TestArray x = Random(dtype);
      const TestArray y = Random(dtype);
      const std::string what = std::string(set->name) + " " + std::string(DtypeName(dtype)) + " ";
      ForEachFormula(*set, [&](const auto& row, bool to_bool, int inputs, const std::string& name) {
        const std::vector<TestArray> both = {x, y};
        CompareStrides(row[d], to_bool ? Dtype::kBool : dtype,
                       {both.begin(), both.begin() + inputs}, what + name);
      });
      for (const Dtype to : kAllDtypes) {
        CompareStrides(set->cast[d][static_cast<int>(to)], to, {x},
                       what + "cast to " + std::string(DtypeName(to)));
      }
      CompareStrides(set->where[d], dtype, {Random(Dtype::kBool), x, y}, what + "where");
    }
  }
}

TEST_F(LoopsTest, WhereTakesOneElementForAll) {
  for (const LoopSet* const set : SupportedLoops()) {
    for (const Dtype dtype : kAllDtypes) {
      const TestArray condition = Random(Dtype::kBool);
      for (const bool one_x : {false, true}) {
        for (const bool one_y : {false, true}) {
          TestArray x = Random(dtype);
          TestArray y = Random(dtype);
          if (one_x) x.tensor().strides = {0};
          if (one_y) y.tensor().strides = {0};
          const TestArray out = Run(set->where[static_cast<int>(dtype)], TestArray(dtype, {kSize}),
                                    {condition, x, y});
          TestArray expected(dtype, {kSize});
          for (int64_t i = 0; i < kSize; ++i) {
            expected.Set(i, condition.Get(i) != 0 ? x.Get(i) : y.Get(i));
          }
          ExpectSame(expected, out, std::string(set->name) + std::string(DtypeName(dtype)));
        }
      }
    }
  }
}

// Some loops take blocks without special cases together; a special neighbour must not change a
// result.
TEST_F(LoopsTest, BlocksGiveWhatElementsGive) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 100);
  std::vector<float> x(2000), y(2000), out(2000);
  for (const bool unusual : {false, true}) {
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = normal(rng);
      y[i] = normal(rng);
      if (unusual && i % 100 == 7) x[i] = i % 3 == 0 ? 1e30f : kInf;
    }
    const int64_t strides[3] = {4, 4, 4};
    const auto run = [&](Loop loop) {
      char* const data[3] = {reinterpret_cast<char*>(out.data()), reinterpret_cast<char*>(x.data()),
                             reinterpret_cast<char*>(y.data())};
      loop(data, strides, static_cast<int64_t>(x.size()));
    };
    const int dtype = static_cast<int>(Dtype::kFloat32);
    run(Loops().unary_float[kernels::kFnIndex<kernels::SinFn, kernels::UnaryFloatFns>][dtype]);
    for (size_t i = 0; i < x.size(); ++i) {
      const float want = kernels::SinFn()(x[i]);
      ASSERT_TRUE(out[i] == want || (out[i] != out[i] && want != want)) << x[i];
    }
    run(Loops().arithmetic[kernels::kFnIndex<kernels::Power, kernels::BinaryArithmeticFns>][dtype]);
    for (size_t i = 0; i < x.size(); ++i) {
      const float want = kernels::Power()(x[i], y[i]);
      ASSERT_TRUE(out[i] == want || (out[i] != out[i] && want != want)) << x[i] << " " << y[i];
    }
  }
}

TEST_F(LoopsTest, ReductionsAgree) {
  for (const LoopSet* const set : OtherSets()) {
    for (int op = 0; op < kNumReduceOps; ++op) {
      const bool arg =
          op == static_cast<int>(ReduceOp::kArgMax) || op == static_cast<int>(ReduceOp::kArgMin);
      for (const Dtype dtype : kAllDtypes) {
        const ReduceLoops& base = Baseline().reduce[op][static_cast<int>(dtype)];
        const ReduceLoops& other = set->reduce[op][static_cast<int>(dtype)];
        if (base.row == nullptr) continue;
        TestArray x(dtype, {kSize});
        x.FillRandom(rng_, false);
        const bool sums_ints = op == 0 && !IsFloat(dtype);
        const Dtype out_dtype = arg || sums_ints ? Dtype::kInt64 : dtype;
        TestArray outs[2] = {TestArray(out_dtype, {18}), TestArray(out_dtype, {18})};
        for (int k = 0; k < 2; ++k) {
          const ReduceLoops& loops = k == 0 ? base : other;
          alignas(16) char accs[18 * 16];
          loops.init(accs, 18);
          loops.row(x.tensor().data, ItemSize(dtype), kSize, 0, accs);
          // 55 rows of 17 columns, into the accumulators after the first.
          loops.columns(x.tensor().data, 18 * ItemSize(dtype), 55, 17, 0, accs + loops.acc_size);
          loops.finish(accs, 18, outs[k].tensor().data);
        }
        EXPECT_EQ(outs[0].Bytes(), outs[1].Bytes()) << set->name << " " << op << DtypeName(dtype);
      }
    }
  }
}

}  // namespace
}  // namespace chx::server::native
