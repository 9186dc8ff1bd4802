// What the web process may ask the daemon, and that nothing else is answered.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <thread>

#include "proto/frame_caller.h"
#include "server/native/native_backend.h"
#include "server/rpc/frame_service.h"

namespace chx::server {
namespace {

class ViewerTest : public ::testing::Test {
 protected:
  ViewerTest() : backend_(CreateNativeBackend({})) {
    EXPECT_TRUE(devices_.Open("native:0", {backend_.get()}).ok());
    ManagerOptions options;
    options.metrics = std::make_shared<Metrics>(1);
    manager_ = std::make_unique<SessionManager>(&devices_, options);
    service_ = std::make_unique<FrameService>(manager_.get(), &runs_, FrameServiceOptions());
  }

  // On a connection of its own.
  absl::Status Call(const v1::Call& call, v1::Reply* reply) {
    int pair[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    std::thread serve([this, socket = pair[0]] {
      PeerInfo peer;
      peer.viewer = true;
      service_->Serve(socket, peer);
    });
    absl::Status status;
    {
      FrameCaller caller(pair[1], "");
      status = caller.Call(call, reply);
    }
    serve.join();
    return status;
  }

  std::unique_ptr<Backend> backend_;
  Devices devices_;
  std::unique_ptr<SessionManager> manager_;
  Runs runs_;
  std::unique_ptr<FrameService> service_;
};

TEST_F(ViewerTest, SeesMetricsAndStatus) {
  SessionOwner owner;
  owner.client_name = "trainer";
  const SessionRecordPtr session = *manager_->Open(owner);
  v1::Call call;
  v1::Reply reply;
  call.mutable_metrics();
  ASSERT_TRUE(Call(call, &reply).ok());
  EXPECT_NE(reply.metrics().text().find("\nchxd_sessions{tenant=\"default\",class=\"remote\"} 1\n"),
            std::string::npos)
      << reply.metrics().text();
  call.mutable_node_status();
  ASSERT_TRUE(Call(call, &reply).ok());
  const v1::NodeStatusReply& status = reply.node_status();
  ASSERT_EQ(status.sessions_size(), 1);
  EXPECT_EQ(status.sessions(0).info().client_name(), "trainer");
  EXPECT_EQ(status.sessions(0).tenant(), "default");
  EXPECT_EQ(status.devices(0).name(), "native:0");
  EXPECT_TRUE(status.serving());
  call.mutable_health();
  ASSERT_TRUE(Call(call, &reply).ok());
  EXPECT_TRUE(reply.health().serving());
}

TEST_F(ViewerTest, ChangesNothing) {
  const SessionRecordPtr session = *manager_->Open(SessionOwner());
  v1::Call call;
  v1::Reply reply;
  call.mutable_kill_session()->set_number(session->number);
  EXPECT_TRUE(absl::IsUnavailable(Call(call, &reply)));
  call.mutable_open();
  EXPECT_TRUE(absl::IsUnavailable(Call(call, &reply)));
  call.mutable_close()->set_session_id(session->id);
  EXPECT_TRUE(absl::IsUnavailable(Call(call, &reply)));
  call.mutable_download()->set_session_id(session->id);
  EXPECT_TRUE(absl::IsUnavailable(Call(call, &reply)));
  EXPECT_EQ(manager_->List().size(), 1u);
}

}  // namespace
}  // namespace chx::server
