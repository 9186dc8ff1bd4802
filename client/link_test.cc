// Op streams with daemons that do not keep to the protocol.
#include "client/link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "ops/error.h"
#include "proto/frame.h"
#include "proto/messages.h"

namespace chx {
namespace {

bool Write(int connection, FrameKind kind, const google::protobuf::MessageLite& message) {
  SocketStream stream(connection);
  std::string buffer;
  return WriteFrame(&stream, kind, message, &buffer);
}

class LinkTest : public ::testing::Test {
 protected:
  ~LinkTest() override {
    if (daemon_.joinable()) daemon_.join();
  }

  // Reads the greeting and does as told.
  void Behave(std::function<void(int connection, FrameReader* reader)> behaviour) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    socket_ = ends[0];
    daemon_ = std::thread([connection = ends[1], behaviour = std::move(behaviour)] {
      FrameKind kind;
      absl::string_view payload;
      SocketStream stream(connection);
      FrameReader reader(&stream, 1 << 20);
      EXPECT_EQ(reader.Next(&kind, &payload), FrameReader::Result::kFrame);
      v1::Submit greeting;
      EXPECT_TRUE(greeting.ParseFromArray(payload.data(), static_cast<int>(payload.size())));
      EXPECT_EQ(greeting.session_id(), "me");
      behaviour(connection, &reader);
      close(connection);
    });
  }
  std::unique_ptr<Link> Opened() const {
    v1::Submit greeting;
    greeting.set_session_id("me");
    auto link = std::make_unique<Link>(
        std::make_unique<CallChannel>(std::make_unique<Socket>(socket_), ""));
    EXPECT_TRUE(link->Write(greeting));
    return link;
  }

  int socket_ = -1;
  std::thread daemon_;
};

void SendEvent(int connection, uint64_t seq, size_t bytes = 0) {
  v1::Event event;
  event.set_event_seq(seq);
  if (bytes != 0) event.add_values()->set_data(std::string(bytes, 'x'));
  EXPECT_TRUE(Write(connection, FrameKind::kMessage, event));
}

TEST_F(LinkTest, EventsOfAnySizeComeInOrderUntilTheCut) {
  Behave([](int connection, FrameReader*) {
    for (uint64_t i = 1; i <= 8; ++i) SendEvent(connection, i, i % 2 == 0 ? 3000000 : 10);
  });
  const auto link = Opened();
  v1::Event event;
  for (uint64_t i = 1; i <= 8; ++i) {
    ASSERT_EQ(link->Read(&event, Link::Wait::kOn), Link::Got::kEvent);
    EXPECT_EQ(event.event_seq(), i);
    EXPECT_EQ(event.values(0).data().size(), i % 2 == 0 ? 3000000u : 10u);
  }
  EXPECT_EQ(link->Read(&event, Link::Wait::kOn), Link::Got::kCut);
  EXPECT_EQ(link->Finish().code(), absl::StatusCode::kUnavailable);
}

TEST_F(LinkTest, TheDaemonSaysWhyItEnds) {
  Behave([](int connection, FrameReader*) {
    EXPECT_TRUE(Write(connection, FrameKind::kEnd, wire::ToMessage(MemoryError("enough"))));
  });
  const auto link = Opened();
  v1::Event event;
  EXPECT_EQ(link->Read(&event, Link::Wait::kOn), Link::Got::kCut);
  EXPECT_EQ(link->Finish(), MemoryError("enough"));
}

TEST_F(LinkTest, WhatIsNoFrameIsACut) {
  for (const std::string& bytes :
       {std::string("HTTP/1.1 400 Bad Request\r\n"), std::string(64, '\xff'),
        std::string("\x04\0\0\0\x01\0\0\0\xff\xff\xff\xff", 12), std::string("\x04\0\0", 3)}) {
    Behave([&bytes](int connection, FrameReader*) {
      EXPECT_EQ(send(connection, bytes.data(), bytes.size(), 0),
                static_cast<ssize_t>(bytes.size()));
    });
    const auto link = Opened();
    v1::Event event;
    EXPECT_EQ(link->Read(&event, Link::Wait::kOn), Link::Got::kCut);
    EXPECT_EQ(link->Finish().code(), absl::StatusCode::kUnavailable);
    daemon_.join();
  }
}

TEST_F(LinkTest, CancelEndsAReadAndAWrite) {
  Behave([](int connection, FrameReader*) {
    SendEvent(connection, 1);
    char byte;
    while (recv(connection, &byte, 1, 0) == 1 && byte != 0) {
    }
  });
  const auto link = Opened();
  v1::Event event;
  ASSERT_EQ(link->Read(&event, Link::Wait::kOn), Link::Got::kEvent);
  std::thread canceller([&link] { link->Cancel(); });
  EXPECT_EQ(link->Read(&event, Link::Wait::kOn), Link::Got::kCut);
  canceller.join();
  EXPECT_FALSE(link->Write(v1::Submit()));
}

// As one that resends its events before it reads what a client resends.
TEST_F(LinkTest, BothSidesMayHaveMoreToSayThanTheSocketHolds) {
  constexpr int kMessages = 64;
  Behave([](int connection, FrameReader* reader) {
    for (uint64_t i = 1; i <= kMessages; ++i) SendEvent(connection, i, 100000);
    FrameKind kind;
    absl::string_view payload;
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_EQ(reader->Next(&kind, &payload), FrameReader::Result::kFrame);
      v1::Submit batch;
      ASSERT_TRUE(batch.ParseFromArray(payload.data(), static_cast<int>(payload.size())));
      EXPECT_EQ(batch.batch_seq(), static_cast<uint64_t>(i));
    }
  });
  const auto link = Opened();
  v1::Submit batch;
  batch.set_commands(std::string(100000, 'x'));
  for (uint64_t i = 0; i < kMessages; ++i) {
    batch.set_batch_seq(i);
    ASSERT_TRUE(link->Write(batch));
  }
  v1::Event event;
  for (uint64_t i = 1; i <= kMessages; ++i) {
    ASSERT_EQ(link->Read(&event, Link::Wait::kOn), Link::Got::kEvent);
    EXPECT_EQ(event.event_seq(), i);
    EXPECT_EQ(event.values(0).data().size(), 100000u);
  }
}

// Else the daemon would think that the session's client lives on.
TEST_F(LinkTest, AForkedChildHoldsNoConnection) {
  Behave([](int connection, FrameReader*) {
    SendEvent(connection, 1);
    char byte;
    EXPECT_LE(recv(connection, &byte, 1, 0), 0);
  });
  auto link = Opened();
  v1::Event event;
  ASSERT_EQ(link->Read(&event, Link::Wait::kOn), Link::Got::kEvent);
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

}  // namespace
}  // namespace chx
