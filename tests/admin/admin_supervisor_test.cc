// The admin process's life: with connections it is there, without it ends, and another one follows.
#include "server/admin/admin_supervisor.h"

#include <grpcpp/create_channel_posix.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "absl/functional/function_ref.h"
#include "tests/rpc/grpc_client.h"

namespace chx::server {
namespace {

constexpr char kServing[] = "SERVING";
constexpr char kNotServing[] = "NOT_SERVING";

class AdminSupervisorTest : public ::testing::Test {
 protected:
  AdminSupervisorTest() {
    AdminOptions options;
    options.program = std::getenv("HELPER");
    options.serve = [](int socket) { close(socket); };  // a daemon that has gone
    options.max_connections = 4;
    options.idle = std::chrono::milliseconds(100);
    supervisor_ = *AdminSupervisor::Start(std::move(options));
  }

  std::shared_ptr<grpc::Channel> Connect() {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    supervisor_->Adopt(pair[0]);
    return grpc::CreateInsecureChannelFromFd("admin", pair[1]);
  }
  static bool Soon(absl::FunctionRef<bool()> condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return condition();
  }

  std::unique_ptr<AdminSupervisor> supervisor_;
};

TEST_F(AdminSupervisorTest, IsThereWhileSomebodyIs) {
  EXPECT_EQ(supervisor_->pid(), 0);
  for (int i = 0; i < 2; ++i) {
    auto channel = Connect();
    EXPECT_EQ(HealthOf(channel), kServing);
    const pid_t pid = supervisor_->pid();
    EXPECT_NE(pid, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // longer than it may idle
    EXPECT_EQ(supervisor_->pid(), pid);
    EXPECT_EQ(HealthOf(channel), kServing);
    channel = nullptr;
    EXPECT_TRUE(Soon([this] { return supervisor_->pid() == 0; }));
    EXPECT_EQ(kill(pid, 0), -1);
  }
}

TEST_F(AdminSupervisorTest, ItsDeathCutsConnectionsAndTheNextOneIsServed) {
  const auto channel = Connect();
  EXPECT_EQ(HealthOf(channel), kServing);
  const pid_t first = supervisor_->pid();
  kill(first, SIGKILL);
  EXPECT_NE(HealthOf(channel), kServing);
  EXPECT_TRUE(Soon([&] { return supervisor_->pid() == 0; }));
  EXPECT_EQ(HealthOf(Connect()), kServing);
  EXPECT_NE(supervisor_->pid(), first);
}

TEST_F(AdminSupervisorTest, OneThatStandsStillDoesNotHoldUpTheEnd) {
  const auto channel = Connect();
  EXPECT_EQ(HealthOf(channel), kServing);
  kill(supervisor_->pid(), SIGSTOP);
  for (int i = 0; i < 500; ++i) {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    supervisor_->Adopt(pair[0]);
    close(pair[1]);
  }
  supervisor_ = nullptr;
}

TEST_F(AdminSupervisorTest, HealthIsTheDaemons) {
  const auto before = Connect();
  EXPECT_EQ(HealthOf(before), kServing);
  supervisor_->SetServing(false);
  EXPECT_TRUE(Soon([&] { return HealthOf(before) == kNotServing; })) << HealthOf(before);
  EXPECT_EQ(HealthOf(Connect()), kNotServing);
}

TEST_F(AdminSupervisorTest, EachDeviceIsAService) {
  supervisor_->SetDevices({{"cuda:0", true}, {"cuda:1", false}});
  const auto channel = Connect();
  EXPECT_EQ(HealthOf(channel), kServing);
  EXPECT_EQ(HealthOf(channel, "cuda:0"), kServing);
  EXPECT_EQ(HealthOf(channel, "cuda:1"), kNotServing);
  supervisor_->SetDevices({{"cuda:0", false}, {"cuda:1", false}});
  EXPECT_TRUE(Soon([&] { return HealthOf(channel, "cuda:0") == kNotServing; }));
  EXPECT_EQ(HealthOf(channel), kServing);
}

TEST_F(AdminSupervisorTest, TheOldestConnectionMakesRoom) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < 5; ++i) {
    channels.push_back(Connect());
    EXPECT_EQ(HealthOf(channels.back()), kServing);
  }
  EXPECT_TRUE(Soon([&] { return HealthOf(channels[0]) != kServing; }));
  for (int i = 1; i < 5; ++i) EXPECT_EQ(HealthOf(channels[i]), kServing) << i;
}

TEST_F(AdminSupervisorTest, WithoutADaemonCallsAreUnavailable) {
  std::string reply;
  const grpc::Status status =
      CallRaw(Connect(), "/chx.v1.AdminService/ListSessions", "", "", &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the daemon is gone");
}

}  // namespace
}  // namespace chx::server
