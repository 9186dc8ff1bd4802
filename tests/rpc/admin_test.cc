// Operators' calls, without a network.
#include "server/rpc/admin_queries.h"

#include <gtest/gtest.h>

#include <chrono>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "ops/registry.h"
#include "proto/command.h"
#include "server/native/native_backend.h"

namespace chx::server {
namespace {

class AdminTest : public ::testing::Test {
 protected:
  AdminTest() : backend_(CreateNativeBackend({})) {
    EXPECT_TRUE(devices_.Open("native:0", {backend_.get()}).ok());
    manager_ = std::make_unique<SessionManager>(&devices_, ManagerOptions());
  }

  v1::ListSessionsReply Sessions() {
    v1::ListSessionsReply reply;
    ListSessions(manager_.get(), *DefaultTenant(), &reply);
    return reply;
  }
  absl::StatusCode Kill(uint64_t number) {
    v1::KillSessionRequest request;
    request.set_number(number);
    return KillSession(manager_.get(), *DefaultTenant(), request).code();
  }

  // full, broadcast_to 2^50, sum.
  static std::vector<Command> EndlessWork() {
    command::ApplyOp commands[3];
    const char* const ops[] = {"full", "broadcast_to", "sum"};
    for (Handle i = 0; i < 3; ++i) {
      const OpDef& op = *OpRegistry::Global().Find(ops[i]);
      commands[i].op = static_cast<uint16_t>(op.id + 1);
      if (i > 0) commands[i].inputs.emplace_back(i);
      commands[i].results.push_back(i + 1);
      for (const AttrDef& attr : op.attrs) commands[i].attrs.push_back(attr.default_value);
    }
    commands[0].attrs[0] = Ints{};
    commands[0].attrs[1] = Scalar(1);
    commands[1].attrs[0] = Ints{int64_t{1} << 50};
    return std::vector<Command>(std::begin(commands), std::end(commands));
  }

  std::unique_ptr<Backend> backend_;
  Devices devices_;
  std::unique_ptr<SessionManager> manager_;
};

TEST_F(AdminTest, KillsABusySessionByTheNumberInTheList) {
  const SessionRecordPtr idle = *manager_->Open({"idle"});
  const SessionRecordPtr busy = *manager_->Open({"busy"});
  std::thread work([&busy] {
    SessionOutput output;
    busy->session->Execute(EndlessWork(), &output, 1);
  });
  while (busy->session->stats().commands < 2) std::this_thread::yield();
  const v1::ListSessionsReply before = Sessions();
  ASSERT_EQ(before.sessions_size(), 2);
  for (const v1::SessionInfo& session : before.sessions()) {
    if (session.client_name() != "busy") continue;
    EXPECT_EQ(session.commands(), 2u);
    EXPECT_EQ(Kill(session.number()), absl::StatusCode::kOk);
    EXPECT_EQ(Kill(session.number()), absl::StatusCode::kNotFound);
  }
  work.join();  // it would take days
  const v1::ListSessionsReply after = Sessions();
  ASSERT_EQ(after.sessions_size(), 1);
  EXPECT_EQ(after.sessions(0).client_name(), "idle");
  EXPECT_EQ(after.sessions(0).number(), idle->number);
}

}  // namespace
}  // namespace chx::server
