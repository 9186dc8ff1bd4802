// Frame connections: who gets a stream, and what comes of bad bytes.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/command_codec.h"
#include "proto/frame.h"
#include "proto/segment_socket.h"
#include "tests/rpc/daemon_fixture.h"

namespace chx::server {
namespace {

std::string Barrier(uint64_t request_id) {
  std::string batch;
  CommandWriter(&batch).Write(command::Barrier{request_id});
  return batch;
}

// One stream, from its greeting on.
class Stream {
 public:
  Stream(const std::string& address, const std::string& session_id, uint64_t last_batch_seq = 0)
      : client_(address) {
    v1::Submit greeting;
    greeting.set_session_id(session_id);
    greeting.set_batch_seq(last_batch_seq);
    client_.Write(FrameKind::kMessage, greeting);
  }
  bool Send(uint64_t batch_seq, std::string commands) {
    v1::Submit submit;
    submit.set_batch_seq(batch_seq);
    submit.set_commands(std::move(commands));
    return client_.Write(FrameKind::kMessage, submit);
  }
  bool Read(v1::Event* event) { return client_.ReadEvent(event); }
  // The answer to a request.
  bool Answered(uint64_t request_id) {
    v1::Event event;
    while (Read(&event)) {
      for (const v1::FetchedValue& value : event.values()) {
        if (value.request_id() == request_id) return true;
      }
    }
    return false;
  }
  absl::StatusCode End() { return client_.End().code(); }
  FrameClient& client() { return client_; }

 private:
  FrameClient client_;
};

class FrameServiceTest : public DaemonTest {
 protected:
  FrameServiceTest() { StartOnUnixSocket(); }

  std::unique_ptr<RpcClient> Opened() {
    auto client = std::make_unique<RpcClient>(address());
    EXPECT_TRUE(client->Open().ok());
    return client;
  }
  std::string address() const { return UnixAddress(); }
};

TEST_F(FrameServiceTest, TheSocketIsItsOwnersAloneAndGoesWithTheDaemon) {
  struct stat info = {};
  ASSERT_EQ(stat(directory_.Socket().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  auto client = Opened();
  Stream stream(address(), client->session_id());
  ASSERT_TRUE(stream.Send(1, Barrier(1)));
  ASSERT_TRUE(stream.Answered(1));
  daemon_ = nullptr;  // does not wait for the client
  v1::Event event;
  EXPECT_FALSE(stream.Read(&event));
  EXPECT_NE(stat(directory_.Socket().c_str(), &info), 0);
}

TEST_F(FrameServiceTest, ADaemonWithoutItsPlacesDoesNotStart) {
  const SocketDirectory other;
  // A directory stands for what cannot be removed.
  const std::string taken = SegmentSocketOf(other.Socket());
  ASSERT_EQ(mkdir(taken.c_str(), 0700), 0);
  options.listeners = *ParseListen(absl::StrCat("unix:", other.Socket()));
  const absl::Status status = Daemon::Start(options, {backend_.get()}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find(taken), absl::string_view::npos) << status;
  ASSERT_EQ(rmdir(taken.c_str()), 0);
}

TEST_F(FrameServiceTest, UnknownAndClosedSessionsHaveNoStream) {
  auto client = Opened();
  for (const std::string& id : {std::string(), std::string(16, 'x'), std::string(4000, 'x')}) {
    EXPECT_EQ(Stream(address(), id).End(), absl::StatusCode::kNotFound) << id.size();
  }
  v1::CloseReply reply;
  ASSERT_TRUE(client->Close(&reply).ok());
  EXPECT_EQ(Stream(address(), client->session_id()).End(), absl::StatusCode::kNotFound);
}

TEST_F(FrameServiceTest, StreamsOfASessionTakeOverFromEachOther) {
  auto client = Opened();
  Stream first(address(), client->session_id());
  ASSERT_TRUE(first.Send(1, Barrier(1)));
  ASSERT_TRUE(first.Answered(1));
  // The answer to batch 1 was not acknowledged: it comes again, and the batch is not applied again.
  Stream second(address(), client->session_id(), 1);
  EXPECT_TRUE(second.Answered(1));
  v1::Event event;
  EXPECT_FALSE(first.Read(&event));
  ASSERT_TRUE(second.Send(1, Barrier(7)));
  ASSERT_TRUE(second.Send(2, Barrier(2)));
  EXPECT_TRUE(second.Answered(2));
}

TEST_F(FrameServiceTest, ABatchThatCannotBeReadClosesItsSession) {
  auto client = Opened();
  Stream stream(address(), client->session_id());
  ASSERT_TRUE(stream.Send(1, std::string(64, '\xff')));
  EXPECT_EQ(stream.End(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Stream(address(), client->session_id()).End(), absl::StatusCode::kNotFound);
  auto other = Opened();
  Stream gap(address(), other->session_id());
  ASSERT_TRUE(gap.Send(2, Barrier(1)));
  EXPECT_EQ(gap.End(), absl::StatusCode::kFailedPrecondition);
}

// Garbage, lengths that lie, frames cut short, silence, and readers who do not read.
TEST_F(FrameServiceTest, BadPeersHurtNobody) {
  auto client = Opened();
  Stream good(address(), client->session_id());
  const unsigned seed = std::random_device()();
  std::cout << "seed " << seed << std::endl;
  std::mt19937 random(seed);
  std::vector<int> silent;
  for (int i = 0; i < 200; ++i) {
    const int fd = ConnectTo(address());
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (i % 3 == 0) bytes = std::string("\x01\x10\x00\x00\x03\x00\x00\x00", 8);  // too large
    if (i % 5 == 0) bytes = std::string("\x00\x10\x00\x00\x03\x00\x00\x00", 8);  // never comes
    if (i % 7 == 0) bytes = std::string("\x00\x00\x00\x00\x04\x00\x00\x00", 8);  // no Hello
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    silent.push_back(fd);
  }
  // Has a session, and garbage behind its greeting.
  auto half = Opened();
  Stream broken(address(), half->session_id());
  v1::Event event;
  ASSERT_TRUE(broken.Read(&event));
  ASSERT_TRUE(broken.client().WriteRaw("garbage!garbage!"));
  EXPECT_EQ(broken.End(), absl::StatusCode::kOk);
  EXPECT_TRUE(good.Send(1, Barrier(1)));
  EXPECT_TRUE(good.Answered(1));
  // The session of a broken stream can be taken up.
  Stream again(address(), half->session_id());
  ASSERT_TRUE(again.Send(1, Barrier(1)));
  EXPECT_TRUE(again.Answered(1));
  for (int fd : silent) close(fd);
}

TEST_F(FrameServiceTest, AClientThatDoesNotReadWaitsAlone) {
  auto client = Opened();
  auto deaf = Opened();
  Stream stream(address(), deaf->session_id());
  ASSERT_TRUE(deaf->Upload(5, std::vector<float>(8 << 10), 1 << 20).ok());
  std::thread writer([&] {
    for (uint64_t seq = 1; seq <= 400; ++seq) {
      std::string batch;
      CommandWriter(&batch).Write(command::Fetch{seq, 5});
      if (!stream.Send(seq, batch)) return;
    }
  });
  Stream good(address(), client->session_id());
  for (uint64_t seq = 1; seq <= 100; ++seq) {
    ASSERT_TRUE(good.Send(seq, Barrier(seq)));
    ASSERT_TRUE(good.Answered(seq));
  }
  v1::CloseReply reply;
  EXPECT_TRUE(deaf->Close(&reply).ok());  // cuts the stream, on whose event the daemon waited
  writer.join();
}

// Half a million small messages in one call would take 20 times their bytes.
TEST_F(FrameServiceTest, CallsThatAreTooLargeAreNotParsed) {
  v1::Call call;
  for (int i = 0; i < 500000; ++i) call.mutable_open()->add_ops();
  v1::Reply reply;
  EXPECT_EQ(CallOnce(address(), "", call, &reply).message(), "cut");
  call.mutable_open()->clear_ops();
  EXPECT_TRUE(CallOnce(address(), "", call, &reply).ok());
}

// One connection, call after call, each kind; what is wrong with one is told and no more.
TEST_F(FrameServiceTest, CallsOfOneConnectionComeOneAfterTheOther) {
  auto client = Opened();
  FrameClient connection(address());
  v1::Reply reply;
  v1::Call health;
  health.mutable_health();
  v1::Call devices;
  devices.mutable_list_devices();
  v1::Call sessions;
  sessions.mutable_list_sessions();
  v1::Call upload;
  upload.mutable_upload()->set_session_id(client->session_id());  // under handle 0, which is none
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(connection.Call(health, &reply).ok());
    EXPECT_TRUE(reply.health().serving());
    EXPECT_TRUE(connection.Call(devices, &reply).ok());
    EXPECT_EQ(reply.list_devices().devices(0).name(), "native:0");
    EXPECT_EQ(connection.Call(v1::Call(), &reply).code(), absl::StatusCode::kUnimplemented);
    // What belongs to a refused upload is read and dropped.
    connection.Write(FrameKind::kCall, upload);
    connection.WriteData(std::string(100000, 'x'));
    connection.WriteData("");
    EXPECT_EQ(connection.ReadReply(&reply).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(connection.Call(sessions, &reply).ok());
    EXPECT_EQ(reply.list_sessions().sessions_size(), 1);
  }
  EXPECT_EQ(reply.list_sessions().sessions(0).number(), client->opened.session_number());
  // Nobody's memory can hold what belongs to nobody's session: that ends the connection.
  upload.mutable_upload()->set_session_id("nobody's");
  connection.Write(FrameKind::kCall, upload);
  connection.WriteData(std::string(100000, 'x'));
  EXPECT_EQ(connection.ReadReply(&reply).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(connection.Call(health, &reply).ok());
}

TEST_F(FrameServiceTest, AnOperatorKillsASessionByItsNumber) {
  auto client = Opened();
  auto other = Opened();
  Stream stream(address(), client->session_id());
  ASSERT_TRUE(stream.Send(1, Barrier(1)));
  ASSERT_TRUE(stream.Answered(1));
  v1::Call kill;
  kill.mutable_kill_session()->set_number(client->opened.session_number());
  v1::Reply reply;
  EXPECT_TRUE(CallOnce(address(), "", kill, &reply).ok());
  v1::Event event;
  EXPECT_FALSE(stream.Read(&event));
  EXPECT_EQ(CallOnce(address(), "", kill, &reply).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Stream(address(), client->session_id()).End(), absl::StatusCode::kFailedPrecondition);
  Stream others(address(), other->session_id());
  ASSERT_TRUE(others.Send(1, Barrier(1)));
  EXPECT_TRUE(others.Answered(1));
}

// The client has not seen whether its first attempt was carried out.
TEST_F(FrameServiceTest, AnUploadThatComesAgainIsBoundOnce) {
  auto client = Opened();
  EXPECT_TRUE(client->Upload(5, {1, 2}, 100, true).ok());  // the first was cut before
  EXPECT_TRUE(client->Upload(5, {3, 4}, 100, true).ok());  // or after it was bound
  EXPECT_EQ(client->Upload(5, {3, 4}, 100).code(), absl::StatusCode::kInvalidArgument);
  std::vector<float> values;
  ASSERT_TRUE(client->Download(5, &values).ok());
  EXPECT_EQ(values, (std::vector<float>{1, 2}));
  EXPECT_EQ(SessionsAt(address()).sessions(0).handles(), 1u);
}

}  // namespace
}  // namespace chx::server
