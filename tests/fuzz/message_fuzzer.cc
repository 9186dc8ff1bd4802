// Each request message of each method, through gRPC and the daemon's own handlers. The first byte
// says which method; kSessionId stands for the id of a session that is there.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "proto/chxd.pb.h"
#include "server/daemon.h"
#include "server/native/native_backend.h"
#include "tests/fuzz/target.h"
#include "tests/rpc/rpc_client.h"

namespace chx {
namespace {

constexpr char kSessionId[] = "the session's id";  // as long as one
constexpr size_t kIdBytes = sizeof(kSessionId) - 1;

constexpr const char* kMethods[] = {
    "/chx.v1.SessionService/Open",      "/chx.v1.SessionService/Execute",
    "/chx.v1.SessionService/Close",     "/chx.v1.TransferService/Upload",
    "/chx.v1.TransferService/Download", "/chx.v1.AdminService/ListDevices",
    "/chx.v1.AdminService/ListSessions"};
constexpr size_t kNumMethods = sizeof(kMethods) / sizeof(kMethods[0]);

void Check(const grpc::Status& status) {
  if (status.ok()) return;
  std::cerr << "code " << status.error_code() << ": " << status.error_message() << std::endl;
  std::abort();
}

// For the life of the process.
struct World {
  std::unique_ptr<Backend> backend = CreateNativeBackend({1});
  std::unique_ptr<Daemon> daemon;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<RpcClient> client;

  World() {
    Options options;
    options.devices = "native:0";
    options.session_memory = 4 << 20;
    options.lease = std::chrono::milliseconds(50);  // those that Open makes go soon
    options.listeners = *ParseListen("127.0.0.1:0");
    daemon = std::move(*Daemon::Start(options, {backend.get()}));
    channel = ChannelTo(daemon->addresses()[0]);
    NewSession();
  }
  void NewSession() {
    client = std::make_unique<RpcClient>(channel);
    Check(client->Open());
    Check(client->Upload(1, {1, 2}, 100));
  }
};

}  // namespace
}  // namespace chx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static chx::World* const world = new chx::World;
  if (size == 0) return 0;
  std::string message(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t place = message.find(chx::kSessionId);
  if (place != std::string::npos) {
    message.replace(place, chx::kIdBytes, world->client->session_id());
  }
  std::string reply;
  const grpc::Status status =
      chx::CallRaw(world->channel, chx::kMethods[data[0] % chx::kNumMethods], "", message, &reply);
  // What a client sends is never the daemon's own failure.
  if (status.error_code() == grpc::StatusCode::UNKNOWN ||
      status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    chx::Check(status);
  }
  // Closed by what we sent, or its lease has ended.
  std::vector<float> values;
  if (!world->client->Download(1, &values).ok()) world->NewSession();
  return 0;
}

namespace chx {

std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds;
  const auto add = [&seeds](char method, const google::protobuf::Message& message) {
    seeds.push_back(std::string(1, method) + message.SerializeAsString());
  };
  v1::OpenRequest open;
  open.set_min_protocol(1);
  open.set_max_protocol(1);
  open.set_client_name("fuzz");
  v1::OpSignature* op = open.add_ops();
  op->set_name("add");
  op->set_hash(7);
  add(0, open);
  open.set_resume_session_id(kSessionId);
  add(0, open);
  v1::Submit submit;
  submit.set_session_id(kSessionId);
  submit.set_batch_seq(1);
  submit.set_num_commands(1);
  std::string commands;
  CommandWriter(&commands).Fetch(1, 1);
  submit.set_commands(commands);
  add(1, submit);
  v1::CloseRequest close;
  close.set_session_id(kSessionId);
  add(2, close);
  v1::UploadChunk upload;
  upload.mutable_header()->set_session_id(kSessionId);
  upload.mutable_header()->set_handle(2);
  upload.mutable_header()->set_dtype(7);
  upload.mutable_header()->add_shape(2);
  upload.set_data("12345678");
  add(3, upload);
  v1::DownloadRequest download;
  download.set_session_id(kSessionId);
  download.set_handle(1);
  add(4, download);
  add(5, v1::ListDevicesRequest());
  add(6, v1::ListSessionsRequest());
  return seeds;
}

}  // namespace chx
