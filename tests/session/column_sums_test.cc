// Sums over the first axes in fused runs: every bit of what the commands give.
#include <utility>

#include "gmock/gmock.h"
#include "tests/session/fusion_fixture.h"

namespace chx::server {
namespace {

class ColumnSumsTest : public FusionTest {
 protected:
  // Mostly sums and means over the first axes.
  Command RandomReduction(Handle x, Handle result) override {
    if (Random(0, 3) == 0) return FusionTest::RandomReduction(x, result);
    const Ints axes = OneOf<Ints>({{0}, {0}, {0}, {0, 1}, {1, 0}, {1}});
    const bool keepdims = Random(0, 2) == 0;
    const std::string op = OneOf<std::string>({"sum", "sum", "sum", "mean", "amax"});
    return OpByDefault(op, {A(x)}, {result}, {AttrValue(axes), keepdims});
  }
  Example::Argument Of(Ints shape, Dtype dtype = Dtype::kFloat32) {
    const int64_t n = NumElements(Shape(absl::MakeConstSpan(shape)));
    return {dtype, std::move(shape), RandomBytes(dtype, n), 0};
  }
};

TEST_F(ColumnSumsTest, RandomProgramsGiveTheBitsOfTheCommands) {
  // From 2^18 elements on, counting 512 columns, they are fused.
  const std::vector<Ints> shapes = {{32800, 8},    {6500, 41},    {520, 600},  {515, 1100},
                                    {20, 30, 500}, {600, 1, 450}, {1, 300000}, {0, 40}};
  for (const Ints& shape : shapes) {
    SCOPED_TRACE(Shape(absl::MakeConstSpan(shape)).ToString());
    Check(RandomExample(shape));
    if (HasFailure()) return;
  }
}

TEST_F(ColumnSumsTest, OfAnyDtypeRowsAndThreads) {
  for (const Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64,
                            Dtype::kInt32, Dtype::kUint8, Dtype::kBool}) {
    const int64_t columns = Random(8, 700);
    const int64_t rows = (int64_t{1} << 18) / std::min<int64_t>(columns, 512) + Random(1, 300);
    SCOPED_TRACE(absl::StrCat(DtypeName(dtype), " of ", rows, " and ", columns));
    Example example;
    example.arguments = {Of({rows, columns}, dtype), Of({rows, columns}, dtype),
                         Of({columns}, dtype), Of({rows, 1}, dtype)};
    // All share rows; what is summed is used by nothing, by another sum, and outside.
    example.commands = {Op("multiply", {A(1), A(3)}, {10}),
                        Op("multiply", {A(10), A(4)}, {11}),
                        OpByDefault("sum", {A(10)}, {12}, {Ints{0}}),
                        Op("multiply", {A(11), A(2)}, {13}),
                        OpByDefault("sum", {A(13)}, {14}, {Ints{0}, true}),
                        OpByDefault("mean", {A(2)}, {15}, {Ints{0}}),
                        OpByDefault("amax", {A(13)}, {16}, {Ints{1}, true}),
                        OpByDefault("sum", {A(11)}, {17}, {Ints{0}}),
                        ReleaseOf({10, 13})};
    example.outputs = {11, 12, 14, 15, 16, 17};
    Check(example);
    const std::vector<Value> wanted = RunRecorded(example, 1);
    const std::vector<Value> found = RunRecorded(example, 5);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(Difference(wanted[i], found[i]), "");
    if (HasFailure()) return;
  }
}

// A run may begin with a sum.
TEST_F(ColumnSumsTest, OfArgumentsBeforeAllElse) {
  for (const bool keepdims : {false, true}) {
    Example example;
    example.arguments = {Of({600, 500})};
    example.commands = {OpByDefault("sum", {A(1)}, {10}, {Ints{0}, keepdims}),
                        Op("square", {A(1)}, {11}),
                        OpByDefault("sum", {A(11)}, {12}, {Ints{0}, keepdims}), ReleaseOf({11})};
    example.outputs = {10, 12};
    Check(example);
  }
}

// What a sum gives is there when all rows are through, and not before.
TEST_F(ColumnSumsTest, WhatUsesASumComesAfterIt) {
  Example example;
  example.arguments = {Of({600, 500}), Of({500})};
  example.commands = {Op("square", {A(1)}, {10}),
                      OpByDefault("sum", {A(10)}, {11}, {Ints{0}}),
                      Op("subtract", {A(1), A(11)}, {12}),
                      OpByDefault("sum", {A(12)}, {13}, {Ints{0}}),
                      Op("add_", {A(2), A(13)}, {}),
                      Op("multiply", {A(12), A(2)}, {14}),
                      OpByDefault("sum", {A(14)}, {15}, {Ints{0}}),
                      ReleaseOf({10, 11, 12, 13, 14})};
  example.outputs = {15};
  Check(example);
}

}  // namespace
}  // namespace chx::server
