// Schedules against their formulas. Python's are tested against NumPy, Chainer and these numbers.
#include "client/schedules.h"

#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"

namespace chx {
namespace schedules {
namespace {

using testing::HasSubstr;

constexpr int64_t kSteps = 60;

class SchedulesTest : public testing::Test {
 protected:
  SchedulesTest() {
    const unsigned seed = std::random_device()();
    RecordProperty("seed", std::to_string(seed));
    random_.seed(seed);
  }
  double Between(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  static void Expect(const Schedule& schedule, const std::function<double(double)>& formula) {
    for (int64_t step = 0; step < kSteps; ++step) {
      const absl::StatusOr<double> value = schedule(step);
      ASSERT_TRUE(value.ok()) << value.status();
      const double want = formula(static_cast<double>(step));
      EXPECT_NEAR(*value, want, 1e-12 * std::abs(want) + 1e-300) << "step " << step;
    }
  }
  std::mt19937 random_;
};

TEST_F(SchedulesTest, AreTheirFormulas) {
  const double v = Between(0.1, 2);
  const double w = Between(0.1, 2);
  const double rate = Between(0.5, 0.99);
  const double power = Between(0.5, 3);
  const auto steps = static_cast<int64_t>(Between(1, 30));
  const auto k = static_cast<double>(steps);
  const auto part = [k](double n) { return std::min(n / k, 1.0); };
  Expect(Constant(v), [&](double) { return v; });
  Expect(Step(v, steps, rate), [&](double n) { return v * std::pow(rate, std::floor(n / k)); });
  Expect(MultiStep(v, {40, 7, 23}, rate), [&](double n) {
    return v * (n < 7 ? 1 : n < 23 ? rate : n < 40 ? rate * rate : rate * rate * rate);
  });
  Expect(Exponential(v, rate), [&](double n) { return v * std::pow(rate, n); });
  Expect(Inverse(v, rate, power), [&](double n) { return v / std::pow(1 + rate * n, power); });
  Expect(Linear(v, w, steps, 9), [&](double n) {
    return n <= 9 ? v : n >= 9 + k ? w : v * (9 + k - n) / k + w * (n - 9) / k;
  });
  Expect(Polynomial(v, 61, power), [&](double n) { return v * std::pow((61 - n) / 61, power); });
  Expect(Cosine(v, steps, w), [&](double n) {
    const double half = std::cos(part(n) * std::acos(-1.0) / 2);  // (1 + cos 2a) / 2 = cos(a)^2
    return w + (v - w) * half * half;
  });
  Expect(WarmUp(steps, Exponential(v, rate), w), [&](double n) {
    return n < k ? w * (1 - part(n)) + v * part(n) : v * std::pow(rate, n - k);
  });
}

TEST_F(SchedulesTest, OneCycleGoesUpAndDown) {
  const double v = Between(0.1, 2);
  for (const bool linear : {true, false}) {
    OneCycleOptions options;
    options.up = 0.25;
    options.linear = linear;
    const Schedule schedule = OneCycle(v, kSteps, options);
    EXPECT_DOUBLE_EQ(*schedule(0), v / 25);
    EXPECT_NEAR(*schedule(7), (v / 25 + v) / 2, 1e-12);  // half way, in both forms
    EXPECT_DOUBLE_EQ(*schedule(14), v);                  // 0.25 * 60 - 1
    EXPECT_NEAR(*schedule(59), v / 25e4, 1e-12);
    EXPECT_EQ(*schedule(1000), *schedule(59));
    options.three_phase = true;
    const Schedule mirrored = OneCycle(v, kSteps, options);
    for (int64_t step = 0; step < 15; ++step) {
      EXPECT_NEAR(*mirrored(step), *mirrored(28 - step), 1e-12);
    }
  }
}

TEST_F(SchedulesTest, StopAtTheirTargets) {
  for (const double sign : {1.0, -1.0}) {
    const double v = 2 * sign;
    const double low = 0.5 * sign;
    const double high = 7 * sign;
    Expect(Exponential(v, 0.9, low),
           [&](double n) { return sign * std::max(2 * std::pow(0.9, n), 0.5); });
    Expect(Exponential(v, 1.1, high),
           [&](double n) { return sign * std::min(2 * std::pow(1.1, n), 7.0); });
    EXPECT_EQ(*Step(v, 3, 1.1, high)(59), high);
    EXPECT_EQ(*Inverse(v, 0.1, 2, low)(59), low);
    EXPECT_EQ(*Inverse(v, 0.1, -2, high)(59), high);
    EXPECT_EQ(*Polynomial(v, 50, 2, low)(59), low);
  }
  EXPECT_EQ(*Polynomial(2, 50)(59), 0);
  EXPECT_EQ(*Cosine(0.3, 7, 0.1)(7), 0.1);
  EXPECT_EQ(*Linear(0.3, 0.1, 7)(7), 0.1);
}

TEST_F(SchedulesTest, SaySoWhereArgumentsDoNotFit) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Schedule& schedule :
       {Step(1, 0, 0.5), Exponential(1, -1), Exponential(1, nan), Inverse(1, -1, 2),
        Linear(1, 2, 0), Polynomial(1, 0), Polynomial(1, 1, -1), Cosine(1, -3), OneCycle(1, 0),
        OneCycle(1, 9, {1.5}), OneCycle(1, 9, {nan}), WarmUp(0, Constant(1)),
        WarmUp(5, Cosine(1, 0))}) {
    const absl::Status status = schedule(0).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr("] expects"));
  }
}

TEST_F(SchedulesTest, SetsNumbers) {
  double rate = 0;
  double momentum = 0;
  const auto set = Set({{&rate, Step(1, 2, 0.5)}, {&momentum, [](int64_t n) { return 0.1 * n; }}});
  ASSERT_TRUE(set(3).ok());
  EXPECT_EQ(rate, 0.5);
  EXPECT_EQ(momentum, 0.1 * 3);
  EXPECT_FALSE(Set({{&rate, Cosine(1, 0)}})(0).ok());
  EXPECT_EQ(rate, 0.5);
}

}  // namespace
}  // namespace schedules
}  // namespace chx
