#include "ops/basic_index.h"

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "ops/error.h"

namespace chx {
namespace {

using B = IndexBuilder;
constexpr absl::nullopt_t kNone = absl::nullopt;

absl::StatusOr<ArraySpec> Apply(const ArraySpec& in, const AttrValue& index) {
  ArraySpec out;
  CHX_RETURN_IF_ERROR(ApplyBasicIndex("getitem", index.ints(), in, &out));
  return out;
}

struct IndexCase {
  const char* what;
  AttrValue index;
  Shape shape;
  Strides strides;
  int64_t offset;  // -1: has no elements
};

// Of a float32 array a of shape (4, 5, 6) in C order; what is expected is NumPy 1.24's.
const std::vector<IndexCase>& IndexCases() {
  static const auto* const cases = new std::vector<IndexCase>{
      {"a[1]", B().Int(1).Build(), {5, 6}, {24, 4}, 120},
      {"a[-1, 2]", B().Int(-1).Int(2).Build(), {6}, {4}, 408},
      {"a[1, 2, 3]", B().Int(1).Int(2).Int(3).Build(), {}, {}, 180},
      {"a[()]", B().Build(), {4, 5, 6}, {120, 24, 4}, 0},
      {"a[...]", B().Ellipsis().Build(), {4, 5, 6}, {120, 24, 4}, 0},
      {"a[None]", B().NewAxis().Build(), {1, 4, 5, 6}, {0, 120, 24, 4}, 0},
      {"a[..., None]", B().Ellipsis().NewAxis().Build(), {4, 5, 6, 1}, {120, 24, 4, 0}, 0},
      {"a[1:3]", B().Slice(1, 3, kNone).Build(), {2, 5, 6}, {120, 24, 4}, 120},
      {"a[::2, ::-1]",
       B().Slice(kNone, kNone, 2).Slice(kNone, kNone, -1).Build(),
       {2, 5, 6},
       {240, -24, 4},
       96},
      {"a[::-2]", B().Slice(kNone, kNone, -2).Build(), {2, 5, 6}, {-240, 24, 4}, 360},
      {"a[3:0:-2, 1]", B().Slice(3, 0, -2).Int(1).Build(), {2, 6}, {-240, 4}, 384},
      {"a[-100:100]", B().Slice(-100, 100, kNone).Build(), {4, 5, 6}, {120, 24, 4}, 0},
      {"a[100:]", B().Slice(100, kNone, kNone).Build(), {0, 5, 6}, {120, 24, 4}, -1},
      {"a[2:1]", B().Slice(2, 1, kNone).Build(), {0, 5, 6}, {120, 24, 4}, 240},
      {"a[:, 0, ...]",
       B().Slice(kNone, kNone, kNone).Int(0).Ellipsis().Build(),
       {4, 6},
       {120, 4},
       0},
      {"a[..., 0]", B().Ellipsis().Int(0).Build(), {4, 5}, {120, 24}, 0},
      {"a[0, ..., -1]", B().Int(0).Ellipsis().Int(-1).Build(), {5}, {24}, 20},
      {"a[None, 1, None, ::3]",
       B().NewAxis().Int(1).NewAxis().Slice(kNone, kNone, 3).Build(),
       {1, 1, 2, 6},
       {0, 0, 72, 4},
       120},
      {"a[1:2:7]", B().Slice(1, 2, 7).Build(), {1, 5, 6}, {840, 24, 4}, 120},
      {"a[:, 4:-100:-3]",
       B().Slice(kNone, kNone, kNone).Slice(4, -100, -3).Build(),
       {4, 2, 6},
       {120, -72, 4},
       96},
      {"a[:, :, -1:-4:-1]", B().Ellipsis().Slice(-1, -4, -1).Build(), {4, 5, 3}, {120, 24, -4}, 20},
      {"a[0, 1, 2, ..., None]",
       B().Int(0).Int(1).Int(2).Ellipsis().NewAxis().Build(),
       {1},
       {0},
       32},
      {"a[:, :, 5:6:-2]", B().Ellipsis().Slice(5, 6, -2).Build(), {4, 5, 0}, {120, 24, 4}, -1},
      // NumPy's strides overflow here; these axes have one element.
      {"a[::2**63-1]", B().Slice(kNone, kNone, INT64_MAX).Build(), {1, 5, 6}, {120, 24, 4}, 0},
      {"a[::-2**63]", B().Slice(kNone, kNone, INT64_MIN).Build(), {1, 5, 6}, {120, 24, 4}, 360},
      {"a[-2**63:2**63-1]",
       B().Slice(INT64_MIN, INT64_MAX, kNone).Build(),
       {4, 5, 6},
       {120, 24, 4},
       0},
  };
  return *cases;
}

TEST(BasicIndexTest, AsNumPy) {
  const ArraySpec a(Dtype::kFloat32, {4, 5, 6});
  for (const IndexCase& c : IndexCases()) {
    absl::StatusOr<ArraySpec> out = Apply(a, c.index);
    ASSERT_TRUE(out.ok()) << c.what << out.status();
    EXPECT_EQ(out->shape, c.shape) << c.what << out->shape.ToString();
    EXPECT_EQ(out->strides, c.strides) << c.what << out->strides.ToString();
    EXPECT_EQ(out->dtype, a.dtype);
    if (c.offset >= 0) {
      EXPECT_EQ(out->offset, c.offset) << c.what;
    }
  }
}

TEST(BasicIndexTest, StartsFromTheViewItIsGiven) {
  ArraySpec a(Dtype::kFloat32, {3, 4}, 2);
  a.strides = {-32, 8};
  a.offset = 100;
  const ArraySpec out = *Apply(a, B().Int(1).Slice(kNone, kNone, -1).Build());
  EXPECT_EQ(out.offset, 100 - 32 + 24);
  EXPECT_EQ(out.strides, Strides{-8});
  EXPECT_EQ(out.device, 2);
}

TEST(BasicIndexTest, Errors) {
  const ArraySpec a(Dtype::kFloat32, {4, 5});
  const struct {
    AttrValue index;
    ErrorKind kind;
  } cases[] = {
      {B().Int(4).Build(), ErrorKind::kIndex},
      {B().Int(-5).Build(), ErrorKind::kIndex},
      {B().Int(INT64_MIN).Build(), ErrorKind::kIndex},
      {B().Int(0).Int(0).Int(0).Build(), ErrorKind::kIndex},
      {B().Ellipsis().Ellipsis().Build(), ErrorKind::kIndex},
      {B().Slice(kNone, kNone, 0).Build(), ErrorKind::kValue},
  };
  for (const auto& c : cases) EXPECT_EQ(KindOf(Apply(a, c.index).status()), c.kind);
  EXPECT_EQ(Apply(a, cases[0].index).status().message(),
            "[getitem] index 4 is out of range for axis 0 of shape (4, 5)");
  B many;
  for (int i = 0; i < 9; ++i) many.NewAxis();
  EXPECT_EQ(KindOf(Apply(a, many.Build()).status()), ErrorKind::kDimension);
  for (int i = 0; i < 1000; ++i) many.Int(0);
  EXPECT_FALSE(Apply(a, many.Build()).ok());
}

TEST(BasicIndexTest, BrokenEncodingsAreRefused) {
  const ArraySpec a(Dtype::kFloat32, {4, 5});
  const std::vector<Ints> broken = {
      {0},     {3, 1},        {3, 0, 0}, {-1},        {4, 0},      {5},          {6},
      {32, 0}, {35, 0, 0, 0}, {2, 0},    {INT64_MIN}, {INT64_MAX}, {1, 3, 0, 0},
  };
  for (const Ints& words : broken) {
    const absl::Status status = Apply(a, AttrValue::Index(words)).status();
    EXPECT_EQ(status.message(), "[getitem] expects an encoded index") << words[0];
  }
}

}  // namespace
}  // namespace chx
