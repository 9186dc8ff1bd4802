// Kernels that move elements: take, concatenate, and the gradients of indexing.
#include <algorithm>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "gtest/gtest.h"
#include "ops/basic_index.h"
#include "ops/error.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

class IndexingTest : public testing::Test {
 protected:
  TestArray Random(Dtype dtype, const Shape& shape) {
    TestArray array = TestArray::RandomLayout(rng_, dtype, shape);
    array.FillRandom(rng_, false);
    return array;
  }
  // Indices from `low` to `high`.
  TestArray RandomIndices(const Shape& shape, int64_t low, int64_t high) {
    TestArray indices = TestArray::RandomLayout(rng_, Dtype::kInt32, shape);
    for (int64_t i = 0; i < indices.size(); ++i) indices.Set(i, RandomInt(rng_, low, high));
    return indices;
  }
  Rng rng_ = MakeRng();
  KernelRunner runner_{2};
};

int64_t Resolve(int64_t index, int64_t mode, int64_t size) {
  if (mode == 2) return std::max<int64_t>(0, std::min(index, size - 1));
  const int64_t rest = index % size;
  return rest < 0 ? rest + size : rest;
}

// Slices longer and shorter than what is checked at once, with no, some or only negative indices.
TEST_F(IndexingTest, TakeAlongAxisAndItsGradient) {
  for (int round = 0; round < Rounds(60); ++round) {
    const int64_t axis = round % 2;
    const int64_t size = RandomInt(rng_, 1, 900);
    const int64_t slices = RandomInt(rng_, 1, axis == 0 ? 1500 : 5);
    const int64_t count = RandomInt(rng_, 1, axis == 0 ? 5 : 3000);
    const Dtype dtype = kAllDtypes[3 + round % 7];
    const TestArray a = Random(dtype, axis == 0 ? Shape{size, slices} : Shape{slices, size});
    const Shape shape = axis == 0 ? Shape{count, slices} : Shape{slices, count};
    TestArray indices = RandomIndices(shape, round % 3 == 1 ? -size : 0, size - 1);
    for (int few = round % 3 == 2 ? 3 : 0; few > 0; --few) {
      indices.Set(RandomInt(rng_, 0, indices.size() - 1), -RandomInt(rng_, 1, size));
    }
    const TestArray got = runner_.Run("take_along_axis", {a, indices}, {AttrValue(axis)});
    ASSERT_EQ(got.shape(), shape);
    const TestArray gy = Random(Dtype::kFloat64, shape);
    const TestArray gx = runner_.Run("take_along_axis_grad", {gy, indices},
                                     {AttrValue::FromInts(a.shape().span()), AttrValue(axis)});
    std::vector<Number> want(a.size(), 0);
    for (int64_t i = 0; i < got.size(); ++i) {
      int64_t at = static_cast<int64_t>(indices.Get(i));
      if (at < 0) at += size;
      const int64_t from = axis == 0 ? at * slices + i % slices : i / count * size + at;
      ASSERT_EQ(got.Get(i), a.Get(from));
      want[from] += gy.Get(i);
    }
    for (int64_t i = 0; i < gx.size(); ++i) {
      ASSERT_TRUE(Close(Dtype::kFloat64, gx.Get(i), want[i], static_cast<Number>(count))) << i;
    }
    const int64_t beyond = round % 4 < 2 ? size + round : -size - 1 - round;
    indices.Set(RandomInt(rng_, 0, indices.size() - 1), beyond);
    const auto failed = runner_.TryRun("take_along_axis", {a, indices}, {AttrValue(axis)});
    ASSERT_EQ(KindOf(failed.status()), ErrorKind::kIndex);
    EXPECT_NE(std::string(failed.status().message()).find(std::to_string(beyond)),
              std::string::npos)
        << failed.status();
  }
}

TEST_F(IndexingTest, TakeAndItsGradient) {
  for (int round = 0; round < Rounds(60); ++round) {
    for (const Dtype dtype : kAllDtypes) {
      const int64_t before = RandomInt(rng_, 1, 4);
      const int64_t size = RandomInt(rng_, 1, 6);
      const int64_t after = round % 3 == 0 ? 1 : RandomInt(rng_, 1, 700);
      const int64_t mode = RandomInt(rng_, 0, 2);
      const TestArray a = Random(dtype, {before, size, after});
      const TestArray indices = RandomIndices({2, RandomInt(rng_, 0, 5)}, mode == 0 ? -size : -20,
                                              mode == 0 ? size - 1 : 20);
      const int64_t count = indices.size();
      const TestArray got = runner_.Run("take", {a, indices}, {AttrValue(1), AttrValue(mode)});
      ASSERT_EQ(got.shape(), (Shape{before, 2, indices.shape()[1], after}));
      const TestArray gy = Random(dtype, got.shape());
      const TestArray gx =
          runner_.Run("take_grad", {gy, indices},
                      {AttrValue::FromInts(a.shape().span()), AttrValue(1), AttrValue(mode)});
      std::vector<Number> want(a.size(), 0);
      for (int64_t i = 0; i < got.size(); ++i) {
        const int64_t row =
            Resolve(static_cast<int64_t>(indices.Get(i / after % count)), mode, size);
        const int64_t from = (i / (after * count) * size + row) * after + i % after;
        ASSERT_EQ(got.Get(i), a.Get(from));
        want[from] += gy.Get(i);
      }
      for (int64_t i = 0; i < gx.size(); ++i) {
        const Number sum = IsBool(dtype) ? Number(want[i] != 0) : want[i];
        if (dtype == Dtype::kUint8 || dtype == Dtype::kInt8) {
          ASSERT_EQ(static_cast<int64_t>(gx.Get(i) - sum) % 256, 0);
        } else {
          ASSERT_TRUE(Close(dtype, gx.Get(i), sum, 4)) << gx.Get(i) << " " << sum;
        }
      }
    }
  }
}

TEST_F(IndexingTest, TakeNamesAnIndexOutOfRange) {
  const TestArray a = Random(Dtype::kFloat32, {3, 4});
  TestArray indices(Dtype::kInt64, {2});
  for (const int64_t bad : {int64_t{3}, int64_t{-4}, INT64_MIN, INT64_MAX}) {
    indices.Set(0, 1);
    indices.Set(1, bad);
    const absl::Status status =
        runner_.TryRun("take", {a, indices}, {AttrValue(0), AttrValue()}).status();
    EXPECT_EQ(KindOf(status), ErrorKind::kIndex);
    EXPECT_NE(status.message().find(std::to_string(bad)), absl::string_view::npos) << status;
  }
}

TEST_F(IndexingTest, GetItemGrad) {
  const AttrValue index = IndexBuilder().Int(1).Slice(3, absl::nullopt, -2).Build();
  for (const Dtype dtype : kAllDtypes) {
    const TestArray gy = Random(dtype, {2, 3});
    const TestArray gx = runner_.Run("getitem_grad", {gy}, {AttrValue(Ints{2, 5, 3}), index});
    for (int64_t i = 0; i < gx.size(); ++i) {
      const int64_t row = i / 3 % 5;
      const bool chosen = i / 15 == 1 && (row == 3 || row == 1);
      ASSERT_EQ(gx.Get(i), chosen ? gy.Get((row == 3 ? 0 : 3) + i % 3) : 0);
    }
  }
}

TEST_F(IndexingTest, Concatenate) {
  for (int round = 0; round < Rounds(20); ++round) {
    for (const Dtype dtype : kAllDtypes) {
      const int64_t before = RandomInt(rng_, 1, 4);
      const int64_t after = RandomInt(rng_, 1, 4);
      std::vector<TestOperand> inputs;
      int64_t length = 0;
      for (int64_t n = RandomInt(rng_, 1, 4); n > 0; --n) {
        inputs.push_back(Random(dtype, {before, RandomInt(rng_, 0, 5), after}));
        length += inputs.back().array.shape()[1];
      }
      const TestArray got = runner_.Run("concatenate", inputs, {AttrValue(-2)});
      const TestArray flat = runner_.Run("concatenate", inputs, {AttrValue()});
      int64_t start = 0;
      int64_t flat_start = 0;
      for (const TestOperand& input : inputs) {
        const int64_t rows = input.array.shape()[1];
        for (int64_t i = 0; i < input.array.size(); ++i) {
          const int64_t b = i / (rows * after);
          const int64_t row = start + i / after % rows;
          ASSERT_EQ(got.Get((b * length + row) * after + i % after), input.array.Get(i));
          ASSERT_EQ(flat.Get(flat_start + i), input.array.Get(i));
        }
        start += rows;
        flat_start += input.array.size();
      }
    }
  }
}

}  // namespace
}  // namespace chx::server::native
