// Operators' calls, without a network.
#include "server/rpc/admin_queries.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "ops/registry.h"
#include "proto/command.h"
#include "server/native/native_backend.h"
#include "server/rpc/version.h"
#include "server/trace/tracer.h"

namespace chx::server {
namespace {

class AdminTest : public ::testing::Test {
 protected:
  AdminTest() : backend_(CreateNativeBackend({})) {
    EXPECT_TRUE(devices_.Open("native:0", {backend_.get()}).ok());
    ManagerOptions options;
    options.session.tracer = &tracer_;
    options.budget = &budget_;
    manager_ = std::make_unique<SessionManager>(&devices_, options);
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

  absl::StatusCode Limit(uint64_t number, uint64_t bytes) {
    v1::LimitSessionRequest request;
    request.set_number(number);
    request.set_memory_bytes(bytes);
    return LimitSession(manager_.get(), *DefaultTenant(), request).code();
  }
  absl::StatusCode Trace(uint64_t session, double seconds) {
    v1::StartTraceRequest request;
    request.set_session(session);
    request.set_seconds(seconds);
    return StartTrace(manager_.get(), request).code();
  }
  // full: an array of `elements` float32.
  static std::vector<Command> Full(Handle result, int64_t elements) {
    const OpDef& op = *OpRegistry::Global().Find("full");
    command::ApplyOp full;
    full.op = static_cast<uint16_t>(op.id + 1);
    full.results.push_back(result);
    for (const AttrDef& attr : op.attrs) full.attrs.push_back(attr.default_value);
    full.attrs[0] = Ints{elements};
    full.attrs[1] = Scalar(1.0);
    return {Command(full)};
  }

  MemoryBudget budget_{int64_t{1} << 30};
  Tracer tracer_{&budget_};
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

TEST_F(AdminTest, ALimitHoldsForWhatComesLater) {
  const SessionRecordPtr record = *manager_->Open({"a"});
  SessionOutput output;
  record->session->Execute(Full(1, 1 << 18), &output);
  EXPECT_TRUE(output.errors.empty());
  ASSERT_EQ(Limit(record->number, 1 << 20), absl::StatusCode::kOk);
  EXPECT_EQ(Sessions().sessions(0).memory_limit_bytes(), uint64_t{1} << 20);
  record->session->Execute(Full(2, 1 << 19), &output);
  EXPECT_EQ(output.errors.size(), 1u);
  output.Clear();
  ASSERT_EQ(Limit(record->number, 64 << 20), absl::StatusCode::kOk);
  record->session->Execute(Full(3, 1 << 19), &output);
  EXPECT_TRUE(output.errors.empty());
  EXPECT_EQ(Limit(record->number, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Limit(record->number, (uint64_t{1} << 30) + 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Limit(record->number, UINT64_MAX), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Limit(record->number + 1, 1 << 20), absl::StatusCode::kNotFound);
}

TEST_F(AdminTest, ListingsSayWhatSessionsDo) {
  SessionOwner owner;
  owner.client_name = "worker";
  owner.peer = "uid 7";
  const SessionRecordPtr record = *manager_->Open(std::move(owner));
  v1::SessionInfo before = Sessions().sessions(0);
  EXPECT_FALSE(before.busy());
  EXPECT_EQ(before.last_operator(), "");
  EXPECT_EQ(before.usage().compute_seconds(), 0);
  std::thread work([&record] {
    SessionOutput output;
    record->session->Execute(EndlessWork(), &output, 1);
  });
  while (record->session->stats().commands < 2) std::this_thread::yield();
  while (Sessions().sessions(0).last_operator() != "sum") std::this_thread::yield();
  const v1::SessionInfo busy = Sessions().sessions(0);
  EXPECT_TRUE(busy.busy());
  EXPECT_EQ(busy.idle_seconds(), 0);
  EXPECT_GT(busy.usage().compute_seconds(), 0);
  EXPECT_EQ(busy.tenant(), "default");
  EXPECT_EQ(busy.peer(), "uid 7");
  EXPECT_GT(busy.usage().host_array_bytes() + busy.usage().record_bytes(), 0u);
  v1::ListTenantsReply tenants;
  ListTenants(manager_.get(), *DefaultTenant(), {DefaultTenant()}, &tenants);
  ASSERT_EQ(tenants.tenants_size(), 1);
  EXPECT_EQ(tenants.tenants(0).sessions(), 1u);
  EXPECT_EQ(tenants.tenants(0).priority(), "normal");
  EXPECT_EQ(Kill(record->number), absl::StatusCode::kOk);
  work.join();
  v1::DescribeDaemonReply daemon;
  DescribeDaemon(manager_.get(), &daemon);
  EXPECT_EQ(daemon.sessions(), 0u);
  EXPECT_EQ(daemon.memory_limit_bytes(), uint64_t{1} << 30);
}

TEST_F(AdminTest, ATraceHasTheCommandsOfTheWindow) {
  const SessionRecordPtr record = *manager_->Open({"traced"});
  EXPECT_EQ(Trace(99, 1), absl::StatusCode::kNotFound);
  for (const double seconds : {0.0, -1.0, 61.0, 1e300, std::nan("")}) {
    EXPECT_EQ(Trace(0, seconds), absl::StatusCode::kInvalidArgument) << seconds;
  }
  SessionOutput output;
  record->session->Execute(Full(1, 10), &output, 4);
  ASSERT_EQ(Trace(record->number, 60), absl::StatusCode::kOk);
  record->session->Execute(Full(2, 10), &output, 5);
  v1::ReadTraceReply reply;
  ASSERT_TRUE(ReadTrace(manager_.get(), &reply).ok());
  EXPECT_FALSE(reply.more());
  ASSERT_EQ(reply.sessions_size(), 1);
  const v1::TracedSession& session = reply.sessions(0);
  EXPECT_EQ(session.number(), record->number);
  EXPECT_EQ(session.client_name(), "traced");
  EXPECT_EQ(session.tenant(), "default");
  EXPECT_EQ(reply.version(), kVersion);
  EXPECT_FALSE(reply.host().empty());
  EXPECT_EQ(reply.epoch(), manager_->epoch());
  bool command = false;
  bool batch = false;
  for (const v1::TracedSpan& span : session.spans()) {
    EXPECT_EQ(span.batch(), 5u);
    if (span.kind() == v1::TRACED_BATCH) batch = true;
    if (span.kind() != v1::TRACED_COMMAND) continue;
    command = true;
    EXPECT_EQ(session.names(static_cast<int>(span.name())), "full");
    EXPECT_EQ(span.device(), 1u);
  }
  EXPECT_TRUE(command);
  EXPECT_TRUE(batch);
  EXPECT_EQ(ReadTrace(manager_.get(), &reply).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace chx::server
