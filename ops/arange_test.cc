#include "ops/arange.h"

#include <cmath>

#include "gtest/gtest.h"

namespace chx {
namespace {

absl::StatusOr<Arange> Parse(Scalar start, AttrValue stop = {}, AttrValue step = {},
                             AttrValue dtype = {}) {
  const AttrValue attrs[] = {AttrValue(start), stop, step, dtype};
  return ParseArange(attrs);
}

int64_t Size(Scalar start, Scalar stop, Scalar step) {
  return Parse(start, AttrValue(stop), AttrValue(step))->size;
}

TEST(ArangeTest, Sizes) {
  EXPECT_EQ(Parse(Scalar(5))->size, 5);
  EXPECT_EQ(Parse(Scalar(5))->start.AsInt(), 0);
  EXPECT_EQ(Parse(Scalar(-5))->size, 0);
  EXPECT_EQ(Parse(Scalar(2.5))->size, 3);
  EXPECT_EQ(Parse(Scalar(true))->size, 1);
  EXPECT_EQ(Size(1, 10, 3), 3);
  EXPECT_EQ(Size(10, 1, -3), 3);
  EXPECT_EQ(Size(10, 1, 3), 0);
  EXPECT_EQ(Size(0, 1, 0.25), 4);
  EXPECT_EQ(Size(INT64_MAX - 3000, INT64_MAX, 1), 3000);
  EXPECT_EQ(Size(INT64_MIN, INT64_MAX, INT64_MAX), 3);
  EXPECT_EQ(Size(0, -1, INT64_MIN), 1);
}

TEST(ArangeTest, Dtypes) {
  EXPECT_EQ(Parse(Scalar(5))->dtype, Dtype::kInt32);
  EXPECT_EQ(Parse(Scalar(true))->dtype, Dtype::kInt32);
  EXPECT_EQ(Parse(Scalar(5), AttrValue(Scalar(6.0)))->dtype, Dtype::kFloat32);
  EXPECT_EQ(Parse(Scalar(5), {}, {}, AttrValue(Dtype::kInt8))->dtype, Dtype::kInt8);
  EXPECT_EQ(Parse(Scalar(2), {}, {}, AttrValue(Dtype::kBool))->size, 2);
  EXPECT_EQ(KindOf(Parse(Scalar(3), {}, {}, AttrValue(Dtype::kBool)).status()), ErrorKind::kDtype);
}

// NumPy casts the first two elements and goes on from there.
TEST(ArangeTest, IntegersFromFractions) {
  const auto parse = [](double start, double stop, double step) {
    return *Parse(Scalar(start), AttrValue(Scalar(stop)), AttrValue(Scalar(step)),
                  AttrValue(Dtype::kInt64));
  };
  const Arange rounded = parse(0.5, 3, 0.75);
  EXPECT_EQ(rounded.size, 4);
  EXPECT_EQ(rounded.start.AsInt(), 0);
  EXPECT_EQ(rounded.step.AsInt(), 1);
  EXPECT_EQ(parse(-1.5, 2, 0.25).step.AsInt(), 0);
  EXPECT_EQ(parse(1e300, 1e301, 5e300).start.AsInt(), INT64_MAX);
}

TEST(ArangeTest, Refused) {
  for (const Scalar& step : {Scalar(0), Scalar(0.0), Scalar(false), Scalar(std::nan(""))}) {
    EXPECT_EQ(KindOf(Parse(Scalar(0), AttrValue(Scalar(5)), AttrValue(step)).status()),
              ErrorKind::kChainerx);
  }
  for (const Scalar& stop :
       {Scalar(std::nan("")), Scalar(INFINITY), Scalar(1e300), Scalar(INT64_MAX)}) {
    EXPECT_EQ(KindOf(Parse(stop).status()), ErrorKind::kValue) << stop.ToString();
  }
}

}  // namespace
}  // namespace chx
