// The client and the daemon in one program: chx::Session and chx::server::Session.
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "client/ops.h"
#include "client/session.h"
#include "server/session/session.h"
#include "tests/rpc/daemon_fixture.h"

namespace chx {
namespace {

static_assert(!std::is_same_v<Session, server::Session> && !std::is_same_v<Array, server::Array>);

class InProcessTest : public server::DaemonTest {};

TEST_F(InProcessTest, ClientComputesGradients) {
  StartOnUnixSocket();
  const auto session = Session::Connect(UnixAddress());
  ASSERT_TRUE(session.ok()) << session.status();
  const std::vector<float> values = {0, 1, 2, 3};
  Array x = Array::FromHost(**session, values.data(), {4}, Dtype::kFloat32);
  x.RequireGrad();
  const Array y = sum(x * x);
  ASSERT_TRUE(Backward(y).ok());
  EXPECT_EQ(*y.Item(), 14.0);
  std::vector<float> gradient(4);
  ASSERT_TRUE(x.Grad().CopyTo(gradient.data(), gradient.size() * sizeof(float)).ok());
  EXPECT_EQ(gradient, (std::vector<float>{0, 2, 4, 6}));
}

}  // namespace
}  // namespace chx
