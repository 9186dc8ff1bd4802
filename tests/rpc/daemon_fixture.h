// A whole daemon in the test's process, for clients over TCP and Unix sockets.
#ifndef CHX_TESTS_RPC_DAEMON_FIXTURE_H_
#define CHX_TESTS_RPC_DAEMON_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/daemon.h"
#include "server/native/native_backend.h"
#include "tests/rpc/rpc_client.h"

namespace chx::server {

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() : backend_(CreateNativeBackend({})) {
    options.devices = "native:0";
    options.session_memory = 64 << 20;
    options.lease = std::chrono::seconds(30);
    options.listeners = *ParseListen("127.0.0.1:0");
    const char* const helper = std::getenv("HELPER");
    if (helper != nullptr) options.helper_program = helper;
  }

  absl::Status TryStart() {
    absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(options, {backend_.get()});
    if (!daemon.ok()) return daemon.status();
    daemon_ = *std::move(daemon);
    return absl::OkStatus();
  }
  void Start() {
    const absl::Status status = TryStart();
    ASSERT_TRUE(status.ok()) << status;
  }
  // With the Unix socket in directory_.
  std::string UnixAddress() const { return absl::StrCat("unix:", directory_.Socket()); }
  void StartOnUnixSocket() {
    options.listeners = *ParseListen(UnixAddress());
    Start();
  }
  std::string address(size_t listener = 0) const { return daemon_->addresses()[listener]; }
  RpcClient Opened(size_t listener = 0) {
    RpcClient client(address(listener), options.credentials.token);
    const absl::Status status = client.Open();
    EXPECT_TRUE(status.ok()) << status;
    client.Connect();
    return client;
  }
  v1::ListSessionsReply Sessions() { return SessionsAt(address(), options.credentials.token); }

  Options options;  // for Start
  SocketDirectory directory_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace chx::server

#endif  // CHX_TESTS_RPC_DAEMON_FIXTURE_H_
