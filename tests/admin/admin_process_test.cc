// gRPC for operators: what it answers, and that its process may come, die and go.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/admin.grpc.pb.h"
#include "server/log/log.h"
#include "server/tenancy/token_hash.h"
#include "tests/rpc/daemon_fixture.h"
#include "tests/rpc/grpc_client.h"

namespace chx::server {
namespace {

constexpr char kToken[] = "correct horse battery staple";
constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// Reads what the log says while it exists.
class LogPipe {
 public:
  LogPipe() {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    LogOptions options;
    options.fd = ends_[1];
    ConfigureLog(options);
  }
  ~LogPipe() {
    ConfigureLog({});
    close(ends_[0]);
    close(ends_[1]);
  }
  LogPipe(const LogPipe&) = delete;

  std::vector<std::string> LinesWith(absl::string_view text) const {
    std::string read_so_far;
    char buffer[4096];
    for (ssize_t size; (size = read(ends_[0], buffer, sizeof(buffer))) > 0;) {
      read_so_far.append(buffer, static_cast<size_t>(size));
    }
    std::vector<std::string> lines = absl::StrSplit(read_so_far, '\n');
    lines.erase(
        std::remove_if(lines.begin(), lines.end(),
                       [text](const std::string& line) { return !absl::StrContains(line, text); }),
        lines.end());
    return lines;
  }

 private:
  int ends_[2] = {-1, -1};
};

class AdminProcessTest : public DaemonTest {
 protected:
  std::string Health() const { return HealthOf(ChannelTo(address())); }
};

TEST_F(AdminProcessTest, EveryMethodOfGrpcAsksForTheToken) {
  options.credentials.token = kToken;
  StartOnUnixSocket();
  const auto channel = ChannelTo(address());
  std::vector<std::string> methods = {kReflection};
  const char* const names[] = {"ListDevices", "ListSessions", "KillSession", "DescribeDaemon",
                               "ListTenants", "LimitSession", "Snapshot",    "StartTrace",
                               "ReadTrace",   "ListAllRuns",  "OrderRun",    "Drain"};
  for (const char* name : names) methods.push_back(absl::StrCat("/chx.v1.AdminService/", name));
  for (const std::string& method : methods) {
    SCOPED_TRACE(method);
    std::string reply;
    const auto code = [&](const std::string& token) {
      return CallRaw(channel, method, token, "", &reply).error_code();
    };
    EXPECT_EQ(code(""), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(code("correct horse battery stapl3"), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(reply, "");
    const grpc::StatusCode right = code(kToken);
    EXPECT_NE(right, grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_NE(right, grpc::StatusCode::UNAVAILABLE);
    EXPECT_NE(right, grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  // Drain was the last of them.
  for (int i = 0; i < 1000 && HealthOf(channel) == "SERVING"; ++i) usleep(10000);
  EXPECT_EQ(HealthOf(channel), "NOT_SERVING");
}

TEST_F(AdminProcessTest, CallsOfGrpcAreAnsweredAsFramesAre) {
  StartOnUnixSocket();
  const RpcClient client = Opened();
  const auto channel = ChannelTo(address());
  std::string bytes;
  ASSERT_TRUE(CallRaw(channel, "/chx.v1.AdminService/DescribeDaemon", "", "", &bytes).ok());
  v1::DescribeDaemonReply daemon;
  ASSERT_TRUE(daemon.ParseFromString(bytes));
  EXPECT_EQ(daemon.sessions(), 1u);
  EXPECT_FALSE(daemon.draining());
  v1::LimitSessionRequest limit;
  limit.set_number(client.opened.session_number());
  limit.set_memory_bytes(1 << 20);
  const std::string method = "/chx.v1.AdminService/LimitSession";
  EXPECT_TRUE(CallRaw(channel, method, "", limit.SerializeAsString(), &bytes).ok());
  EXPECT_EQ(Sessions().sessions(0).memory_limit_bytes(), uint64_t{1} << 20);
  limit.set_number(99);
  EXPECT_EQ(CallRaw(channel, method, "", limit.SerializeAsString(), &bytes).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(AdminProcessTest, EachTenantSeesItsOwnSessionsByGrpcToo) {
  for (const char* name : {"vision", "speech", "operators"}) {
    Tenant tenant;
    tenant.name = name;
    tenant.tokens = {{HashToken(absl::StrCat("the token of ", name)), absl::InfiniteFuture()}};
    tenant.admin = tenant.name == "operators";
    options.credentials.tenants.push_back(tenant);
  }
  StartOnUnixSocket();
  RpcClient vision(address(), "the token of vision");
  ASSERT_TRUE(vision.Open().ok());
  const auto channel = ChannelTo(address());
  const auto listed = [&](const std::string& token) {
    std::string reply;
    const grpc::Status status =
        CallRaw(channel, "/chx.v1.AdminService/ListSessions", token, "", &reply);
    v1::ListSessionsReply sessions;
    EXPECT_TRUE(sessions.ParseFromString(reply));
    return status.ok() ? sessions.sessions_size() : -1;
  };
  EXPECT_EQ(listed("the token of vision"), 1);
  EXPECT_EQ(listed("the token of speech"), 0);
  EXPECT_EQ(listed("the token of operators"), 1);
  EXPECT_EQ(listed("the token of nobody"), -1);
  EXPECT_EQ(listed(""), -1);  // a user's id is none here
  std::string reply;
  EXPECT_EQ(CallRaw(channel, kReflection, "", "", &reply).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AdminProcessTest, SnapshotsAreRefusedOverGrpcAsOverFrames) {
  for (const char* name : {"vision", "brief", "operators"}) {
    Tenant tenant;
    tenant.name = name;
    tenant.tokens = {{HashToken(absl::StrCat("the token of ", name)), absl::InfiniteFuture()}};
    tenant.admin = tenant.name == "operators";
    if (tenant.name == "brief") tenant.features.erase(Feature::kSnapshots);
    options.credentials.tenants.push_back(tenant);
  }
  options.state_dir = std::string(::testing::TempDir()) + "/state";
  LogPipe log;
  StartOnUnixSocket();
  RpcClient vision(address(), "the token of vision");
  RpcClient brief(address(), "the token of brief");
  ASSERT_TRUE(vision.Open().ok());
  ASSERT_TRUE(brief.Open().ok());
  v1::SnapshotReply written;
  const auto code = [&](const std::string& tenant, uint64_t number) {
    v1::SnapshotRequest request;
    request.set_number(number);
    std::string reply;
    const grpc::Status status =
        CallRaw(ChannelTo(address()), "/chx.v1.AdminService/Snapshot",
                absl::StrCat("the token of ", tenant), request.SerializeAsString(), &reply);
    EXPECT_TRUE(written.ParseFromString(reply));
    return status.error_code();
  };
  EXPECT_EQ(code("operators", 0), grpc::StatusCode::OK);
  EXPECT_EQ(written.sessions(), 1u);  // brief's tenant has not got the feature
  EXPECT_EQ(written.failed(), 0u);
  EXPECT_GT(written.bytes(), 0u);
  EXPECT_EQ(code("operators", vision.opened.session_number()), grpc::StatusCode::OK);
  EXPECT_EQ(written.sessions(), 1u);
  EXPECT_EQ(code("operators", brief.opened.session_number()), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(code("operators", 99), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(code("vision", 0), grpc::StatusCode::PERMISSION_DENIED);
  const std::vector<std::string> audited = log.LinesWith("administrator action=snapshot");
  ASSERT_EQ(audited.size(), 5u);
  for (const std::string& line : audited) EXPECT_TRUE(absl::StrContains(line, "peer=gRPC")) << line;
  EXPECT_TRUE(absl::StrContains(audited[1], "outcome=done")) << audited[1];
  EXPECT_TRUE(absl::StrContains(audited[2], "snapshots")) << audited[2];
  EXPECT_TRUE(absl::StrContains(audited[4], "admin: true")) << audited[4];
  daemon_ = nullptr;  // it writes the log to its end
}

TEST_F(AdminProcessTest, SnapshotsNeedAStateFolder) {
  StartOnUnixSocket();
  v1::SnapshotReply reply;
  grpc::ClientContext context;
  const auto admin = v1::AdminService::NewStub(ChannelTo(address()));
  const grpc::Status status = admin->Snapshot(&context, {}, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), "[snapshot] expects a daemon with --state-dir");
}

// It ends with the former token, and its connections: the next process asks for the new one.
TEST_F(AdminProcessTest, AnotherTokenIsAskedForAfterAChange) {
  options.credentials.token = kToken;
  StartOnUnixSocket();
  const std::string method = "/chx.v1.AdminService/ListSessions";
  const auto code = [&](const std::string& token) {
    std::string reply;
    return CallRaw(ChannelTo(address()), method, token, "", &reply).error_code();
  };
  EXPECT_EQ(code(kToken), grpc::StatusCode::OK);
  Credentials changed = options.credentials;
  changed.token = "the token from now on";
  ASSERT_TRUE(daemon_->SetCredentials(changed).ok());
  for (int i = 0; i < 1000 && code(changed.token) != grpc::StatusCode::OK; ++i) usleep(10000);
  EXPECT_EQ(code(changed.token), grpc::StatusCode::OK);
  EXPECT_EQ(code(kToken), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AdminProcessTest, ReflectionKnowsTheServicesAndAdminServiceAnswers) {
  StartOnUnixSocket();
  const auto channel = ChannelTo(address());
  std::string services;  // ServerReflectionRequest{list_services (7): ""}
  EXPECT_TRUE(CallRaw(channel, kReflection, "", std::string("\x3a\x00", 2), &services).ok());
  for (const char* name : {"chx.v1.AdminService", "grpc.health.v1.Health"}) {
    EXPECT_NE(services.find(name), std::string::npos) << name;
  }
  std::string file;  // {file_containing_symbol (4)}
  EXPECT_TRUE(CallRaw(channel, kReflection, "",
                      "\x22\x13"
                      "chx.v1.AdminService",
                      &file)
                  .ok());
  EXPECT_NE(file.find("proto/admin.proto"), std::string::npos) << file;
  const RpcClient client = Opened();
  const auto admin = v1::AdminService::NewStub(channel);
  v1::ListSessionsReply sessions;
  grpc::ClientContext list;
  ASSERT_TRUE(admin->ListSessions(&list, {}, &sessions).ok());
  ASSERT_EQ(sessions.sessions_size(), 1);
  v1::KillSessionRequest request;
  request.set_number(sessions.sessions(0).number());
  v1::KillSessionReply reply;
  grpc::ClientContext kill;
  EXPECT_TRUE(admin->KillSession(&kill, request, &reply).ok());
  EXPECT_EQ(Sessions().sessions_size(), 0);
}

TEST_F(AdminProcessTest, ListsAsManySessionsAsThereAre) {
  options.max_sessions = options.max_sessions_per_peer = 2000;
  StartOnUnixSocket();
  std::vector<RpcClient> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.emplace_back(address());
    ASSERT_TRUE(clients.back().Open().ok());
  }
  v1::ListSessionsReply sessions;
  grpc::ClientContext context;
  const auto admin = v1::AdminService::NewStub(ChannelTo(address()));
  ASSERT_TRUE(admin->ListSessions(&context, {}, &sessions).ok());
  EXPECT_EQ(sessions.sessions_size(), 1000);
}

}  // namespace
}  // namespace chx::server
