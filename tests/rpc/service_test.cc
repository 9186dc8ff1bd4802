// A whole daemon in this process, called over TCP and Unix sockets.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <chrono>
#include <memory>
#include <thread>

#include "absl/strings/match.h"
#include "ops/error.h"
#include "proto/command_codec.h"
#include "proto/messages.h"
#include "tests/rpc/daemon_fixture.h"

namespace chx::server {
namespace {

constexpr char kToken[] = "correct horse battery staple";

std::string Fetched(Handle handle) {
  std::string batch;
  CommandWriter(&batch).Write(command::Fetch{1, handle});
  return batch;
}

using ServiceTest = DaemonTest;

std::vector<v1::Call> AllCalls() {
  std::vector<v1::Call> calls;
  const auto* const methods = v1::Call::descriptor()->FindOneofByName("method");
  for (int i = 0; i < methods->field_count(); ++i) {
    calls.emplace_back();
    v1::Call::GetReflection()->MutableMessage(&calls.back(), methods->field(i));
  }
  return calls;
}

TEST_F(ServiceTest, EveryCallAsksForTheToken) {
  options.credentials.token = kToken;
  options.listeners = *ParseListen(absl::StrCat("127.0.0.1:0,unix:", directory_.Socket()));
  Start();
  const std::vector<v1::Call> calls = AllCalls();
  EXPECT_EQ(calls.size(), 26u);
  for (const std::string& address : daemon_->addresses()) {
    for (const v1::Call& call : calls) {
      SCOPED_TRACE(address + call.ShortDebugString());
      const auto code = [&](const std::string& token) {
        FrameClient client(address, token);
        client.Write(FrameKind::kCall, call);
        client.WriteData("");  // an upload's end
        v1::Reply reply;
        return client.ReadReply(&reply).code();
      };
      if (call.has_health()) {
        // To the network, which the front keeps out, nothing is public.
        const bool local = absl::StartsWith(address, "unix:");
        EXPECT_EQ(code(""), local ? absl::StatusCode::kOk : absl::StatusCode::kUnauthenticated);
        EXPECT_EQ(code(kToken), absl::StatusCode::kOk);
        continue;
      }
      EXPECT_EQ(code(""), absl::StatusCode::kUnauthenticated);
      EXPECT_EQ(code("correct horse battery stapl3"), absl::StatusCode::kUnauthenticated);
      EXPECT_EQ(code("correct"), absl::StatusCode::kUnauthenticated);
      if (call.has_drain()) continue;  // it would end the test: no session opens after it
      // The empty message is an error to most, but one that a handler found.
      const absl::StatusCode right = code(kToken);
      EXPECT_NE(right, absl::StatusCode::kUnauthenticated);
      EXPECT_NE(right, absl::StatusCode::kUnavailable);
    }
    RpcClient client(address, kToken);
    EXPECT_TRUE(client.Open().ok());
    client.Connect();
    ASSERT_TRUE(client.Upload(5, {1, 2}, 100).ok());
    ASSERT_TRUE(client.Send(Fetched(5)));
    v1::Event event;
    EXPECT_TRUE(client.Read(&event));
    // Nor is there a stream without it.
    RpcClient thief(address, "");
    thief.set_session_id(client.session_id());
    thief.Connect();
    thief.Send(Fetched(5));
    EXPECT_FALSE(thief.Read(&event));
  }
}

// A former token leads to sessions that there are, as long as they last, and to nothing else.
TEST_F(ServiceTest, ATokenThatIsReplacedKeepsItsSessionsAndOpensNone) {
  options.credentials.token = kToken;
  Start();
  RpcClient client = Opened();
  Credentials changed = options.credentials;
  changed.token = "the token from now on";
  ASSERT_TRUE(daemon_->SetCredentials(changed).ok());
  client.Connect();  // with the former one
  ASSERT_TRUE(client.Send(""));
  for (const v1::Call& call : AllCalls()) {
    FrameClient once(address(), kToken);
    once.Write(FrameKind::kCall, call);
    once.WriteData("");  // an upload's end, which the daemon would wait for
    v1::Reply reply;
    const absl::Status status = once.ReadReply(&reply);
    const bool of_a_session = call.has_close() || call.has_cancel() || call.has_upload() ||
                              call.has_download() || call.has_start_run() || call.has_watch_run() ||
                              call.has_control_run() || call.has_list_runs() ||
                              call.has_describe_data() || call.has_read_data();
    EXPECT_EQ(absl::IsUnauthenticated(status), !of_a_session && !call.has_health())
        << call.ShortDebugString() << status;
  }
  EXPECT_TRUE(absl::IsUnauthenticated(RpcClient(address(), kToken).Open()));
  EXPECT_TRUE(RpcClient(address(), changed.token).Open().ok());
  daemon_->ForgetFormerTokens();
  v1::Call close;
  v1::Reply reply;
  close.mutable_close()->set_session_id(std::string(16, 'x'));
  EXPECT_TRUE(absl::IsNotFound(CallOnce(address(), kToken, close, &reply)));
  v1::CloseReply closed;
  ASSERT_TRUE(client.Close(&closed).ok());
  daemon_->ForgetFormerTokens();
  EXPECT_TRUE(absl::IsUnauthenticated(CallOnce(address(), kToken, close, &reply)));
}

TEST_F(ServiceTest, UnknownSessionsDoNotExist) {
  Start();
  RpcClient client(address());
  client.set_session_id(std::string(16, 'x'));
  EXPECT_EQ(client.Open().code(), absl::StatusCode::kNotFound);
  client.set_session_id(std::string(16, 'x'));
  v1::CloseReply reply;
  EXPECT_EQ(client.Close(&reply).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client.Upload(1, {1}, 100).code(), absl::StatusCode::kNotFound);
  std::vector<float> values;
  EXPECT_EQ(client.Download(1, &values).code(), absl::StatusCode::kNotFound);
  client.Connect();
  client.Send(Fetched(1));
  EXPECT_EQ(client.stream().End().code(), absl::StatusCode::kNotFound);
}

TEST_F(ServiceTest, VersionsAndSizesAreChecked) {
  Start();
  const auto code = [this](uint32_t min, uint32_t max, size_t name) {
    v1::Hello hello;
    hello.set_min_protocol(min);
    hello.set_max_protocol(max);
    v1::Call call;
    call.mutable_open()->set_client_name(std::string(name, 'x'));
    std::string bytes;
    AppendFrame(FrameKind::kHello, hello, &bytes);
    AppendFrame(FrameKind::kCall, call, &bytes);
    const int fd = ConnectTo(address());
    SocketStream stream(fd);
    EXPECT_TRUE(SendAll(&stream, bytes));
    FrameReader reader(&stream, 1 << 20);
    FrameKind kind;
    absl::string_view payload;
    v1::Reply reply;
    EXPECT_EQ(reader.Next(&kind, &payload), FrameReader::Result::kFrame);
    EXPECT_TRUE(reply.ParseFromArray(payload.data(), static_cast<int>(payload.size())));
    close(fd);
    return wire::FromMessage(reply.status()).code();
  };
  constexpr uint32_t kOurs = wire::kProtocolVersion;
  EXPECT_EQ(code(kOurs, kOurs, 5), absl::StatusCode::kOk);
  EXPECT_EQ(code(kOurs - 1, kOurs + 6, 5), absl::StatusCode::kOk);
  EXPECT_EQ(code(kOurs + 1, kOurs + 6, 5), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code(kOurs - 1, kOurs - 1, 5), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code(kOurs, kOurs, 5000), absl::StatusCode::kInvalidArgument);
}

TEST_F(ServiceTest, WhatClientsCallThingsIsEscaped) {
  Start();
  FrameClient client(address());
  v1::Call call;
  call.mutable_open()->set_client_name("a\x1b[31mb\n");
  v1::Reply reply;
  ASSERT_TRUE(client.Call(call, &reply).ok());
  EXPECT_EQ(Sessions().sessions(0).client_name(), "a\\x1b[31mb\\x0a");
  // An event with a text that is no UTF-8 could not be read.
  RpcClient session = Opened();
  std::string batch;
  CommandWriter(&batch).Write(command::Configure{"\xff\x1b", Scalar(true)});
  ASSERT_TRUE(session.Send(batch));
  ASSERT_TRUE(session.Send(Fetched(5)));
  v1::Event event;
  std::string errors;
  while (errors.empty() && session.Read(&event)) {
    for (const v1::OpError& error : event.errors()) errors += error.error().message();
  }
  EXPECT_NE(errors.find("\\xff\\x1b"), std::string::npos) << errors;
}

TEST_F(ServiceTest, AMalformedBatchClosesItsSessionOnly) {
  Start();
  RpcClient other = Opened();
  RpcClient client = Opened();
  ASSERT_TRUE(client.Upload(5, {1}, 100).ok());
  client.Send("nonsense");
  const absl::Status status = client.stream().End();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("at byte 0"), absl::string_view::npos);
  EXPECT_EQ(client.Open().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(other.Upload(5, {1}, 100).ok());
  ASSERT_TRUE(other.Send(Fetched(5)));
  v1::Event event;
  EXPECT_TRUE(other.Read(&event));
}

TEST_F(ServiceTest, ANewerStreamTakesOverAndSeesWhatWasNotAcknowledged) {
  Start();
  RpcClient client = Opened();
  ASSERT_TRUE(client.Upload(5, {1, 2}, 100).ok());
  ASSERT_TRUE(client.Send(Fetched(5)));
  v1::Event event;
  ASSERT_TRUE(client.Read(&event));
  RpcClient second(address());
  second.set_session_id(client.session_id());
  ASSERT_TRUE(second.Open().ok());
  EXPECT_EQ(second.opened.last_batch_seq(), 1u);
  second.Connect();
  ASSERT_TRUE(second.Send(1, ""));
  v1::Event again;
  ASSERT_TRUE(second.Read(&again));
  EXPECT_EQ(again.event_seq(), event.event_seq());
  EXPECT_EQ(again.values(0).data(), event.values(0).data());
  EXPECT_FALSE(client.Read(&event));
  ASSERT_TRUE(second.Send(2, Fetched(5)));
  while (second.Read(&again) && again.event_seq() < 2) {
  }
  EXPECT_EQ(again.acked_batch_seq(), 2u);
}

// A peer that does not read must neither stop its own take-over nor anybody else.
TEST_F(ServiceTest, AStreamThatIsNotReadCanBeTakenOver) {
  Start();
  RpcClient client = Opened();
  ASSERT_TRUE(client.Upload(5, std::vector<float>(16 << 10), 1 << 20).ok());
  std::string batch;
  CommandWriter writer(&batch);
  for (uint64_t i = 0; i < 400; ++i) writer.Write(command::Fetch{i, 5});  // 25 MiB of answers
  ASSERT_TRUE(client.Send(batch));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  RpcClient second(address());
  second.set_session_id(client.session_id());
  ASSERT_TRUE(second.Open().ok());
  second.Connect();
  ASSERT_TRUE(second.Send(second.opened.last_batch_seq(), ""));
  if (second.opened.last_batch_seq() == 0) {
    ASSERT_TRUE(second.Send(1, batch));
  }
  int values = 0;
  v1::Event event;
  while (values < 400 && second.Read(&event)) values += event.values_size();
  EXPECT_EQ(values, 400);
}

TEST_F(ServiceTest, MemoryIsFreedWhenTheLeaseEnds) {
  options.lease = std::chrono::milliseconds(200);
  Start();
  {
    RpcClient client = Opened();
    ASSERT_TRUE(client.Send(""));
    ASSERT_TRUE(client.Upload(5, std::vector<float>(1 << 20), 1 << 20).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ASSERT_EQ(Sessions().sessions_size(), 1);  // a stream keeps it
    EXPECT_TRUE(Sessions().sessions(0).attached());
    EXPECT_GE(Sessions().sessions(0).memory_bytes(), uint64_t{4} << 20);
    EXPECT_TRUE(client.FinishStream().ok());
  }
  const auto start = std::chrono::steady_clock::now();
  while (Sessions().sessions_size() > 0) {
    ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1200));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST_F(ServiceTest, CloseReportsWhatNobodyRead) {
  Start();
  RpcClient client = Opened();
  std::string batch;
  CommandWriter(&batch).ApplyOp({60000, 0, 0, 0, {}, {}, {}});
  ASSERT_TRUE(client.Send(batch));
  v1::Event event;
  ASSERT_TRUE(client.Read(&event));
  ASSERT_EQ(event.errors_size(), 1);
  v1::CloseReply reply;
  EXPECT_TRUE(client.Close(&reply).ok());
  EXPECT_EQ(reply.unread_errors_size(), 1);
  EXPECT_EQ(Sessions().sessions_size(), 0);
}

TEST_F(ServiceTest, AUnixSocketIsForItsOwnerAndStaleOnesAreReplaced) {
  const std::string path = directory_.Socket();
  options.listeners = *ParseListen("unix:" + path);
  Start();
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const std::unique_ptr<Daemon> first = std::move(daemon_);
  EXPECT_EQ(TryStart().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(RpcClient("unix:" + path).Open().ok());  // the first is not disturbed
}

TEST_F(ServiceTest, ADrainingDaemonFinishesStreamsAndOpensNone) {
  Start();
  auto client = std::make_unique<RpcClient>(Opened());
  ASSERT_TRUE(client->Upload(5, {1}, 100).ok());
  ASSERT_TRUE(client->Send(Fetched(5)));
  v1::Event event;
  ASSERT_TRUE(client->Read(&event));
  EXPECT_FALSE(event.draining());
  std::thread drain([this] { daemon_->Drain(std::chrono::seconds(20)); });
  ASSERT_TRUE(client->Read(&event));
  EXPECT_TRUE(event.draining());  // its client is told
  v1::Call health;
  health.mutable_health();
  v1::Reply reply;
  EXPECT_TRUE(CallOnce(address(), "", health, &reply).ok());
  EXPECT_FALSE(reply.health().serving());
  RpcClient late(address());
  EXPECT_EQ(late.Open().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(client->Send(Fetched(5)));
  EXPECT_TRUE(client->Read(&event));
  // A stream that begins now is told, too.
  RpcClient second(address());
  second.set_session_id(client->session_id());
  ASSERT_TRUE(second.Open().ok());
  second.Connect();
  ASSERT_TRUE(second.Send(2, ""));
  event.Clear();
  while (!event.draining()) ASSERT_TRUE(second.Read(&event));
  EXPECT_TRUE(second.FinishStream().ok());
  const auto start = std::chrono::steady_clock::now();
  drain.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace chx::server
