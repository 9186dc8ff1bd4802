// The socket beside the daemon's own, with daemons that do not keep to the protocol.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "client/link.h"
#include "proto/frame.h"

namespace chx {
namespace {

class LocalLinkTest : public ::testing::Test {
 protected:
  LocalLinkTest() {
    char directory[] = "/tmp/chx-link-XXXXXX";
    directory_ = mkdtemp(directory);
    const std::string path = StreamSocketOf(directory_ + "/socket");
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
  }
  ~LocalLinkTest() override {
    if (daemon_.joinable()) daemon_.join();
    close(listener_);
    unlink(StreamSocketOf(directory_ + "/socket").c_str());
    rmdir(directory_.c_str());
  }

  // Accepts one connection, reads its greeting and does as told.
  void Behave(std::function<void(int connection)> behaviour) {
    daemon_ = std::thread([this, behaviour = std::move(behaviour)] {
      const int connection = accept(listener_, nullptr, nullptr);
      FrameKind kind;
      absl::string_view payload;
      FrameReader reader(connection, 1 << 20);
      EXPECT_EQ(reader.Next(&kind, &payload), FrameReader::Result::kFrame);
      v1::Submit greeting;
      EXPECT_TRUE(greeting.ParseFromArray(payload.data(), static_cast<int>(payload.size())));
      EXPECT_EQ(greeting.session_id(), "me");
      behaviour(connection);
      close(connection);
    });
  }
  std::unique_ptr<Link> Opened() {
    v1::Submit greeting;
    greeting.set_session_id("me");
    return OpenLocalLink("unix://" + directory_ + "/socket", greeting);
  }

  std::string directory_;
  int listener_ = -1;
  std::thread daemon_;
};

void SendEvent(int connection, uint64_t seq, size_t bytes = 0) {
  v1::Event event;
  event.set_event_seq(seq);
  if (bytes != 0) event.add_values()->set_data(std::string(bytes, 'x'));
  std::string buffer;
  EXPECT_TRUE(WriteFrame(connection, FrameKind::kMessage, event, &buffer));
}

TEST_F(LocalLinkTest, EventsOfAnySizeComeInOrderUntilTheCut) {
  Behave([](int connection) {
    for (uint64_t i = 1; i <= 8; ++i) SendEvent(connection, i, i % 2 == 0 ? 3000000 : 10);
  });
  const auto link = Opened();
  ASSERT_NE(link, nullptr);
  v1::Event event;
  for (uint64_t i = 1; i <= 8; ++i) {
    ASSERT_EQ(link->Read(&event, true), Link::Got::kEvent);
    EXPECT_EQ(event.event_seq(), i);
    EXPECT_EQ(event.values(0).data().size(), i % 2 == 0 ? 3000000u : 10u);
  }
  EXPECT_EQ(link->Read(&event, true), Link::Got::kCut);
  EXPECT_EQ(link->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(LocalLinkTest, TheDaemonSaysWhyItEnds) {
  Behave([](int connection) {
    v1::StreamEnd end;
    end.set_code(static_cast<uint32_t>(grpc::StatusCode::RESOURCE_EXHAUSTED));
    end.set_message("enough");
    end.set_details("\x05");
    std::string buffer;
    EXPECT_TRUE(WriteFrame(connection, FrameKind::kEnd, end, &buffer));
  });
  const auto link = Opened();
  ASSERT_NE(link, nullptr);
  v1::Event event;
  EXPECT_EQ(link->Read(&event, true), Link::Got::kCut);
  EXPECT_EQ(link->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(link->Finish().error_message(), "enough");
  EXPECT_EQ(link->Finish().error_details(), "\x05");
}

TEST_F(LocalLinkTest, ADaemonThatHangsUpIsNoLink) {
  Behave([](int) {});  // as one of another user
  EXPECT_EQ(Opened(), nullptr);
}

TEST_F(LocalLinkTest, WhatIsNoFrameIsACut) {
  for (const std::string& bytes :
       {std::string("HTTP/1.1 400 Bad Request\r\n"), std::string(64, '\xff'),
        std::string("\x04\0\0\0\x01\0\0\0\xff\xff\xff\xff", 12), std::string("\x04\0\0", 3)}) {
    Behave([&bytes](int connection) {
      EXPECT_EQ(send(connection, bytes.data(), bytes.size(), 0),
                static_cast<ssize_t>(bytes.size()));
    });
    const auto link = Opened();
    ASSERT_NE(link, nullptr);
    v1::Event event;
    EXPECT_EQ(link->Read(&event, true), Link::Got::kCut);
    EXPECT_EQ(link->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
    daemon_.join();
  }
}

TEST_F(LocalLinkTest, CancelEndsAReadAndAWrite) {
  Behave([](int connection) {
    SendEvent(connection, 1);
    char byte;
    while (recv(connection, &byte, 1, 0) == 1 && byte != 0) {
    }
  });
  const auto link = Opened();
  ASSERT_NE(link, nullptr);
  v1::Event event;
  ASSERT_EQ(link->Read(&event, true), Link::Got::kEvent);
  std::thread canceller([&link] { link->Cancel(); });
  EXPECT_EQ(link->Read(&event, true), Link::Got::kCut);
  canceller.join();
  EXPECT_FALSE(link->Write(v1::Submit()));
}

// As one that resends its events before it reads what a client resends.
TEST_F(LocalLinkTest, BothSidesMayHaveMoreToSayThanTheSocketHolds) {
  constexpr int kMessages = 64;
  Behave([](int connection) {
    for (uint64_t i = 1; i <= kMessages; ++i) SendEvent(connection, i, 100000);
    FrameReader reader(connection, 1 << 20);
    FrameKind kind;
    absl::string_view payload;
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_EQ(reader.Next(&kind, &payload), FrameReader::Result::kFrame);
      v1::Submit batch;
      ASSERT_TRUE(batch.ParseFromArray(payload.data(), static_cast<int>(payload.size())));
      EXPECT_EQ(batch.batch_seq(), static_cast<uint64_t>(i));
    }
  });
  const auto link = Opened();
  ASSERT_NE(link, nullptr);
  v1::Submit batch;
  batch.set_commands(std::string(100000, 'x'));
  for (uint64_t i = 0; i < kMessages; ++i) {
    batch.set_batch_seq(i);
    ASSERT_TRUE(link->Write(batch));
  }
  v1::Event event;
  for (uint64_t i = 1; i <= kMessages; ++i) {
    ASSERT_EQ(link->Read(&event, true), Link::Got::kEvent);
    EXPECT_EQ(event.event_seq(), i);
    EXPECT_EQ(event.values(0).data().size(), 100000u);
  }
}

// Else the daemon would think that the session's client lives on.
TEST_F(LocalLinkTest, AForkedChildHoldsNoConnection) {
  Behave([](int connection) {
    SendEvent(connection, 1);
    char byte;
    EXPECT_LE(recv(connection, &byte, 1, 0), 0);
  });
  auto link = Opened();
  ASSERT_NE(link, nullptr);
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(hold[1]);
    char byte;
    _exit(static_cast<int>(read(hold[0], &byte, 1)));  // until the parent closes its end
  }
  link = nullptr;
  daemon_.join();  // has seen the end, although the child is there
  close(hold[1]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(hold[0]);
}

TEST_F(LocalLinkTest, OtherAddressesHaveNone) {
  const v1::Submit greeting;
  EXPECT_EQ(OpenLocalLink("localhost:1", greeting), nullptr);
  EXPECT_EQ(OpenLocalLink("unix:/nonexistent/socket", greeting), nullptr);
  EXPECT_EQ(OpenLocalLink("unix:" + std::string(200, 'x'), greeting), nullptr);
}

}  // namespace
}  // namespace chx
