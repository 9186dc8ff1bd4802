#include "client/dropout.h"

#include <cmath>

#include "absl/strings/match.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

using absl::StrContains;

class DropoutTest : public ClientTest {};

TEST_F(DropoutTest, KeepsAShareAndScalesIt) {
  session_->Seed(1);
  constexpr size_t kSize = 40000;
  for (const double p : {0.1, 0.5, 0.9}) {
    Array x = Make(Vector(kSize, 3)).RequireGrad();
    const Array y = dropout(x, p);
    const Vector values = Values(y);
    size_t kept = 0;
    for (const double value : values) {
      if (value == 0) continue;
      ++kept;
      ASSERT_DOUBLE_EQ(value, 3 / (1 - p));
    }
    const double expected = (1 - p) * kSize;
    EXPECT_NEAR(static_cast<double>(kept), expected, 6 * std::sqrt(expected * p));
    // Where it is kept, and of the same scale.
    ASSERT_OK(Backward(sum(y)));
    ExpectNear(Values(x.Grad()), Values(y / 3), 1e-12);
  }
}

TEST_F(DropoutTest, FollowsTheSeed) {
  const Array x = Make(Vector(100, 1));
  session_->Seed(7);
  const Vector first = Values(dropout(x));
  const Vector second = Values(dropout(x));
  EXPECT_NE(first, second);
  session_->Seed(7);
  EXPECT_EQ(Values(dropout(x)), first);
}

TEST_F(DropoutTest, AllOrNothing) {
  const Array x = Make({1, 2});
  EXPECT_EQ(Values(dropout(x, 0)), Vector({1, 2}));
  EXPECT_EQ(Values(dropout(x, 1)), Vector({0, 0}));
  EXPECT_EQ(dropout(x[IndexBuilder().Slice(0, 0, 1)]).shape(), Shape({0}));
}

TEST_F(DropoutTest, WhatItRefuses) {
  const Array x = Make({1, 2});
  for (const double p : {-0.1, 1.5, std::nan("")}) {
    EXPECT_TRUE(StrContains(dropout(x, p).status().message(), "expects p in [0, 1]"));
  }
  const int64_t number = 1;
  const Array integers = Array::FromHost(*session_, &number, {}, Dtype::kInt64);
  EXPECT_TRUE(StrContains(dropout(integers).status().message(), "expects floats, got int64"));
  EXPECT_FALSE(dropout(Array()).ok());
}

}  // namespace
}  // namespace chx
