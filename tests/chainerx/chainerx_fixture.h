// A daemon in the test's process, and ChainerX's C++ API on it.
#ifndef CHX_TESTS_CHAINERX_CHAINERX_FIXTURE_H_
#define CHX_TESTS_CHAINERX_CHAINERX_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chx/chainerx.h"
#include "tests/rpc/daemon_fixture.h"

namespace chainerx {

template <typename T>
Array Build(const Shape& shape, const std::vector<T>& values) {
  const std::shared_ptr<T> data(new T[values.size() + 1], std::default_delete<T[]>());
  std::copy(values.begin(), values.end(), data.get());
  return FromContiguousHostData(shape, TypeToDtype<T>, data);
}
inline Array Floats(const Shape& shape, const std::vector<float>& values) {
  return Build(shape, values);
}
inline Array Doubles(const Shape& shape, const std::vector<double>& values) {
  return Build(shape, values);
}
// first, first + step, ... in float64.
inline Array Ramp(const Shape& shape, double first, double step) {
  std::vector<double> values(static_cast<size_t>(shape.GetTotalSize()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<double>(i);
  return Doubles(shape, values);
}

inline std::vector<double> Values(const Array& array) {
  return ToVector<double>(array.AsGradStopped().AsType(Dtype::kFloat64));
}

inline void ExpectArray(const Array& array, const Shape& shape, const std::vector<double>& expected,
                        double tolerance = 1e-6) {
  ASSERT_EQ(array.shape(), shape);
  const std::vector<double> values = Values(array);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << i;
    } else {
      EXPECT_NEAR(values[i], expected[i], tolerance) << "element " << i;
    }
  }
}

// native:0 and native:1.
class ChainerxTest : public chx::server::DaemonTest {
 protected:
  void SetUp() override {
    options.devices = "native:0,native:1";
    StartOnUnixSocket();
    context_.emplace(UnixAddress());
    SetDefaultContext(&*context_);
  }
  void TearDown() override {
    SetDefaultContext(nullptr);
    context_.reset();
  }

  std::optional<Context> context_;
};

}  // namespace chainerx

#endif  // CHX_TESTS_CHAINERX_CHAINERX_FIXTURE_H_
