#include "server/cuda/vendor/gemm.h"

#include "gtest/gtest.h"

namespace chx::server::cuda {
namespace {

KernelTensor Tensor(const Shape& shape, const Strides& strides) {
  KernelTensor tensor;
  tensor.shape = shape;
  tensor.strides = strides;
  return tensor;
}

KernelTensor Dense(const Shape& shape) { return Tensor(shape, ContiguousStrides(shape, 4)); }

TEST(GemmLayout, RowsColumnsAndNeither) {
  EXPECT_TRUE(LayoutOf(Dense({3, 5})).ready);
  EXPECT_FALSE(LayoutOf(Dense({3, 5})).by_columns);
  EXPECT_EQ(LayoutOf(Dense({3, 5})).leading, 5);
  const MatrixLayout transposed = LayoutOf(Tensor({5, 3}, {4, 20}));
  EXPECT_TRUE(transposed.ready);
  EXPECT_TRUE(transposed.by_columns);
  EXPECT_EQ(transposed.leading, 5);
  EXPECT_EQ(LayoutOf(Tensor({3, 5}, {40, 4})).leading, 10);       // part of wider rows
  EXPECT_FALSE(LayoutOf(Tensor({3, 5}, {0, 4})).ready);           // one row repeated
  EXPECT_FALSE(LayoutOf(Tensor({3, 5}, {-20, 4})).ready);         // rows upside down
  EXPECT_FALSE(LayoutOf(Tensor({3, 5}, {40, 8})).ready);          // every other column
  EXPECT_FALSE(LayoutOf(Tensor({2, 3, 5}, {-60, 20, 4})).ready);  // matrices backwards
  EXPECT_TRUE(LayoutOf(Tensor({2, 3, 5}, {0, 20, 4})).ready);     // one matrix repeated
  EXPECT_TRUE(LayoutOf(Tensor({1, 5}, {-999, 4})).ready);
  EXPECT_EQ(LayoutOf(Tensor({1, 5}, {-999, 4})).leading, 5);
  EXPECT_EQ(LayoutOf(Tensor({5, 1}, {4, -999})).leading, 1);
}

}  // namespace
}  // namespace chx::server::cuda
