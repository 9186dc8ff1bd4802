// What recurrent networks may be, before any array is looked at.
#include "ops/rnn.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/error.h"
#include "ops/registry.h"
#include "ops/testing/shape_only.h"

namespace chx {
namespace {

absl::StatusOr<RnnNetwork> Make(const Ints& rows, const Shape& x, const Shape& hx,
                                int64_t layers = 1, int64_t directions = 1, int mode = 0) {
  const AttrValue attrs[] = {AttrValue(rows), AttrValue(layers), AttrValue(directions),
                             AttrValue(mode)};
  return MakeRnnNetwork("rnn", x, hx, attrs);
}

void ExpectRefused(const absl::StatusOr<RnnNetwork>& network, const char* why) {
  ASSERT_FALSE(network.ok()) << why;
  EXPECT_THAT(std::string(network.status().message()), testing::HasSubstr(why));
}

TEST(RnnTest, SizesAndPlacesOfArrays) {
  const RnnNetwork network = *Make({3, 2, 0}, {5, 7}, {4, 6, 2}, 2, 2, 1);
  EXPECT_EQ(network.mode, RnnMode::kGru);
  EXPECT_EQ(network.gates(), 3);
  EXPECT_EQ(network.rows, (Ints{3, 2}));
  EXPECT_EQ(network.offsets, (Ints{0, 3, 5}));
  EXPECT_EQ(network.num_inputs(), 2 + 4 * 12);
  EXPECT_EQ(network.Position(0, RnnWeight::kFromX, 0), 2);
  EXPECT_EQ(network.Position(3, RnnWeight::kBiasOfH, 2), network.num_inputs() - 1);
  EXPECT_EQ(network.WeightShape(1, RnnWeight::kFromX), (Shape{2, 7}));
  EXPECT_EQ(network.WeightShape(2, RnnWeight::kFromX), (Shape{2, 4}));
  EXPECT_EQ(network.WeightShape(2, RnnWeight::kFromH), (Shape{2, 2}));
  EXPECT_EQ(network.WeightShape(2, RnnWeight::kBiasOfX), (Shape{2}));
  EXPECT_EQ(network.y_shape(), (Shape{5, 4}));
  EXPECT_EQ(network.state_shape(), (Shape{4, 6, 2}));
  EXPECT_EQ(Make({1}, {1, 1}, {1, 1, 1})->Position(0, RnnWeight::kFromX, 0), 3);
}

TEST(RnnTest, StepsWithoutRows) {
  const RnnNetwork network = *Make({0, 0}, {0, 7}, {1, 6, 2});
  EXPECT_EQ(network.num_steps(), 0);
  EXPECT_EQ(network.total_rows(), 0);
}

TEST(RnnTest, RefusesWhatDoesNotFit) {
  ExpectRefused(Make({}, {0, 7}, {1, 6, 2}), "steps");
  ExpectRefused(Make({2, 3}, {5, 7}, {1, 6, 2}), "do not grow");
  ExpectRefused(Make({7}, {7, 7}, {1, 6, 2}), "do not grow");
  ExpectRefused(Make({-1}, {5, 7}, {1, 6, 2}), "do not grow");
  ExpectRefused(Make({INT64_MIN}, {5, 7}, {1, 6, 2}), "do not grow");
  ExpectRefused(Make({3, 2}, {4, 7}, {1, 6, 2}), "rows of all");
  ExpectRefused(Make({3, 2}, {6, 7}, {1, 6, 2}), "rows of all");
  ExpectRefused(Make({3, 2}, {5}, {1, 6, 2}), "expects x");
  ExpectRefused(Make({3, 2}, {5, 7}, {6, 2}), "expects x");
  ExpectRefused(Make({3, 2}, {5, 7}, {2, 6, 2}), "expects x");
  ExpectRefused(Make({3, 2}, {5, 7}, {1, 6, 2}, 0), "layers");
  ExpectRefused(Make({3, 2}, {5, 7}, {1, 6, 2}, INT64_MAX), "layers");
  ExpectRefused(Make({3, 2}, {5, 7}, {1, 6, 2}, 1, 3), "directions");
  ExpectRefused(Make({3, 2}, {5, 7}, {1, 6, 2}, 1, INT64_MIN), "directions");
}

// Rows that a repeated element makes may be any number.
TEST(RnnTest, SumsDoNotOverflow) {
  constexpr int64_t kHuge = (int64_t{1} << 61) - 1;
  ExpectRefused(Make(Ints(5, kHuge), {4, 1}, {1, kHuge, 1}), "rows of all");
  ExpectRefused(Make(Ints(4096, kHuge), {INT64_MAX, 1}, {1, kHuge, 1}), "rows of all");
  EXPECT_EQ(Make({kHuge}, {kHuge, 1}, {1, kHuge, 1})->total_rows(), kHuge);
}

// Arrays that repeat an element, of which four side by side are beyond all sizes.
TEST(RnnTest, RefusesWhatItsPartsCannotBe) {
  const auto repeated = [](const Shape& shape) {
    ArraySpec spec(Dtype::kFloat16, shape);
    spec.strides = Strides(shape.size(), 0);
    return spec;
  };
  const auto infer = [&](int64_t rows, int64_t input, int64_t hidden) {
    Call call;
    call.op = OpRegistry::Global().Find("rnn");
    const ArraySpec state = repeated({1, rows, hidden});
    call.inputs = {repeated({rows, input}), state, state};
    call.inputs.insert(call.inputs.end(), 4, repeated({hidden, input}));
    const int64_t square = hidden > INT32_MAX ? 1 : hidden;  // no array is that large
    call.inputs.insert(call.inputs.end(), 4, repeated({square, square}));
    call.inputs.insert(call.inputs.end(), 8, repeated({hidden}));
    call.attrs = {AttrValue(Ints{rows}), AttrValue(1), AttrValue(1), AttrValue(0)};
    InferResult result;
    return Infer(call, &result);
  };
  EXPECT_TRUE(infer(1 << 20, 1 << 20, 1 << 20).ok());
  for (const absl::Status& status :
       {infer(1, int64_t{1} << 50, 1 << 10), infer(int64_t{1} << 50, 1, 1 << 10),
        infer(1, 1, 1 << 30), infer(0, 0, int64_t{1} << 31)}) {
    EXPECT_EQ(KindOf(status), ErrorKind::kDimension) << status;
    EXPECT_THAT(std::string(status.message()),
                testing::AnyOf(testing::HasSubstr("2^62 bytes"), testing::HasSubstr("2^31")));
  }
}

TEST(RnnTest, StepsAreBounded) {
  const auto steps = [](int64_t count, int64_t layers) {
    return Make(Ints(count, 0), {0, 7}, {layers, 6, 2}, layers).ok();
  };
  EXPECT_TRUE(steps(kMaxRnnSteps, 1));
  EXPECT_FALSE(steps(kMaxRnnSteps + 1, 1));
  EXPECT_TRUE(steps(kMaxRnnSteps, kMaxRnnCells / kMaxRnnSteps));
  EXPECT_FALSE(steps(kMaxRnnSteps, kMaxRnnCells / kMaxRnnSteps + 1));
}

}  // namespace
}  // namespace chx
