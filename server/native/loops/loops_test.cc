// Every instruction set that this processor has gives the bits of the baseline.
#include "server/native/loops.h"

#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

constexpr int64_t kSize = 1003;

std::vector<const LoopSet*> OtherSets() {
  std::vector<const LoopSet*> sets;
  if (__builtin_cpu_supports("avx2")) sets.push_back(&LoopsAvx2());
  if (&Loops() == &LoopsAvx512()) sets.push_back(&LoopsAvx512());
  return sets;
}

class LoopsTest : public testing::Test {
 protected:
  TestArray Random(Dtype dtype) {
    TestArray array(dtype, {kSize});
    array.FillRandom(rng_, true);
    return array;
  }
  // Arithmetic on NaNs may give any NaN: only that it is one counts.
  static void ExpectSame(const TestArray& a, const TestArray& b, const std::string& what) {
    for (int64_t i = 0; i < a.size(); ++i) {
      const Number u = a.Get(i);
      const Number v = b.Get(i);
      ASSERT_TRUE(u == v || (u != u && v != v)) << what << " at " << i << ": " << u << ", " << v;
    }
  }
  static void Compare(Loop loop, Loop other, Dtype out_dtype, const std::vector<TestArray>& inputs,
                      const std::string& what) {
    ASSERT_EQ(loop == nullptr, other == nullptr);
    if (loop == nullptr) return;
    TestArray outs[2] = {TestArray(out_dtype, {kSize}), TestArray(out_dtype, {kSize})};
    std::vector<int64_t> strides = {ItemSize(out_dtype)};
    std::vector<char*> data = {nullptr};
    for (const TestArray& input : inputs) {
      strides.push_back(ItemSize(input.dtype()));
      data.push_back(input.tensor().data);
    }
    for (int k = 0; k < 2; ++k) {
      data[0] = outs[k].tensor().data;
      (k == 0 ? loop : other)(data.data(), strides.data(), kSize);
    }
    ExpectSame(outs[0], outs[1], what);
  }

  Rng rng_ = MakeRng();
};

TEST_F(LoopsTest, ElementwiseLoopsAgree) {
  const LoopSet& base = LoopsBaseline();
  for (const LoopSet* const set : OtherSets()) {
    for (const Dtype dtype : kAllDtypes) {
      const int d = static_cast<int>(dtype);
      const TestArray x = Random(dtype);
      const TestArray y = Random(dtype);
      const std::string what = std::string(set->name) + " " + std::string(DtypeName(dtype));
      const auto compare = [&](const auto& mine, const auto& theirs, Dtype out,
                               const std::vector<TestArray>& inputs, const char* list) {
        for (size_t i = 0; i < std::size(mine); ++i) {
          Compare(mine[i][d], theirs[i][d], out, inputs, what + " " + list + std::to_string(i));
        }
      };
      compare(base.unary_float, set->unary_float, dtype, {x}, "unary_float");
      compare(base.unary_same, set->unary_same, dtype, {x}, "unary_same");
      compare(base.arithmetic, set->arithmetic, dtype, {x, y}, "arithmetic");
      compare(base.binary_float, set->binary_float, dtype, {x, y}, "binary_float");
      compare(base.comparison, set->comparison, Dtype::kBool, {x, y}, "comparison");
      compare(base.logical, set->logical, Dtype::kBool, {x, y}, "logical");
      for (const Dtype to : kAllDtypes) {
        const int t = static_cast<int>(to);
        Compare(base.cast[d][t], set->cast[d][t], to, {x},
                what + " cast to " + std::string(DtypeName(to)));
      }
      Compare(base.where[d], set->where[d], dtype, {Random(Dtype::kBool), x, y}, what + " where");
    }
  }
}

TEST_F(LoopsTest, ReductionsAgree) {
  for (const LoopSet* const set : OtherSets()) {
    for (int op = 0; op < kNumReduceOps; ++op) {
      const bool arg =
          op == static_cast<int>(ReduceOp::kArgMax) || op == static_cast<int>(ReduceOp::kArgMin);
      for (const Dtype dtype : kAllDtypes) {
        const ReduceLoops& base = LoopsBaseline().reduce[op][static_cast<int>(dtype)];
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
