// Routines of each of ChainerX's groups against values computed by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/chainerx/chainerx_fixture.h"

namespace chainerx {
namespace {

class RoutinesTest : public ChainerxTest {};

TEST_F(RoutinesTest, Creation) {
  EXPECT_EQ(Empty({2, 0}, Dtype::kInt8).shape(), (Shape{2, 0}));
  ExpectArray(Full({2}, 2.5), {2}, {2.5, 2.5});
  EXPECT_EQ(Full({2}, 2.5).dtype(), Dtype::kFloat32);
  EXPECT_EQ(Full({2}, 2).dtype(), Dtype::kInt32);
  EXPECT_EQ(Full({}, true).dtype(), Dtype::kBool);
  ExpectArray(Full({2}, 3, Dtype::kFloat64), {2}, {3, 3});
  ExpectArray(Zeros({1, 2}, Dtype::kInt64), {1, 2}, {0, 0});
  ExpectArray(Ones({}, Dtype::kFloat16), {}, {1});
  ExpectArray(Arange(3), {3}, {0, 1, 2});
  EXPECT_EQ(Arange(3).dtype(), Dtype::kInt32);
  ExpectArray(Arange(1, 3), {2}, {1, 2});
  ExpectArray(Arange(3, Dtype::kFloat64), {3}, {0, 1, 2});
  ExpectArray(Arange(1.0, 2.0, 0.5), {2}, {1, 1.5});
  ExpectArray(Arange(4, 0, -2, Dtype::kInt8), {2}, {4, 2});
  ExpectArray(Identity(2, Dtype::kFloat32), {2, 2}, {1, 0, 0, 1});
  ExpectArray(Eye(2, 3, 1, Dtype::kInt32), {2, 3}, {0, 1, 0, 0, 0, 1});
  EXPECT_EQ(Eye(2, std::nullopt, std::nullopt, std::nullopt).dtype(), Dtype::kFloat64);
  ExpectArray(Tri(2, 3, 0, std::nullopt), {2, 3}, {1, 0, 0, 1, 1, 0});
  ExpectArray(Linspace(0, 1, 3), {3}, {0, 0.5, 1});
  ExpectArray(Linspace(0.0, 1.0, 2, false, Dtype::kFloat64), {2}, {0, 0.5});
  const Array a = Floats({2}, {1, 2});
  ExpectArray(OnesLike(a), {2}, {1, 1});
  ExpectArray(ZerosLike(a), {2}, {0, 0});
  ExpectArray(FullLike(a, 7), {2}, {7, 7});
  EXPECT_EQ(EmptyLike(a, GetDevice("native:1")).device().name(), "native:1");
  ExpectArray(Diag(a, 1), {3, 3}, {0, 1, 0, 0, 0, 2, 0, 0, 0});
  ExpectArray(Tril(Ones({2, 2}, Dtype::kFloat32)), {2, 2}, {1, 0, 1, 1});
  const std::vector<Array> grid = Meshgrid({a, Arange(3)}, MeshgridIndexingMode::kMatrix);
  ExpectArray(grid[0], {2, 3}, {1, 1, 1, 2, 2, 2});
  EXPECT_EQ(Meshgrid({a, Arange(3)}, MeshgridIndexingMode::kCartesian)[0].shape(), (Shape{3, 2}));
  EXPECT_EQ(AsContiguousArray(Full({}, 1)).shape(), (Shape{1}));
}

TEST_F(RoutinesTest, HostData) {
  const std::shared_ptr<int32_t> data(new int32_t[6]{0, 1, 2, 3, 4, 5},
                                      std::default_delete<int32_t[]>());
  ExpectArray(FromContiguousHostData({2, 3}, Dtype::kInt32, data), {2, 3}, {0, 1, 2, 3, 4, 5});
  // The transpose, from its second column on.
  ExpectArray(FromData({2, 2}, Dtype::kInt32, data, Strides{4, 12}, 4), {2, 2}, {1, 4, 2, 5});
  ExpectArray(FromHostData({3}, Dtype::kInt32, data, Strides{-8}, 20), {3}, {5, 3, 1});
  ExpectArray(FromData({2}, Dtype::kInt32, data, std::nullopt, 8), {2}, {2, 3});
  ExpectArray(FromData({0, 3}, Dtype::kInt32, data, Strides{12, 4}), {0, 3}, {});
  EXPECT_THROW(FromData({2}, Dtype::kInt32, data, Strides{4, 4}), DimensionError);
  EXPECT_THROW(FromData({-1}, Dtype::kInt32, data, Strides{4}), DimensionError);
}

TEST_F(RoutinesTest, ScalarsAreExactAndOfTheirKind) {
  const int64_t large = (int64_t{1} << 62) + 1;
  EXPECT_EQ(static_cast<int64_t>(AsScalar(Build<int64_t>({1, 1}, {large}))), large);
  EXPECT_EQ(AsScalar(Build<bool>({}, {true})).kind(), DtypeKind::kBool);
  EXPECT_EQ(AsScalar(Floats({}, {1.5F})), Scalar(1.5));
  EXPECT_EQ(AsScalar(Full({}, 0.5, Dtype::kFloat16)), Scalar(0.5));
  EXPECT_THROW(AsScalar(Floats({2}, {1, 2})), DimensionError);
  EXPECT_THROW(ToVector<float>(Arange(2)), DtypeError);
}

TEST_F(RoutinesTest, Arithmetic) {
  const Array a = Floats({2}, {7, -7});
  const Array b = Floats({2}, {2, 2});
  ExpectArray(a + b * 2 - 1, {2}, {10, -4});
  ExpectArray(1 - a, {2}, {-6, 8});
  ExpectArray(a / b, {2}, {3.5, -3.5});
  ExpectArray(14 / a, {2}, {2, -2});
  ExpectArray(FloorDivide(a, b), {2}, {3, -4});
  ExpectArray(a % b, {2}, {1, 1});
  ExpectArray(Fmod(a, b), {2}, {1, -1});
  ExpectArray(Power(b, 3), {2}, {8, 8});
  ExpectArray(Reciprocal(b), {2}, {0.5, 0.5});
  ExpectArray(-a, {2}, {-7, 7});
  EXPECT_EQ(TrueDivide(Arange(2), 2).dtype(), Dtype::kFloat32);
  ExpectArray(Maximum(0, a), {2}, {7, 0});
  ExpectArray(Minimum(a, b), {2}, {2, -7});
  const Array i = Build<int32_t>({2}, {6, 5});
  ExpectArray(i & 3, {2}, {2, 1});
  ExpectArray(i | 8, {2}, {14, 13});
  ExpectArray(i ^ i, {2}, {0, 0});
  ExpectArray(i << 1, {2}, {12, 10});
  ExpectArray(i >> 1, {2}, {3, 2});
}

TEST_F(RoutinesTest, InPlace) {
  Array x = Floats({2}, {1, 2});
  const Array same = x;
  x += 1;
  x *= Floats({2}, {2, 3});
  same -= 1;
  same /= 2;
  ExpectArray(x, {2}, {1.5, 4});
  x.At({1}) += 6;  // a view of one element
  ExpectArray(same, {2}, {1.5, 10});
  Array i = Build<int32_t>({2}, {7, 9});
  i %= 4;
  i <<= 2;
  i |= 1;
  ExpectArray(i, {2}, {13, 5});
  x.Fill(3);
  ExpectArray(x, {2}, {3, 3});
  CopyTo(x, Floats({}, {8}), CastingMode::kNo, Build<bool>({2}, {false, true}));
  ExpectArray(x, {2}, {3, 8});
  EXPECT_THROW(CopyTo(x, i, CastingMode::kNo, Build<bool>({}, {true})), DtypeError);
}

TEST_F(RoutinesTest, Elementwise) {
  const std::vector<double> at = {0.25, 0.5};
  const auto expect = [&at](Array (*routine)(const Array&), double (*reference)(double)) {
    ExpectArray(routine(Doubles({2}, at)), {2}, {reference(at[0]), reference(at[1])}, 1e-12);
  };
  expect(Exp, std::exp);
  expect(Expm1, std::expm1);
  expect(Exp2, std::exp2);
  expect(Log, std::log);
  expect(Log10, std::log10);
  expect(Log2, std::log2);
  expect(Log1p, std::log1p);
  expect(Erf, std::erf);
  expect(Sqrt, std::sqrt);
  expect(Sin, std::sin);
  expect(Cos, std::cos);
  expect(Tan, std::tan);
  expect(Arcsin, std::asin);
  expect(Arccos, std::acos);
  expect(Arctan, std::atan);
  expect(Sinh, std::sinh);
  expect(Cosh, std::cosh);
  expect(Tanh, std::tanh);
  expect(Arcsinh, std::asinh);
  expect(Fabs, std::fabs);
  expect(Ceil, std::ceil);
  expect(Floor, std::floor);
  ExpectArray(Arccosh(Doubles({1}, {2})), {1}, {std::acosh(2.0)}, 1e-12);
  ExpectArray(Arctan2(Doubles({1}, {1}), Doubles({1}, {-2})), {1}, {std::atan2(1, -2)}, 1e-12);
  ExpectArray(Square(Doubles({1}, {-3})), {1}, {9});
  ExpectArray(Sign(Doubles({2}, {-3, 0})), {2}, {-1, 0});
}

TEST_F(RoutinesTest, Logic) {
  const Array a = Floats({3}, {1, 2, 3});
  const Array b = Floats({3}, {3, 2, 1});
  EXPECT_EQ((a == b).dtype(), Dtype::kBool);
  ExpectArray(a == b, {3}, {0, 1, 0});
  ExpectArray(a != b, {3}, {1, 0, 1});
  ExpectArray(a < b, {3}, {1, 0, 0});
  ExpectArray(a <= b, {3}, {1, 1, 0});
  ExpectArray(a > b, {3}, {0, 0, 1});
  ExpectArray(a >= b, {3}, {0, 1, 1});
  ExpectArray(LogicalAnd(a > b, a == a), {3}, {0, 0, 1});
  ExpectArray(LogicalXor(a > b, a >= b), {3}, {0, 1, 0});
  ExpectArray(LogicalNot(a > b), {3}, {1, 1, 0});
  ExpectArray(All(a > 0), {}, {1});
  ExpectArray(Any(a > 3, 0, true), {1}, {0});
  const Array odd = Floats({3}, {NAN, HUGE_VALF, 0});
  ExpectArray(IsNan(odd), {3}, {1, 0, 0});
  ExpectArray(IsInf(odd), {3}, {0, 1, 0});
  ExpectArray(IsFinite(odd), {3}, {0, 0, 1});
  EXPECT_TRUE(AllClose(a, a + 1e-7));
  EXPECT_FALSE(AllClose(a, b));
  EXPECT_TRUE(AllClose(odd, odd, 1e-5, 1e-8, true));
}

TEST_F(RoutinesTest, Manipulation) {
  const Array a = Arange(6).Reshape({2, 3});
  ExpectArray(a.Transpose(), {3, 2}, {0, 3, 1, 4, 2, 5});
  EXPECT_FALSE(a.Transpose().IsContiguous());
  EXPECT_EQ(a.Transpose().strides(), (Strides{4, 12}));
  ExpectArray(Transpose(a, {1, 0}).Reshape({6}), {6}, {0, 3, 1, 4, 2, 5});
  ExpectArray(a.At({1, Slice{std::nullopt, std::nullopt, -2}}), {2}, {5, 3});
  ExpectArray(a.At({Slice{}, NewAxis{}, 0}), {2, 1}, {0, 3});
  ExpectArray(a.Swapaxes(0, 1).At({2}), {2}, {2, 5});
  EXPECT_EQ(ExpandDims(a, 1).shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(ExpandDims(a, 0).Squeeze().shape(), (Shape{2, 3}));
  EXPECT_EQ(AtLeast3D(a).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(RollAxis(Zeros({2, 3, 4}, Dtype::kInt8), 2).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(Moveaxis(Zeros({2, 3, 4}, Dtype::kInt8), Axes{0}, Axes{2}).shape(), (Shape{3, 4, 2}));
  ExpectArray(Floats({1, 2}, {1, 2}).BroadcastTo({2, 2}), {2, 2}, {1, 2, 1, 2});
  ExpectArray(Flip(a, 1), {2, 3}, {2, 1, 0, 5, 4, 3});
  ExpectArray(Repeat(Arange(2), 2, 0), {4}, {0, 0, 1, 1});
  ExpectArray(Repeat(Arange(2), {1, 2}, 0), {3}, {0, 1, 1});
  ExpectArray(Concatenate({Arange(2), Arange(1)}), {3}, {0, 1, 0});
  ExpectArray(Stack({Arange(2), Arange(2)}, 1), {2, 2}, {0, 0, 1, 1});
  EXPECT_EQ(HStack({a, a}).shape(), (Shape{2, 6}));
  EXPECT_EQ(VStack({a, a}).shape(), (Shape{4, 3}));
  EXPECT_EQ(DStack({a, a}).shape(), (Shape{2, 3, 2}));
  ExpectArray(Split(a, 3, 1)[1], {2, 1}, {1, 4});
  ExpectArray(Split(Arange(5), std::vector<int64_t>{1, 3})[2], {2}, {3, 4});
  ExpectArray(HSplit(a, 3)[2], {2, 1}, {2, 5});
  ExpectArray(HSplit(Arange(4), 2)[1], {2}, {2, 3});
  ExpectArray(VSplit(a, 2)[1], {1, 3}, {3, 4, 5});
  EXPECT_THROW(Split(a, 2, 1), DimensionError);
  EXPECT_THROW(DSplit(a, 1), DimensionError);
  EXPECT_THROW(VSplit(Arange(2), 1), DimensionError);
}

TEST_F(RoutinesTest, Reduction) {
  const Array a = Floats({2, 3}, {1, 5, 3, 4, 2, 6});
  ExpectArray(a.Sum(), {}, {21});
  ExpectArray(a.Sum(1), {2}, {9, 12});
  ExpectArray(a.Sum({0, 1}, true), {1, 1}, {21});
  ExpectArray(a.Max(0), {3}, {4, 5, 6});
  ExpectArray(AMin(a, -1), {2}, {1, 2});
  ExpectArray(a.Mean(0), {3}, {2.5, 3.5, 4.5});
  ExpectArray(a.Var(), {}, {35.0 / 12});
  ExpectArray(Cumsum(a, 1), {2, 3}, {1, 6, 9, 4, 6, 12});
  ExpectArray(Nansum(Floats({2}, {NAN, 2})), {}, {2});
  ExpectArray(LogSumExp(Zeros({2, 2}, Dtype::kFloat32), 1), {2}, {std::log(2), std::log(2)});
  ExpectArray(Softmax(Zeros({1, 4}, Dtype::kFloat32)), {1, 4}, {0.25, 0.25, 0.25, 0.25});
  ExpectArray(LogSoftmax(Zeros({1, 2}, Dtype::kFloat32)), {1, 2}, {-std::log(2), -std::log(2)});
  ExpectArray(CountNonzero(a > 2, 0), {3}, {1, 1, 2});
  ExpectArray(Empty({0, 2}, Dtype::kFloat32).Sum(0), {2}, {0, 0});
}

TEST_F(RoutinesTest, Sorting) {
  const Array a = Floats({2, 3}, {1, 5, 3, 4, 2, 6});
  ExpectArray(a.ArgMax(), {}, {5});
  ExpectArray(a.ArgMax(1), {2}, {1, 2});
  ExpectArray(a.ArgMin(0), {3}, {0, 1, 0});
  // Of axes 0 and 2 together: positions in 2 x 2.
  const Array b = Build<int32_t>({2, 3, 2}, {0, 9, 2, 3, 4, 5, 6, 7, 8, 1, 10, 11});
  ExpectArray(ArgMax(b, {0, 2}), {3}, {1, 2, 3});
  ExpectArray(ArgMax(b, {2, -3}), {3}, {1, 2, 3});
  ExpectArray(NanArgMax(Floats({3}, {NAN, 1, 2})), {}, {2});
  ExpectArray(NanArgMin(Floats({3}, {NAN, 1, 2}), 0), {}, {1});
  EXPECT_THROW(ArgMax(b, {0, 0}), DimensionError);
  EXPECT_THROW(ArgMax(b, {0, 3}), DimensionError);
  EXPECT_THROW(a.ArgMax(2), DimensionError);
}

TEST_F(RoutinesTest, Indexing) {
  const Array a = Floats({3, 2}, {0, 1, 2, 3, 4, 5});
  const Array rows = Build<int64_t>({2}, {2, 0});
  ExpectArray(a.Take(rows, 0), {2, 2}, {4, 5, 0, 1});
  ExpectArray(Take(a, Build<int64_t>({1}, {4}), 0, IndexBoundsMode::kWrap), {1, 2}, {2, 3});
  ExpectArray(Take(a, Build<int64_t>({1}, {4}), 0, IndexBoundsMode::kClip), {1, 2}, {4, 5});
  EXPECT_THROW(Take(a, Build<int64_t>({1}, {4}), 0, IndexBoundsMode::kRaise), IndexError);
  EXPECT_THROW(Values(Take(a, Build<int64_t>({1}, {4}), 0)), IndexError);
  ExpectArray(AddAt(a, Build<int64_t>({2}, {1, 1}), 0, Floats({2, 2}, {10, 20, 30, 40})), {3, 2},
              {0, 1, 42, 63, 4, 5});
  ExpectArray(Where(a > 2, a, -1), {3, 2}, {-1, -1, -1, 3, 4, 5});
  ExpectArray(Where(a > 2, 1, 0), {3, 2}, {0, 0, 0, 1, 1, 1});
  const std::vector<Array> positions = Nonzero(a);
  ASSERT_EQ(positions.size(), 2U);
  ExpectArray(positions[0], {5}, {0, 1, 1, 2, 2});
  ExpectArray(positions[1], {5}, {1, 0, 1, 0, 1});
  EXPECT_EQ(Nonzero(Zeros({0, 2}, Dtype::kInt8))[1].shape(), (Shape{0}));
}

TEST_F(RoutinesTest, Linalg) {
  const Array a = Doubles({2, 2}, {4, 1, 1, 3});
  ExpectArray(Dot(a, Doubles({2}, {1, 2})), {2}, {6, 7});
  EXPECT_EQ(Dot(a, a, Dtype::kFloat32).dtype(), Dtype::kFloat32);
  ExpectArray(Solve(a, Doubles({2}, {6, 7})), {2}, {1, 2});
  ExpectArray(Dot(Inverse(a), a), {2, 2}, {1, 0, 0, 1});
  ExpectArray(Dot(PseudoInverse(a, 1e-15F), a), {2, 2}, {1, 0, 0, 1});
  const Array root = Cholesky(a);
  ExpectArray(Dot(root, root.Transpose()), {2, 2}, {4, 1, 1, 3});
  const auto [q, r] = Qr(a, QrMode::kReduced);
  ExpectArray(Dot(q, r), {2, 2}, {4, 1, 1, 3});
  EXPECT_EQ(std::get<0>(Qr(a, QrMode::kR)).GetTotalSize(), 0);
  const auto [u, s, vh] = Svd(a, true, true);
  ExpectArray(Dot(u * s, vh), {2, 2}, {4, 1, 1, 3});
  ExpectArray(std::get<1>(Svd(a, true, false)), {2}, Values(s));
  EXPECT_EQ(std::get<0>(Svd(a, true, false)).GetTotalSize(), 0);
  const auto [w, v] = Eigh(a, 'L');
  ExpectArray(Dot(v * w, v.Transpose()), {2, 2}, {4, 1, 1, 3});
  ExpectArray(Eigvalsh(a, 'U'), {2}, Values(w));
  EXPECT_THROW(Eigvalsh(a, 'x'), ValueError);
  EXPECT_THROW(Dot(a, Doubles({3}, {1, 2, 3})), DimensionError);
}

TEST_F(RoutinesTest, TextOfArrays) {
  const Array a = Floats({2, 2}, {1, 2.5, -3, NAN});
  EXPECT_EQ(a.ToString(),
            "array([[1.0, 2.5],\n       [-3.0, nan]], shape=(2, 2), dtype=float32, "
            "device='native:0')");
  EXPECT_EQ(Full({}, true).ToString(), "array(True, shape=(), dtype=bool, device='native:0')");
  EXPECT_EQ(Empty({0, 2}, Dtype::kInt8).ToString(),
            "array([], shape=(0, 2), dtype=int8, device='native:0')");
  EXPECT_EQ(Arange(2000).ToString(),
            "array([0, 1, 2, ..., 1997, 1998, 1999], shape=(2000,), dtype=int32, "
            "device='native:0')");
}

}  // namespace
}  // namespace chainerx
