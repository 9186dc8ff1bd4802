// What blockwise kernels promise (KernelTable::SetBlockwise): an element does not depend on what
// else the call works on, nor on where in memory it is. Only which NaN it is may: of two NaNs that
// are added, processors keep the first, and compilers exchange operands.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "ops/infer.h"
#include "ops/registry.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

class BlockwiseTest : public testing::Test {
 protected:
  static bool IsOurs(const OpDef& op) {
    return op.elementwise && op.kind == OpKind::kKernel && op.in_place_of.empty();
  }

  // Elements [begin, end) of a one-dimensional tensor.
  static KernelTensor Part(const KernelTensor& tensor, int64_t begin, int64_t end) {
    KernelTensor part = tensor;
    part.data += begin * tensor.strides[0];
    part.shape[0] = end - begin;
    return part;
  }

  // The first element whose bits differ, and which is not NaN in both; -1: there is none.
  static int64_t FindDifference(const TestArray& a, const TestArray& b) {
    const std::string bits_a = a.Bytes();
    const std::string bits_b = b.Bytes();
    const auto width = static_cast<size_t>(ItemSize(a.dtype()));
    for (int64_t i = 0; i < a.size(); ++i) {
      const size_t at = static_cast<size_t>(i) * width;
      if (bits_a.compare(at, width, bits_b, at, width) == 0) continue;
      if (!std::isnan(a.Get(i)) || !std::isnan(b.Get(i))) return i;
    }
    return -1;
  }

  // One call on everything, against calls on parts of random lengths; with input `repeated`, if
  // there is one, repeated over all elements.
  void Check(const OpDef& op, Dtype dtype, int repeated) {
    constexpr int64_t kSize = 3000;
    std::vector<SpecOperand> specs;
    std::vector<ArraySpec> of_inputs(op.inputs.size(), ArraySpec(dtype, Shape({kSize}), 0));
    specs.reserve(of_inputs.size());
    for (const ArraySpec& spec : of_inputs) specs.emplace_back(&spec);
    InferResult inferred;
    if (!InferOp({op, specs, {}, 0}, &inferred).ok()) return;  // not for this dtype
    std::vector<TestArray> arrays;
    std::vector<KernelTensor> inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      arrays.emplace_back(inferred.input_dtypes[i], Shape({kSize}));
      arrays.back().FillRandom(rng_, true);
      inputs.push_back(arrays.back().tensor());
      if (static_cast<int>(i) == repeated) inputs.back().strides[0] = 0;
    }
    const TestArray whole(inferred.outputs[0].dtype, Shape({kSize}));
    ASSERT_TRUE(runner_.Call(op, inputs, {&whole.tensor(), 1}, {}).ok());
    TestArray parts(inferred.outputs[0].dtype, Shape({kSize}));
    for (int64_t begin = 0; begin < kSize;) {
      const int64_t end = std::min(kSize, begin + RandomInt(rng_, 1, 150));
      std::vector<KernelTensor> of_part;
      of_part.reserve(inputs.size());
      for (const KernelTensor& input : inputs) of_part.push_back(Part(input, begin, end));
      const KernelTensor out = Part(parts.tensor(), begin, end);
      ASSERT_TRUE(runner_.Call(op, of_part, {&out, 1}, {}).ok());
      begin = end;
    }
    ++checked_;
    EXPECT_EQ(FindDifference(whole, parts), -1)
        << op.name << " of " << DtypeName(dtype) << ", input " << repeated << " repeated";
  }

  Rng rng_ = MakeRng();
  KernelRunner runner_{1};
  int checked_ = 0;
};

TEST_F(BlockwiseTest, AllElementwiseKernelsAre) {
  for (const auto& op : OpRegistry::Global().ops()) {
    EXPECT_EQ(runner_.device().kernels().IsBlockwise(*op), IsOurs(*op)) << op->name;
  }
}

TEST_F(BlockwiseTest, AnElementIsTheSameInAnyBlock) {
  for (const auto& op : OpRegistry::Global().ops()) {
    if (!IsOurs(*op)) continue;
    checked_ = 0;
    for (Dtype dtype : kAllDtypes) {
      for (int repeated = -1; repeated < static_cast<int>(op->inputs.size()); ++repeated) {
        Check(*op, dtype, repeated);
      }
    }
    EXPECT_GT(checked_, 0) << op->name;
  }
}

// A kernel that a plug-in puts in its place has promised nothing.
TEST_F(BlockwiseTest, AReplacedKernelIsNot) {
  KernelTable table = runner_.device().kernels();
  const OpDef& op = *OpRegistry::Global().Find("exp");
  EXPECT_TRUE(table.IsBlockwise(op));
  table.Set("exp", table.Find(op));
  EXPECT_FALSE(table.IsBlockwise(op));
}

}  // namespace
}  // namespace chx::server::native
