// A session with a daemon in the test's process, and arrays of float64.
#ifndef CHX_TESTS_CLIENT_CLIENT_FIXTURE_H_
#define CHX_TESTS_CLIENT_CLIENT_FIXTURE_H_

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "client/ops.h"
#include "client/session.h"
#include "tests/rpc/daemon_fixture.h"

namespace chx {

class ClientTest : public server::DaemonTest {
 protected:
  using Vector = std::vector<double>;

  void SetUp() override {
    StartOnUnixSocket();
    absl::StatusOr<Ref<Session>> session = Session::Connect(UnixAddress());
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  Array Make(const Vector& values) const {
    return Make(values, {static_cast<int64_t>(values.size())});
  }
  Array Make(const Vector& values, const Shape& shape) const {
    return Array::FromHost(*session_, values.data(), shape, Dtype::kFloat64);
  }
  Array MakeParam(const Vector& values) const { return Make(values).RequireGrad(); }

  static Vector Values(const Array& array) {
    EXPECT_TRUE(array.ok()) << array.status();
    if (!array.ok()) return {};
    Vector values(static_cast<size_t>(array.spec().size()));
    const absl::Status read = array.CopyTo(values.data(), values.size() * sizeof(double));
    EXPECT_TRUE(read.ok()) << read;
    return values;
  }
  static void ExpectNear(const Vector& got, const Vector& want, double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
  }

  Ref<Session> session_;
};

#define ASSERT_OK(expression)                     \
  do {                                            \
    const absl::Status& asserted_ = (expression); \
    ASSERT_TRUE(asserted_.ok()) << asserted_;     \
  } while (false)

}  // namespace chx

#endif  // CHX_TESTS_CLIENT_CLIENT_FIXTURE_H_
