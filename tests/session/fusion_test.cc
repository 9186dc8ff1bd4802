// Fused runs of programs: what a plan computes block by block is what the commands compute array by
// array. Every bit of it, but which NaN a NaN is.
#include "tests/session/fusion_fixture.h"

namespace chx::server {
namespace {

TEST_F(FusionTest, RandomProgramsGiveTheBitsOfTheCommands) {
  const std::vector<Ints> shapes = {
      {8191},     {8192},    {8193},    {32768},    {50021},    {150000},         {300, 41},
      {41, 300},  {3, 5000}, {9000, 2}, {1, 20000}, {20000, 1}, {4, 33, 130},     {7, 1, 3000},
      {128, 128}, {0},       {0, 5},    {},         {1},        {2, 3, 4, 1, 500}};
  for (const Ints& shape : shapes) {
    SCOPED_TRACE(Shape(absl::MakeConstSpan(shape)).ToString());
    Check(RandomExample(shape));
    if (HasFailure()) return;
  }
}

TEST_F(FusionTest, RandomProgramsOfRandomShapes) {
  for (int i = 0; i < 25; ++i) {
    Ints shape;
    int64_t left = Random(1, 60000);
    while (shape.size() < 4 && Random(0, 3) > 0) {
      shape.push_back(Random(1, std::min<int64_t>(left, 400)));
      left = std::max<int64_t>(1, left / shape.back());
    }
    shape.push_back(left);
    SCOPED_TRACE(Shape(absl::MakeConstSpan(shape)).ToString());
    Check(RandomExample(shape));
    if (HasFailure()) return;
  }
}

// Calls that see what others write at other places, one after the other.
TEST_F(FusionTest, ViewsOfOneArrayAreNotMixedUp) {
  constexpr int64_t kSize = 20000;
  Example example;
  example.arguments = {{Dtype::kFloat32, {2 * kSize}, RandomBytes(Dtype::kFloat32, 2 * kSize)},
                       {Dtype::kFloat32, {kSize}, RandomBytes(Dtype::kFloat32, kSize)}};
  const auto slice = [](Handle from, Handle to, int64_t begin, int64_t end, int64_t step) {
    return Op("getitem", {A(from)}, {to}, {IndexBuilder().Slice(begin, end, step).Build()});
  };
  example.commands = {
      slice(1, 10, 0, kSize, 1),
      slice(1, 11, 1, kSize + 1, 1),
      slice(1, 12, 0, 2 * kSize, 2),
      Op("add", {A(2), S(1.0)}, {20}),
      Op("add_", {A(10), A(20)}, {}),        // writes [0, n)
      Op("multiply", {A(11), A(20)}, {21}),  // reads what it has written, one further
      Op("add_", {A(12), A(21)}, {}),        // and every second one
      Op("multiply_", {A(10), A(20)}, {}),
      Op("subtract", {A(10), A(21)}, {22}),
      Op("square", {A(22)}, {23}),
      Op("add_", {A(2), A(23)}, {}),
      Op("add", {A(23), A(2)}, {24}),
      ReleaseOf({10, 11, 12, 20, 21, 22}),
  };
  example.outputs = {24};
  Check(example);
}

// A square array's transpose has its shape and place, but other strides.
TEST_F(FusionTest, TheSumOfATransposeGoesByItsOwnStrides) {
  constexpr int64_t kSide = 300;
  Example example;
  example.arguments = {
      {Dtype::kFloat32, {kSide, kSide}, RandomBytes(Dtype::kFloat32, kSide * kSide)}};
  example.commands = {Op("add", {A(1), S(1.0)}, {2}), Op("multiply", {A(2), A(1)}, {3}),
                      Op("transpose", {A(3)}, {4}, {AttrValue()}),
                      Op("sum", {A(4)}, {5}, {AttrValue(), AttrValue(false), AttrValue()}),
                      ReleaseOf({2, 3, 4})};
  example.outputs = {5};
  Check(example);
}

// A later array may have the place of one that the run has read: not before all blocks are through.
TEST_F(FusionTest, ARunsInputsKeepTheirMemoryUntilItsEnd) {
  constexpr int64_t kSize = 40000;
  Example example;
  example.arguments = {{Dtype::kFloat32, {kSize}, RandomBytes(Dtype::kFloat32, kSize)}};
  example.commands = {OpByDefault("flip", {A(1)}, {2}),
                      OpByDefault("copy", {A(2)}, {3}),
                      OpByDefault("copy", {A(1)}, {4}),
                      Op("add", {A(3), S(1.0)}, {5}),
                      Op("multiply", {A(5), A(4)}, {6}),
                      ReleaseOf({2, 3, 4}),
                      Op("square", {A(6)}, {7}),
                      Op("add", {A(7), A(5)}, {8}),
                      OpByDefault("cumsum", {A(8)}, {9}, {AttrValue(0)}),
                      Op("add", {A(7), A(9)}, {10}),
                      ReleaseOf({5, 6, 7, 8, 9})};
  example.outputs = {10};
  Check(example);
}

}  // namespace
}  // namespace chx::server
