// Creation and copying kernels.
#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "server/native/testing/test_array.h"

namespace chx::server::native {
namespace {

class CreationTest : public testing::Test {
 protected:
  TestArray Random(Dtype dtype, const Shape& shape) {
    TestArray array = TestArray::RandomLayout(rng_, dtype, shape);
    array.FillRandom(rng_, true);
    return array;
  }
  Rng rng_ = MakeRng();
  KernelRunner runner_{2};
};

// What a number becomes in a dtype, where that is defined by the standard.
Number Converted(Dtype dtype, Number value) {
  if (IsBool(dtype)) return value != 0;
  return IsInt(dtype) ? std::trunc(value) : value;
}

TEST_F(CreationTest, Full) {
  for (const Dtype dtype : kAllDtypes) {
    for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{5, 7}, Shape{100000}}) {
      const TestArray got =
          runner_.Run("full", {}, {AttrValue::FromInts(shape.span()), Scalar(3.0), dtype});
      ASSERT_EQ(got.shape(), shape);
      for (const Number value : got.Values()) ASSERT_EQ(value, Converted(dtype, 3));
    }
  }
}

TEST_F(CreationTest, Arange) {
  for (const Dtype dtype : kAllDtypes) {
    if (IsBool(dtype)) continue;
    const TestArray got =
        runner_.Run("arange", {}, {Scalar(2), Scalar(40), Scalar(3), AttrValue(dtype)});
    ASSERT_EQ(got.size(), 13);
    for (int64_t i = 0; i < got.size(); ++i) EXPECT_EQ(got.Get(i), 2 + 3 * i);
  }
  const TestArray got = runner_.Run("arange", {}, {Scalar(1.0), Scalar(-1), Scalar(-0.25)});
  ASSERT_EQ(got.size(), 8);
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(got.Get(i), 1 - 0.25L * i);
  EXPECT_EQ(runner_.Run("arange", {}, {Scalar(0)}).size(), 0);
}

TEST_F(CreationTest, Eye) {
  for (const Dtype dtype : kAllDtypes) {
    for (const int64_t k :
         {int64_t{0}, int64_t{1}, int64_t{-2}, int64_t{9}, INT64_MIN, INT64_MAX}) {
      const TestArray got = runner_.Run("eye", {}, {AttrValue(4), AttrValue(5), k, dtype});
      for (int64_t i = 0; i < 20; ++i) {
        const bool diagonal = k > -9 && k < 9 && i % 5 - i / 5 == k;
        EXPECT_EQ(got.Get(i), diagonal ? 1 : 0);
      }
    }
  }
}

TEST_F(CreationTest, OneHot) {
  for (int round = 0; round < 60; ++round) {
    // Rows that are filled by themselves, and those that are not.
    const Shape shape = round == 0 ? Shape{3, 2} : RandomShape(rng_, 3, 6);
    const int64_t classes = round == 0 ? 50000 : RandomInt(rng_, 0, 8);
    const int64_t axis = round == 0 ? 2 : RandomInt(rng_, 0, shape.size());
    const Dtype dtype = kAllDtypes[RandomInt(rng_, 0, kNumDtypes - 1)];
    const TestArray x = Random(Dtype::kInt64, shape);  // with numbers of no class
    const TestArray got = runner_.Run("one_hot", {x}, {AttrValue(classes), dtype, AttrValue(axis)});
    int64_t after = 1;
    for (auto d = static_cast<int>(axis); d < shape.size(); ++d) after *= shape[d];
    ASSERT_EQ(got.size(), x.size() * classes);
    for (int64_t i = 0; i < got.size(); ++i) {
      const int64_t label = i / (classes * after) * after + i % after;
      ASSERT_EQ(got.Get(i), x.Get(label) == i / after % classes ? 1 : 0) << i;
    }
  }
}

TEST_F(CreationTest, CopyOfAnyLayout) {
  for (int round = 0; round < 30; ++round) {
    for (const Dtype dtype : kAllDtypes) {
      const Shape shape =
          round == 0 ? Shape{200, 333} : RandomShape(rng_, round < 20 ? 4 : 2, round < 20 ? 6 : 70);
      const TestArray x = Random(dtype, shape);
      EXPECT_EQ(runner_.Run("copy", {x}).Bytes(), x.Bytes());
    }
  }
}

TEST_F(CreationTest, AstypeBetweenAllDtypes) {
  for (const Dtype from : kAllDtypes) {
    for (const Dtype to : kAllDtypes) {
      TestArray x = TestArray::RandomLayout(rng_, from, {3, 17, 5});
      for (int64_t i = 0; i < x.size(); ++i) x.Set(i, (i % 37) / (i % 2 == 0 ? 1 : 4.0L));
      const TestArray got = runner_.Run("astype", {x}, {to});
      for (int64_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(got.Get(i), Converted(to, x.Get(i))) << DtypeName(from) << DtypeName(to);
      }
    }
  }
}

TEST_F(CreationTest, FillAndCopyTo) {
  for (int round = 0; round < 20; ++round) {
    for (const Dtype dtype : kAllDtypes) {
      const Shape shape = RandomShape(rng_, 4, 6);
      TestArray target = Random(dtype, shape);
      ASSERT_TRUE(runner_.RunInPlace("fill", {target}, {Scalar(2)}).ok());
      for (const Number value : target.Values()) ASSERT_EQ(value, Converted(dtype, 2));
      ASSERT_TRUE(runner_.RunInPlace("copyto", {target, Scalar(1)}).ok());
      for (const Number value : target.Values()) ASSERT_EQ(value, 1);
      TestArray source = Random(Dtype::kInt8, RandomBroadcastable(rng_, shape));
      for (int64_t i = 0; i < source.size(); ++i) source.Set(i, i % 50);
      ASSERT_TRUE(runner_.RunInPlace("copyto", {target, source}).ok());
      const TestArray repeated = source.BroadcastTo(shape);
      for (int64_t i = 0; i < target.size(); ++i) {
        ASSERT_EQ(target.Get(i), Converted(dtype, repeated.Get(i)));
      }
    }
  }
}

}  // namespace
}  // namespace chx::server::native
