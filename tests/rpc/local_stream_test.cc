// The op stream's own socket: who gets a stream, what comes of bad bytes, and that streams over it
// and over gRPC are one session's.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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
#include "proto/command.h"
#include "proto/frame.h"
#include "server/daemon.h"
#include "server/native/native_backend.h"
#include "tests/rpc/rpc_client.h"

namespace chx {
namespace {

int Connect(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const timeval timeout = {20, 0};  // a test that would hang fails
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  return fd;
}

std::string Barrier(uint64_t request_id) {
  std::string batch;
  CommandWriter(&batch).Barrier(request_id);
  return batch;
}

// One stream, from its greeting on.
class LocalStream {
 public:
  LocalStream(const std::string& path, const std::string& session_id, uint64_t last_batch_seq = 0)
      : fd_(Connect(path)), reader_(fd_, 1 << 30) {
    v1::Submit greeting;
    greeting.set_session_id(session_id);
    greeting.set_batch_seq(last_batch_seq);
    Write(greeting);
  }
  ~LocalStream() { close(fd_); }

  bool Write(const v1::Submit& submit) {
    return WriteFrame(fd_, FrameKind::kMessage, submit, &buffer_);
  }
  bool Send(uint64_t batch_seq, std::string commands) {
    v1::Submit submit;
    submit.set_batch_seq(batch_seq);
    submit.set_commands(std::move(commands));
    return Write(submit);
  }
  // The next event; false at the end, of which end() tells.
  bool Read(v1::Event* event) {
    FrameKind kind;
    absl::string_view payload;
    if (reader_.Next(&kind, &payload) != FrameReader::Result::kFrame) return false;
    const int size = static_cast<int>(payload.size());
    if (kind == FrameKind::kMessage) return event->ParseFromArray(payload.data(), size);
    EXPECT_TRUE(end_.ParseFromArray(payload.data(), size));
    return false;
  }
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
  grpc::StatusCode End() {
    v1::Event event;
    while (Read(&event)) {
    }
    return static_cast<grpc::StatusCode>(end_.code());
  }
  int fd() const { return fd_; }

 private:
  const int fd_;
  FrameReader reader_;
  std::string buffer_;
  v1::StreamEnd end_;
};

class LocalStreamTest : public ::testing::Test {
 protected:
  LocalStreamTest() : backend_(CreateNativeBackend({})) {
    options_.devices = "native:0";
    options_.session_memory = 64 << 20;
    options_.lease = std::chrono::seconds(30);
    options_.listeners = *ParseListen(absl::StrCat("unix:", directory_.Socket()));
    daemon_ = *Daemon::Start(options_, {backend_.get()});
  }

  std::unique_ptr<RpcClient> Opened() {
    auto client = std::make_unique<RpcClient>(ChannelTo(daemon_->addresses()[0]));
    EXPECT_TRUE(client->Open().ok());
    return client;
  }
  std::string path() const { return StreamSocketOf(directory_.Socket()); }

  SocketDirectory directory_;
  std::unique_ptr<Backend> backend_;
  Options options_;
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(LocalStreamTest, TheSocketIsItsOwnersAloneAndGoesWithTheDaemon) {
  struct stat info = {};
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  auto client = Opened();
  LocalStream stream(path(), client->session_id());
  ASSERT_TRUE(stream.Send(1, Barrier(1)));
  ASSERT_TRUE(stream.Answered(1));
  daemon_ = nullptr;  // does not wait for the client
  v1::Event event;
  EXPECT_FALSE(stream.Read(&event));
  EXPECT_NE(stat(path().c_str(), &info), 0);
}

TEST_F(LocalStreamTest, ADaemonWithoutItsPlacesDoesNotStart) {
  const SocketDirectory other;
  // A directory stands for what cannot be removed.
  const std::string taken = StreamSocketOf(other.Socket());
  ASSERT_EQ(mkdir(taken.c_str(), 0700), 0);
  options_.listeners = *ParseListen(absl::StrCat("unix:", other.Socket()));
  const absl::Status status = Daemon::Start(options_, {backend_.get()}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find(taken), absl::string_view::npos) << status;
  ASSERT_EQ(rmdir(taken.c_str()), 0);
}

TEST_F(LocalStreamTest, UnknownAndClosedSessionsHaveNoStream) {
  auto client = Opened();
  for (const std::string& id : {std::string(), std::string(16, 'x'), std::string(4000, 'x')}) {
    EXPECT_EQ(LocalStream(path(), id).End(), grpc::StatusCode::NOT_FOUND) << id.size();
  }
  // Too long for a greeting: a cut without a word.
  EXPECT_EQ(LocalStream(path(), std::string(100000, 'x')).End(), grpc::StatusCode::OK);
  v1::CloseReply reply;
  ASSERT_TRUE(client->Close(&reply).ok());
  EXPECT_EQ(LocalStream(path(), client->session_id()).End(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(LocalStreamTest, StreamsOfASessionTakeOverFromEachOther) {
  auto client = Opened();
  LocalStream first(path(), client->session_id());
  ASSERT_TRUE(first.Send(1, Barrier(1)));
  ASSERT_TRUE(first.Answered(1));
  // The answer to batch 1 was not acknowledged: it comes again, and the batch is not applied again.
  LocalStream second(path(), client->session_id(), 1);
  EXPECT_TRUE(second.Answered(1));
  v1::Event event;
  EXPECT_FALSE(first.Read(&event));
  ASSERT_TRUE(second.Send(1, Barrier(7)));
  ASSERT_TRUE(second.Send(2, Barrier(2)));
  EXPECT_TRUE(second.Answered(2));
  // gRPC's takes over, too, and the other way round.
  client->Connect();
  ASSERT_TRUE(client->Send(2, ""));
  while (event.acked_batch_seq() != 2) ASSERT_TRUE(client->Read(&event));
  EXPECT_FALSE(second.Read(&event));
  LocalStream third(path(), client->session_id(), 2);
  ASSERT_TRUE(third.Send(3, Barrier(3)));
  EXPECT_TRUE(third.Answered(3));
  while (client->Read(&event)) {
  }
  EXPECT_FALSE(client->FinishStream().ok());
}

TEST_F(LocalStreamTest, ABatchThatCannotBeReadClosesItsSession) {
  auto client = Opened();
  LocalStream stream(path(), client->session_id());
  ASSERT_TRUE(stream.Send(1, std::string(64, '\xff')));
  EXPECT_EQ(stream.End(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(LocalStream(path(), client->session_id()).End(), grpc::StatusCode::NOT_FOUND);
  auto other = Opened();
  LocalStream gap(path(), other->session_id());
  ASSERT_TRUE(gap.Send(2, Barrier(1)));
  EXPECT_EQ(gap.End(), grpc::StatusCode::FAILED_PRECONDITION);
}

// Garbage, lengths that lie, frames cut short, silence, and readers who do not read.
TEST_F(LocalStreamTest, BadPeersHurtNobody) {
  auto client = Opened();
  LocalStream good(path(), client->session_id());
  const unsigned seed = std::random_device()();
  std::cout << "seed " << seed << std::endl;
  std::mt19937 random(seed);
  std::vector<int> silent;
  for (int i = 0; i < 200; ++i) {
    const int fd = Connect(path());
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (i % 3 == 0) bytes = std::string("\x01\x00\x40\x00\x01\x00\x00\x00", 8);  // too large
    if (i % 5 == 0) bytes = std::string("\x00\x00\x40\x00\x01\x00\x00\x00", 8);  // never comes
    if (i % 7 == 0) bytes = std::string("\x00\x00\x00\x00\x02\x00\x00\x00", 8);  // an end
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    silent.push_back(fd);
  }
  // Has a session, and garbage behind its greeting.
  auto half = Opened();
  LocalStream broken(path(), half->session_id());
  v1::Event event;
  ASSERT_TRUE(broken.Read(&event));
  ASSERT_EQ(send(broken.fd(), "garbage!garbage!", 16, MSG_NOSIGNAL), 16);
  EXPECT_EQ(broken.End(), grpc::StatusCode::OK);
  EXPECT_TRUE(good.Send(1, Barrier(1)));
  EXPECT_TRUE(good.Answered(1));
  // The session of a broken stream can be taken up.
  LocalStream again(path(), half->session_id());
  ASSERT_TRUE(again.Send(1, Barrier(1)));
  EXPECT_TRUE(again.Answered(1));
  for (int fd : silent) close(fd);
}

TEST_F(LocalStreamTest, AClientThatDoesNotReadWaitsAlone) {
  auto client = Opened();
  auto deaf = Opened();
  LocalStream stream(path(), deaf->session_id());
  ASSERT_TRUE(deaf->Upload(5, std::vector<float>(8 << 10), 1 << 20).ok());
  std::thread writer([&] {
    for (uint64_t seq = 1; seq <= 400; ++seq) {
      std::string batch;
      CommandWriter(&batch).Fetch(seq, 5);
      if (!stream.Send(seq, batch)) return;
    }
  });
  LocalStream good(path(), client->session_id());
  for (uint64_t seq = 1; seq <= 100; ++seq) {
    ASSERT_TRUE(good.Send(seq, Barrier(seq)));
    ASSERT_TRUE(good.Answered(seq));
  }
  v1::CloseReply reply;
  EXPECT_TRUE(deaf->Close(&reply).ok());  // cuts the stream, on whose event the daemon waited
  writer.join();
}

}  // namespace
}  // namespace chx
