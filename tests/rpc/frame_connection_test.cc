// Large frames that do not arrive: the memory they have is given back in time.
#include "server/rpc/frame_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

namespace chx::server {
namespace {

using Result = FrameReader::Result;

class Budget final : public FrameBudget {
 public:
  bool Reserve(size_t bytes, const void* /*reader*/) override {
    used += bytes;
    return true;
  }
  void Release(size_t bytes, const void* /*reader*/) override { used -= bytes; }
  std::atomic<size_t> used{0};
};

class FrameConnectionTest : public ::testing::Test {
 protected:
  FrameConnectionTest() {
    int pair[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    peer_ = pair[0];
    connection_ = std::make_unique<FrameConnection>(pair[1], &budget_, patience_);
    connection_->reader().set_max_bytes(4 << 20);
  }
  ~FrameConnectionTest() override { close(peer_); }

  void Send(const std::string& bytes) const {
    EXPECT_EQ(send(peer_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static std::string Header(uint32_t bytes) {
    const uint32_t header[] = {bytes, static_cast<uint32_t>(FrameKind::kData)};
    return std::string(reinterpret_cast<const char*>(header), sizeof(header));
  }
  Result Next() {
    FrameKind kind;
    absl::string_view payload;
    return connection_->reader().Next(&kind, &payload);
  }

  const FramePatience patience_{std::chrono::milliseconds(200), std::chrono::milliseconds(1000)};
  Budget budget_;
  int peer_ = -1;
  std::unique_ptr<FrameConnection> connection_;
};

TEST_F(FrameConnectionTest, ALargeFrameThatStallsIsCut) {
  Send(Header(1 << 20) + std::string(100000, 'x'));
  EXPECT_EQ(Next(), Result::kCut);
  EXPECT_GT(budget_.used, 0u);
  connection_ = nullptr;
  EXPECT_EQ(budget_.used, 0u);
}

TEST_F(FrameConnectionTest, ALargeFrameThatTricklesIsCut) {
  Send(Header(1 << 20) + std::string(100000, 'x'));
  std::atomic<bool> stop{false};
  std::thread trickle([&] {
    while (!stop) {
      Send("x");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  EXPECT_EQ(Next(), Result::kCut);
  stop = true;
  trickle.join();
}

TEST_F(FrameConnectionTest, ASmallFrameMayTakeAsLongAsItLikes) {
  Send(Header(1000) + std::string(10, 'x'));
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    Send(std::string(990, 'x'));
  });
  EXPECT_EQ(Next(), Result::kFrame);
  late.join();
  // Nor is one that waits between two frames cut, after a large one either.
  std::thread large([&] {
    Send(Header(100000) + std::string(100000, 'x'));
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    Send(Header(1) + "x");
  });
  EXPECT_EQ(Next(), Result::kFrame);
  EXPECT_EQ(Next(), Result::kFrame);
  large.join();
}

}  // namespace
}  // namespace chx::server
