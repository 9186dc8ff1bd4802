// A whole daemon in this process, called over TCP and Unix sockets.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <thread>

#include "absl/functional/function_ref.h"
#include "ops/error.h"
#include "ops/registry.h"
#include "proto/command.h"
#include "proto/wire.h"
#include "server/daemon.h"
#include "server/native/native_backend.h"
#include "tests/rpc/rpc_client.h"

namespace chx {
namespace {

constexpr char kToken[] = "correct horse battery staple";
constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
constexpr char kHealth[] = "/grpc.health.v1.Health/Check";

std::string Fetched(Handle handle) {
  std::string batch;
  CommandWriter(&batch).Fetch(1, handle);
  return batch;
}

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() : backend_(CreateNativeBackend({})) {
    options_.devices = "native:0";
    options_.session_memory = 64 << 20;
    options_.lease = std::chrono::seconds(30);
    options_.listeners = *ParseListen("127.0.0.1:0");
  }

  absl::Status TryStart() {
    absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(options_, {backend_.get()});
    if (!daemon.ok()) return daemon.status();
    daemon_ = *std::move(daemon);
    channel_ = ChannelTo(daemon_->addresses()[0]);
    return absl::OkStatus();
  }
  void Start() {
    const absl::Status status = TryStart();
    ASSERT_TRUE(status.ok()) << status;
  }
  RpcClient Opened() {
    RpcClient client(channel_);
    const grpc::Status status = client.Open();
    EXPECT_TRUE(status.ok()) << status.error_message();
    client.Connect();
    return client;
  }
  v1::ListSessionsReply Sessions() {
    v1::ListSessionsReply reply;
    grpc::ClientContext context;
    EXPECT_TRUE(v1::AdminService::NewStub(channel_)->ListSessions(&context, {}, &reply).ok());
    return reply;
  }

  SocketDirectory directory_;
  std::unique_ptr<Backend> backend_;
  Options options_;
  std::unique_ptr<Daemon> daemon_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ServiceTest, EveryMethodOfEveryServiceAsksForTheToken) {
  options_.token = kToken;
  options_.listeners = *ParseListen(absl::StrCat("127.0.0.1:0,unix:", directory_.Socket()));
  Start();
  std::vector<std::string> methods = {kReflection};
  const auto* file =
      google::protobuf::DescriptorPool::generated_pool()->FindFileByName("proto/chxd.proto");
  ASSERT_NE(file, nullptr);
  for (int s = 0; s < file->service_count(); ++s) {
    for (int m = 0; m < file->service(s)->method_count(); ++m) {
      methods.push_back(absl::StrCat("/", file->service(s)->full_name(), "/",
                                     file->service(s)->method(m)->name()));
    }
  }
  EXPECT_EQ(methods.size(), 8u);
  for (const std::string& address : daemon_->addresses()) {
    const auto channel = ChannelTo(address);
    for (const std::string& method : methods) {
      SCOPED_TRACE(address + method);
      std::string reply;
      const auto code = [&](const std::string& token) {
        return CallRaw(channel, method, token, "", &reply).error_code();
      };
      EXPECT_EQ(code(""), grpc::StatusCode::UNAUTHENTICATED);
      EXPECT_EQ(code("correct horse battery stapl3"), grpc::StatusCode::UNAUTHENTICATED);
      EXPECT_EQ(code("correct"), grpc::StatusCode::UNAUTHENTICATED);
      EXPECT_EQ(reply, "");
      // The empty message is an error to most methods, but one that a handler found.
      const grpc::StatusCode right = code(kToken);
      EXPECT_NE(right, grpc::StatusCode::UNAUTHENTICATED);
      EXPECT_NE(right, grpc::StatusCode::UNAVAILABLE);
      EXPECT_NE(right, grpc::StatusCode::DEADLINE_EXCEEDED);
    }
    std::string reply;
    EXPECT_TRUE(CallRaw(channel, kHealth, "", "", &reply).ok());
    EXPECT_EQ(reply, "\x08\x01");
    RpcClient client(channel, kToken);
    EXPECT_TRUE(client.Open().ok());
    client.Connect();
    ASSERT_TRUE(client.Upload(5, {1, 2}, 100).ok());
    ASSERT_TRUE(client.Send(Fetched(5)));
    v1::Event event;
    EXPECT_TRUE(client.Read(&event));
  }
}

TEST_F(ServiceTest, ReflectionKnowsTheServices) {
  Start();
  std::string services;  // ServerReflectionRequest{list_services (7): ""}
  EXPECT_TRUE(CallRaw(channel_, kReflection, "", std::string("\x3a\x00", 2), &services).ok());
  for (const char* name : {"chx.v1.SessionService", "chx.v1.TransferService", "chx.v1.AdminService",
                           "grpc.health.v1.Health"}) {
    EXPECT_NE(services.find(name), std::string::npos) << name;
  }
  std::string file;  // {file_containing_symbol (4)}
  EXPECT_TRUE(CallRaw(channel_, kReflection, "",
                      "\x22\x16"
                      "chx.v1.TransferService",
                      &file)
                  .ok());
  EXPECT_NE(file.find("proto/chxd.proto"), std::string::npos);
}

TEST_F(ServiceTest, UnknownSessionsDoNotExist) {
  Start();
  RpcClient client(channel_);
  client.set_session_id(std::string(16, 'x'));
  EXPECT_EQ(client.Open().error_code(), grpc::StatusCode::NOT_FOUND);
  client.set_session_id(std::string(16, 'x'));
  v1::CloseReply reply;
  EXPECT_EQ(client.Close(&reply).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(client.Upload(1, {1}, 100).error_code(), grpc::StatusCode::NOT_FOUND);
  std::vector<float> values;
  EXPECT_EQ(client.Download(1, &values).error_code(), grpc::StatusCode::NOT_FOUND);
  client.Connect();
  client.Send(Fetched(1));
  EXPECT_EQ(client.FinishStream().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServiceTest, OpenChecksVersionsAndSizes) {
  Start();
  const auto code = [this](uint32_t min, uint32_t max, size_t name) {
    v1::OpenRequest request;
    request.set_min_protocol(min);
    request.set_max_protocol(max);
    request.set_client_name(std::string(name, 'x'));
    v1::OpenReply reply;
    grpc::ClientContext context;
    return v1::SessionService::NewStub(channel_)->Open(&context, request, &reply).error_code();
  };
  EXPECT_EQ(code(1, 1, 5), grpc::StatusCode::OK);
  EXPECT_EQ(code(2, 9, 5), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(code(0, 0, 5), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(code(1, 1, 5000), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServiceTest, ArraysComeBackAsTheyWere) {
  Start();
  RpcClient client = Opened();
  uint64_t handle = 1;
  for (size_t size : {0, 1, 1000, 300000}) {
    std::vector<float> values(size), back;
    for (size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i) * 0.5f;
    for (size_t chunk : {1 << 20, 4000, 1 << 18}) {
      if (chunk == 4000 && size > 10000) continue;
      const grpc::Status up = client.Upload(++handle, values, chunk);
      ASSERT_TRUE(up.ok()) << up.error_message();
      const grpc::Status down = client.Download(handle, &back);
      ASSERT_TRUE(down.ok()) << down.error_message();
      EXPECT_EQ(back, values);
    }
  }
}

TEST_F(ServiceTest, BadTransfersAreErrorsOfTheirCallOnly) {
  Start();
  RpcClient client = Opened();
  EXPECT_TRUE(client.Upload(1, {1, 2, 3}, 100).ok());
  EXPECT_EQ(client.Upload(1, {1, 2, 3}, 100).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client.Upload(0, {1, 2, 3}, 100).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const grpc::Status large = client.Upload(2, std::vector<float>(30 << 20), 1 << 20);
  EXPECT_EQ(large.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(KindOf(wire::FromGrpc(large)), ErrorKind::kMemory);
  std::vector<float> values;
  EXPECT_FALSE(client.Download(99, &values).ok());
  std::string reply;
  for (const char* message : {"\x12\x7f", "nonsense", "\x0a\xff\xff\xff\xff\x0f", "\x12\x01x"}) {
    EXPECT_FALSE(CallRaw(channel_, "/chx.v1.TransferService/Upload", "", message, &reply).ok());
  }
  EXPECT_TRUE(client.Download(1, &values).ok());
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
}

TEST_F(ServiceTest, ACutUploadLeavesNothing) {
  Start();
  RpcClient client = Opened();
  {
    const auto context = client.NewContext();
    v1::UploadReply reply;
    const auto writer = v1::TransferService::NewStub(channel_)->Upload(context.get(), &reply);
    v1::UploadChunk chunk;
    chunk.mutable_header()->set_session_id(client.session_id());
    chunk.mutable_header()->set_handle(9);
    chunk.mutable_header()->add_shape(10 << 20);
    chunk.mutable_header()->set_dtype(static_cast<uint32_t>(Dtype::kFloat32));
    chunk.set_data(std::string(1 << 20, 'x'));
    EXPECT_TRUE(writer->Write(chunk));
    for (int i = 0; i < 500 && Sessions().sessions(0).memory_bytes() < (40 << 20); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    context->TryCancel();
    EXPECT_FALSE(writer->Finish().ok());
  }
  // The handle and the memory are free again.
  grpc::Status status;
  for (int i = 0; i < 500; ++i) {
    status = client.Upload(9, std::vector<float>(12 << 20), 1 << 20);
    if (status.ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(ServiceTest, AMalformedBatchClosesItsSessionOnly) {
  Start();
  RpcClient other = Opened();
  RpcClient client = Opened();
  ASSERT_TRUE(client.Upload(5, {1}, 100).ok());
  client.Send("nonsense");
  const grpc::Status status = client.FinishStream();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("at byte 0"), std::string::npos);
  EXPECT_EQ(client.Open().error_code(), grpc::StatusCode::NOT_FOUND);
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
  RpcClient second(channel_);
  second.set_session_id(client.session_id());
  ASSERT_TRUE(second.Open().ok());
  EXPECT_EQ(second.opened.last_batch_seq(), 1u);
  second.Connect();
  ASSERT_TRUE(second.Send(1, ""));
  v1::Event again;
  ASSERT_TRUE(second.Read(&again));
  EXPECT_EQ(again.event_seq(), event.event_seq());
  EXPECT_EQ(again.values(0).data(), event.values(0).data());
  EXPECT_EQ(client.FinishStream().error_code(), grpc::StatusCode::CANCELLED);
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
  for (uint64_t i = 0; i < 400; ++i) writer.Fetch(i, 5);  // 25 MiB of answers
  ASSERT_TRUE(client.Send(batch));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  RpcClient second(ChannelTo(daemon_->addresses()[0]));
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
  options_.lease = std::chrono::milliseconds(200);
  Start();
  {
    RpcClient client = Opened();
    ASSERT_TRUE(client.Send(""));
    ASSERT_TRUE(client.Upload(5, std::vector<float>(1 << 20), 1 << 20).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ASSERT_EQ(Sessions().sessions_size(), 1);  // a stream keeps it
    EXPECT_TRUE(Sessions().sessions(0).attached());
    EXPECT_GE(Sessions().sessions(0).memory_bytes(), uint64_t{4} << 20);
    client.FinishStream();
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
  CommandWriter(&batch).ApplyOp(60000, 0, 0, 0, {}, {}, {});
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
  options_.listeners = *ParseListen("unix:" + path);
  Start();
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const std::unique_ptr<Daemon> first = std::move(daemon_);
  EXPECT_EQ(TryStart().code(), absl::StatusCode::kAlreadyExists);
  Opened();  // the first is not disturbed
}

TEST_F(ServiceTest, ADrainingDaemonFinishesStreamsAndOpensNone) {
  Start();
  auto client = std::make_unique<RpcClient>(Opened());
  ASSERT_TRUE(client->Upload(5, {1}, 100).ok());
  ASSERT_TRUE(client->Send(Fetched(5)));
  v1::Event event;
  ASSERT_TRUE(client->Read(&event));
  std::thread drain([this] { daemon_->Drain(std::chrono::seconds(20)); });
  std::string reply;
  for (int i = 0; i < 500 && reply != "\x08\x02"; ++i) {
    reply.clear();
    CallRaw(channel_, kHealth, "", "", &reply);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(reply, "\x08\x02");  // NOT_SERVING
  RpcClient late(channel_);
  EXPECT_EQ(late.Open().error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(client->Send(Fetched(5)));
  EXPECT_TRUE(client->Read(&event));
  EXPECT_TRUE(client->FinishStream().ok());
  const auto start = std::chrono::steady_clock::now();
  drain.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

// Not checks: a shared machine's speed is nobody's fault.
TEST_F(ServiceTest, Speed) {
  options_.listeners = *ParseListen("unix:" + directory_.Socket());
  Start();
  RpcClient client = Opened();
  ASSERT_TRUE(client.Upload(5, {1}, 100).ok());
  using Clock = std::chrono::steady_clock;
  v1::Event event;
  std::vector<double> trips;
  for (int i = 0; i < 2000; ++i) {
    const auto start = Clock::now();
    ASSERT_TRUE(client.Send(Fetched(5)) && client.Read(&event));
    client.acked_event_seq = event.event_seq();
    trips.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::nth_element(trips.begin(), trips.begin() + 1000, trips.end());
  std::cout << "a read: " << trips[1000] << " us" << std::endl;
  const auto report = [&](const char* what, absl::FunctionRef<void(CommandWriter*)> write) {
    constexpr int kBatches = 2000, kCommands = 500;
    const auto start = Clock::now();
    for (int i = 0; i < kBatches; ++i) {
      std::string batch;
      CommandWriter writer(&batch);
      for (int j = 0; j < kCommands; ++j) write(&writer);
      ASSERT_TRUE(client.Send(batch));
    }
    ASSERT_TRUE(client.Send(Fetched(5)));
    do {
      ASSERT_TRUE(client.Read(&event));
    } while (event.values_size() == 0);
    client.acked_event_seq = event.event_seq();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::cout << what << ": " << kBatches * kCommands / seconds / 1e6 << " M/s" << std::endl;
  };
  report("commands that do nothing", [](CommandWriter* writer) { writer->DefineLocation(1, ""); });
  const auto add = static_cast<uint16_t>(OpRegistry::Global().Find("add")->id + 1);
  const CommandOperand inputs[] = {CommandOperand(Handle{5}), CommandOperand(Handle{5})};
  Handle next = 10;
  report("add of one element, released", [&](CommandWriter* writer) {
    const Handle handle = next++;
    writer->ApplyOp(add, 0, 0, 0, inputs, {}, {&handle, 1});
    writer->Release({&handle, 1});
  });
}

}  // namespace
}  // namespace chx
