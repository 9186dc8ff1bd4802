#include "proto/byte_stream.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <thread>

namespace chx {
namespace {

class SocketStreamTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_), 0);
    stream_ = std::make_unique<SocketStream>(sockets_[0]);
    stream_->StayAwake(GetParam());
  }
  void TearDown() override {
    close(sockets_[0]);
    close(sockets_[1]);
  }
  // Answers each byte with the next one, until the end.
  void Echo() {
    char byte;
    while (recv(sockets_[1], &byte, 1, 0) == 1) {
      ++byte;
      if (send(sockets_[1], &byte, 1, MSG_NOSIGNAL) != 1) break;
    }
    shutdown(sockets_[1], SHUT_WR);
  }

  int sockets_[2] = {};
  std::unique_ptr<SocketStream> stream_;
};

INSTANTIATE_TEST_SUITE_P(Awake, SocketStreamTest, ::testing::Bool());

TEST_P(SocketStreamTest, ReceivesWhatComes) {
  std::thread peer([this] { Echo(); });
  for (int i = 0; i < 1000; ++i) {
    const char asked = static_cast<char>(i % 100);
    char answer = 0;
    ASSERT_EQ(stream_->Send(&asked, 1, true, false), 1);
    ASSERT_EQ(stream_->Receive(&answer, 1, true), 1);
    EXPECT_EQ(answer, asked + 1);
  }
  shutdown(sockets_[0], SHUT_WR);
  char byte;
  EXPECT_EQ(stream_->Receive(&byte, 1, true), 0);  // the peer's end
  peer.join();
}

TEST_P(SocketStreamTest, DoesNotWaitUnlessAsked) {
  char byte;
  EXPECT_EQ(stream_->Receive(&byte, 1, false), -1);
  EXPECT_EQ(errno, EAGAIN);
}

// After quick answers, too, a wait that lasts costs no processor time.
TEST_P(SocketStreamTest, SleepsWhenNothingComes) {
  std::thread peer([this] { Echo(); });
  char byte = 1;
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(stream_->Send(&byte, 1, true, false), 1);
    ASSERT_EQ(stream_->Receive(&byte, 1, true), 1);
  }
  const timeval patience = {0, 500000};
  setsockopt(sockets_[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const auto used = [] {
    rusage usage = {};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_utime.tv_usec + usage.ru_stime.tv_usec +
           1000000 * (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
  };
  const auto before = used();
  EXPECT_EQ(stream_->Receive(&byte, 1, true), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_LT(used() - before, 100000);
  shutdown(sockets_[0], SHUT_WR);
  peer.join();
}

}  // namespace
}  // namespace chx
