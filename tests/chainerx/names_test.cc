// All routines of ChainerX 7.8.1's headers, with the types that these have: compiled, not called.
#include <gtest/gtest.h>

#include <absl/types/optional.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "chx/chainerx.h"

// As programs for ChainerX have it: the headers must leave the name free.
namespace chx = chainerx;

// Arguments by their types. Nothing of this is ever evaluated.
namespace arguments {
const chx::Array& a();
const std::vector<chx::Array>& as();
std::vector<chx::Array>& steps();
const std::vector<std::vector<chx::Array>>& lists();
chx::Scalar s();
int8_t axis();
int64_t n();
const chx::OptionalAxes& axes();
const absl::optional<chx::Array>& maybe();
absl::optional<int64_t> maybe_n();
absl::optional<int8_t> maybe_axis();
absl::optional<chx::Dtype> maybe_dtype();
const chx::Shape& shape();
const chx::Dims& dims();
chx::Dtype dtype();
chx::Device& device();
const std::shared_ptr<void>& data();
const std::vector<int64_t>& indices();
}  // namespace arguments

namespace {

using namespace arguments;  // NOLINT(google-build-using-namespace)
using Arrays = std::vector<chx::Array>;
using Lists = std::vector<Arrays>;

// Whether a call compiles, and gives a Result.
#define ROUTINE(Result, call) \
  static_assert(std::is_same_v<Result, decltype(chx::call)>, "chainerx::" #call)
#define BINARY(Name)                   \
  ROUTINE(chx::Array, Name(a(), a())); \
  ROUTINE(chx::Array, Name(a(), s())); \
  ROUTINE(chx::Array, Name(s(), a()))

// activation.h
ROUTINE(chx::Array, ClippedRelu(a(), s()));
ROUTINE(chx::Array, CRelu(a(), axis()));
ROUTINE(chx::Array, Elu(a(), 1.0));
ROUTINE(chx::Array, Elu(a()));
ROUTINE(chx::Array, Sigmoid(a()));
ROUTINE(chx::Array, Relu(a()));
ROUTINE(chx::Array, LeakyRelu(a(), s()));
ROUTINE(Arrays, TreeLstm(as()));
ROUTINE(Arrays, SLstm(a(), a(), a(), a()));
ROUTINE(chx::Array, Softplus(a(), 1.0));
// arithmetic.h
ROUTINE(chx::Array, Negative(a()));
BINARY(Add);
BINARY(Subtract);
BINARY(Multiply);
BINARY(FloorDivide);
BINARY(Divide);
BINARY(TrueDivide);
ROUTINE(chx::Array, Reciprocal(a()));
BINARY(Power);
BINARY(Mod);
ROUTINE(chx::Array, Fmod(a(), a()));
// binary.h
BINARY(BitwiseAnd);
BINARY(BitwiseOr);
BINARY(BitwiseXor);
BINARY(LeftShift);
BINARY(RightShift);
// connection.h
ROUTINE(chx::Array, Conv(a(), a(), maybe(), dims(), dims()));
ROUTINE(chx::Array, Conv(a(), a(), absl::nullopt, {1, 1}, {0, 0}, true, maybe_dtype()));
ROUTINE(chx::Array, ConvTranspose(a(), a(), maybe(), dims(), dims()));
ROUTINE(chx::Array, ConvTranspose(a(), a(), maybe(), dims(), dims(), absl::optional<chx::Dims>(),
                                  maybe_dtype()));
ROUTINE(chx::Array, Linear(a(), a(), maybe(), uint8_t{1}));
ROUTINE(chx::Array, Linear(a(), a()));
ROUTINE(Arrays, Lstm(a(), a()));
// creation.h
ROUTINE(chx::Array, FromContiguousHostData(shape(), dtype(), data(), device()));
ROUTINE(chx::Array,
        FromData(shape(), dtype(), data(), absl::optional<chx::Strides>(), n(), device()));
ROUTINE(chx::Array, FromData(shape(), dtype(), data()));
ROUTINE(chx::Array, Empty(shape(), dtype(), device()));
ROUTINE(chx::Array, Full(shape(), s(), dtype(), device()));
ROUTINE(chx::Array, Full(shape(), s(), device()));
ROUTINE(chx::Array, Zeros(shape(), dtype(), device()));
ROUTINE(chx::Array, Ones(shape(), dtype(), device()));
ROUTINE(chx::Array, Arange(s(), s(), s(), dtype(), device()));
ROUTINE(chx::Array, Arange(s(), s(), s(), device()));
ROUTINE(chx::Array, Arange(s(), s(), dtype(), device()));
ROUTINE(chx::Array, Arange(s(), s(), device()));
ROUTINE(chx::Array, Arange(s(), dtype(), device()));
ROUTINE(chx::Array, Arange(s(), device()));
ROUTINE(chx::Array, EmptyLike(a(), device()));
ROUTINE(chx::Array, FullLike(a(), s(), device()));
ROUTINE(chx::Array, ZerosLike(a(), device()));
ROUTINE(chx::Array, OnesLike(a(), device()));
ROUTINE(chx::Array, Copy(a()));
ROUTINE(chx::Array, Identity(n(), dtype(), device()));
ROUTINE(chx::Array, Eye(n(), maybe_n(), maybe_n(), maybe_dtype(), device()));
ROUTINE(chx::Array, AsContiguous(a(), dtype()));
ROUTINE(chx::Array, AsContiguous(a()));
ROUTINE(chx::Array, AsContiguousArray(a(), maybe_dtype()));
ROUTINE(chx::Array, Diag(a(), n()));
ROUTINE(chx::Array, Diagflat(a(), n()));
ROUTINE(chx::Array, Linspace(s(), s(), maybe_n(), true, maybe_dtype(), device()));
ROUTINE(Arrays, Meshgrid(as(), chx::MeshgridIndexingMode::kCartesian));
ROUTINE(chx::Array, Tri(n(), maybe_n(), maybe_n(), maybe_dtype(), device()));
ROUTINE(chx::Array, Tril(a(), n()));
ROUTINE(chx::Array, Triu(a(), n()));
// evaluation.h
ROUTINE(chx::Array, Accuracy(a(), a(), maybe_n()));
// explog.h
ROUTINE(chx::Array, Erf(a()));
ROUTINE(chx::Array, Exp(a()));
ROUTINE(chx::Array, Expm1(a()));
ROUTINE(chx::Array, Exp2(a()));
ROUTINE(chx::Array, Log(a()));
ROUTINE(chx::Array, Log10(a()));
ROUTINE(chx::Array, Log2(a()));
ROUTINE(chx::Array, Log1p(a()));
// hyperbolic.h
ROUTINE(chx::Array, Sinh(a()));
ROUTINE(chx::Array, Cosh(a()));
ROUTINE(chx::Array, Tanh(a()));
ROUTINE(chx::Array, Arcsinh(a()));
ROUTINE(chx::Array, Arccosh(a()));
// indexing.h
ROUTINE(chx::Array, AddAt(a(), a(), axis(), a(), chx::IndexBoundsMode::kDefault));
ROUTINE(chx::Array, Take(a(), a(), axis(), chx::IndexBoundsMode::kRaise));
ROUTINE(chx::Array, Where(a(), a(), a()));
ROUTINE(chx::Array, Where(a(), a(), s()));
ROUTINE(chx::Array, Where(a(), s(), a()));
ROUTINE(chx::Array, Where(a(), s(), s()));
ROUTINE(Arrays, Nonzero(a()));
// linalg.h
ROUTINE(chx::Array, Dot(a(), a(), maybe_dtype()));
ROUTINE(chx::Array, Solve(a(), a()));
ROUTINE(chx::Array, Inverse(a()));
using Pair = std::tuple<chx::Array, chx::Array>;
using Triple = std::tuple<chx::Array, chx::Array, chx::Array>;
ROUTINE(Triple, Svd(a(), true, true));
ROUTINE(chx::Array, PseudoInverse(a(), 1e-15F));
ROUTINE(Pair, Qr(a(), chx::QrMode::kReduced));
ROUTINE(chx::Array, Cholesky(a()));
ROUTINE(Pair, Eigh(a(), 'L'));
ROUTINE(chx::Array, Eigvalsh(a(), 'U'));
// logic.h
ROUTINE(chx::Array, Equal(a(), a()));
ROUTINE(chx::Array, NotEqual(a(), a()));
ROUTINE(chx::Array, Greater(a(), a()));
ROUTINE(chx::Array, GreaterEqual(a(), a()));
ROUTINE(chx::Array, Less(a(), a()));
ROUTINE(chx::Array, LessEqual(a(), a()));
ROUTINE(chx::Array, LogicalNot(a()));
ROUTINE(chx::Array, LogicalAnd(a(), a()));
ROUTINE(chx::Array, LogicalAnd(a(), s()));
ROUTINE(chx::Array, LogicalOr(a(), a()));
ROUTINE(chx::Array, LogicalOr(a(), s()));
ROUTINE(chx::Array, LogicalXor(a(), a()));
ROUTINE(chx::Array, All(a(), axes(), true));
ROUTINE(chx::Array, Any(a(), absl::nullopt, true));
ROUTINE(chx::Array, IsNan(a()));
ROUTINE(chx::Array, IsInf(a()));
ROUTINE(chx::Array, IsFinite(a()));
// loss.h
ROUTINE(chx::Array, AbsoluteError(a(), a()));
ROUTINE(chx::Array, SquaredError(a(), a()));
ROUTINE(chx::Array, GaussianKLDivergence(a(), a()));
ROUTINE(chx::Array, HuberLoss(a(), a(), s()));
ROUTINE(chx::Array, SigmoidCrossEntropy(a(), a()));
ROUTINE(chx::Array, SoftmaxCrossEntropy(a(), a()));
ROUTINE(chx::Array, Hinge(a(), a(), 1.0));
// manipulation.h
ROUTINE(chx::Scalar, AsScalar(a()));
ROUTINE(chx::Array, Ravel(a()));
ROUTINE(chx::Array, RollAxis(a(), axis(), axis()));
ROUTINE(chx::Array, Transpose(a(), axes()));
ROUTINE(chx::Array, Reshape(a(), shape()));
ROUTINE(chx::Array, Squeeze(a(), axes()));
ROUTINE(chx::Array, BroadcastTo(a(), shape()));
ROUTINE(chx::Array, Concatenate(as()));
ROUTINE(chx::Array, Concatenate(as(), maybe_axis()));
ROUTINE(chx::Array, Stack(as(), axis()));
ROUTINE(Arrays, Split(a(), n(), axis()));
ROUTINE(Arrays, Split(a(), indices(), axis()));
ROUTINE(Arrays, DSplit(a(), n()));
ROUTINE(Arrays, DSplit(a(), indices()));
ROUTINE(Arrays, VSplit(a(), n()));
ROUTINE(Arrays, VSplit(a(), indices()));
ROUTINE(Arrays, HSplit(a(), n()));
ROUTINE(Arrays, HSplit(a(), indices()));
ROUTINE(chx::Array, Swapaxes(a(), axis(), axis()));
ROUTINE(chx::Array, Repeat(a(), n(), maybe_axis()));
ROUTINE(chx::Array, Repeat(a(), indices(), maybe_axis()));
ROUTINE(chx::Array, ExpandDims(a(), axis()));
ROUTINE(chx::Array, Flip(a(), axes()));
ROUTINE(chx::Array, Fliplr(a()));
ROUTINE(chx::Array, Flipud(a()));
ROUTINE(chx::Array, AtLeast2D(a()));
ROUTINE(chx::Array, AtLeast3D(a()));
ROUTINE(chx::Array, HStack(as()));
ROUTINE(chx::Array, VStack(as()));
ROUTINE(chx::Array, DStack(as()));
ROUTINE(chx::Array, Moveaxis(a(), chx::Axes{0}, chx::Axes{1}));
ROUTINE(void, CopyTo(a(), a(), chx::CastingMode::kNo, a()));
// misc.h
ROUTINE(chx::Array, Sqrt(a()));
ROUTINE(chx::Array, Square(a()));
ROUTINE(chx::Array, Absolute(a()));
ROUTINE(chx::Array, Fabs(a()));
ROUTINE(chx::Array, Sign(a()));
BINARY(Maximum);
BINARY(Minimum);
// n_step_rnn.h
ROUTINE(Lists, NStepLstm(n(), a(), a(), lists(), lists(), steps()));
ROUTINE(Lists, NStepBiLstm(n(), a(), a(), lists(), lists(), steps()));
ROUTINE(Lists, NStepGru(n(), a(), lists(), lists(), steps()));
ROUTINE(Lists, NStepBiGru(n(), a(), lists(), lists(), steps()));
ROUTINE(Lists, NStepRnn(n(), a(), lists(), lists(), steps(), absl::optional<std::string>("relu")));
ROUTINE(Lists, NStepBiRnn(n(), a(), lists(), lists(), steps(), std::string("tanh")));
// normalization.h
ROUTINE(chx::Array, BatchNorm(a(), a(), a(), a(), a(), s(), s(), axes()));
ROUTINE(chx::Array, BatchNorm(a(), a(), a(), a(), a()));
ROUTINE(chx::Array, FixedBatchNorm(a(), a(), a(), a(), a(), s(), axes()));
// pooling.h
ROUTINE(chx::Array, MaxPool(a(), dims(), dims(), dims(), false));
ROUTINE(chx::Array, AveragePool(a(), {2, 2}, {2, 2}, {0, 0}, chx::AveragePoolPadMode::kZero));
// reduction.h
ROUTINE(chx::Array, Sum(a(), axes(), true));
ROUTINE(chx::Array, LogSumExp(a(), axes(), true));
ROUTINE(chx::Array, LogSoftmax(a(), axes()));
ROUTINE(chx::Array, Softmax(a(), 1));
ROUTINE(chx::Array, Cumsum(a(), maybe_axis()));
ROUTINE(chx::Array, Nansum(a(), axes(), true));
// rounding.h
ROUTINE(chx::Array, Ceil(a()));
ROUTINE(chx::Array, Floor(a()));
// sorting.h
ROUTINE(chx::Array, ArgMax(a(), axes()));
ROUTINE(chx::Array, ArgMin(a(), {0, 1}));
ROUTINE(chx::Array, CountNonzero(a(), axes()));
ROUTINE(chx::Array, NanArgMax(a(), axes()));
ROUTINE(chx::Array, NanArgMin(a(), axes()));
// statistics.h
ROUTINE(chx::Array, AMax(a(), axes(), true));
ROUTINE(chx::Array, AMin(a(), axes(), true));
ROUTINE(chx::Array, Mean(a(), axes(), true));
ROUTINE(chx::Array, Var(a(), axes(), true));
// trigonometric.h
ROUTINE(chx::Array, Sin(a()));
ROUTINE(chx::Array, Cos(a()));
ROUTINE(chx::Array, Tan(a()));
ROUTINE(chx::Array, Arcsin(a()));
ROUTINE(chx::Array, Arccos(a()));
ROUTINE(chx::Array, Arctan(a()));
ROUTINE(chx::Array, Arctan2(a(), a()));
// numeric.h
ROUTINE(bool, AllClose(a(), a(), 1e-5, 1e-8, true));
// backward.h
ROUTINE(void, Backward(a(), absl::optional<chx::BackpropId>(), chx::DoubleBackpropOption::kEnable,
                       absl::optional<float>(2.F)));
ROUTINE(void, Backward({a(), a()}));
using Grads = std::vector<chx::Optional<chx::Array>>;
ROUTINE(Grads, Grad({a()}, {a()}, absl::nullopt, chx::DoubleBackpropOption::kEnable, false, true,
                    {a()}, absl::nullopt));
static_assert(std::is_convertible_v<decltype(a().GetGrad()), absl::optional<chx::Array>>);

// What ChainerX's headers declare and chx/chainerx.h does not: docs/chainerx.md says why.
constexpr const char* kAbsent[] = {
    "BackwardBuilder", "Device::Allocate", "EmptyReduced", "IndexableArray", "Kernel",
};

TEST(NamesTest, DocumentationGivesAReasonForWhatIsAbsent) {
  std::ifstream file(std::getenv("DOCUMENTATION"));
  ASSERT_TRUE(file.is_open());
  std::stringstream text;
  text << file.rdbuf();
  const size_t start = text.str().find("\n## C++");
  ASSERT_NE(start, std::string::npos);
  const std::string section = text.str().substr(start);
  for (const char* name : kAbsent) {
    const size_t row = section.find("| `" + std::string(name) + "`");
    ASSERT_NE(row, std::string::npos) << name;
    const std::string line = section.substr(row, section.find('\n', row) - row);
    EXPECT_GT(line.rfind('|') - line.find('|', 2), 20U) << line;
  }
}

}  // namespace
