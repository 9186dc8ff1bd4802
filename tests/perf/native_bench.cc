// The C++ side of tests/perf/bench.py: one round, as JSON {name: [seconds per unit]}. Address of
// the daemon in $CHX_SERVER. The raw gRPC peer is a stream and a bulk service in this same process
// tree: the same library, without anything of chxd.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/ops.h"
#include "client/session.h"
#include "proto/chunk.h"
#include "proto/chxd.grpc.pb.h"

namespace chx {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Print(const char* name, double seconds, bool last = false) {
  std::printf("\"%s\": [%.9g]%s\n", name, seconds, last ? "" : ",");
}

// Answers every message with a small one: the floor for reading a scalar.
class EchoService final : public v1::SessionService::Service {
  grpc::Status Execute(grpc::ServerContext*,
                       grpc::ServerReaderWriter<v1::Event, v1::Submit>* stream) override {
    v1::Submit submit;
    v1::Event event;
    event.set_acked_batch_seq(1);
    while (stream->Read(&submit)) {
      if (!stream->Write(event)) break;
    }
    return grpc::Status::OK;
  }
};

using RawUpload = v1::TransferService::WithRawCallbackMethod_Upload<v1::TransferService::Service>;

// Copies what it is sent into one buffer: the floor for an upload.
class SinkService final : public RawUpload {
  class Reactor final : public grpc::ServerReadReactor<grpc::ByteBuffer> {
   public:
    Reactor(std::vector<char>* out, grpc::ByteBuffer* reply) : out_(out), reply_(reply) {
      StartRead(&message_);
    }
    void OnReadDone(bool ok) override {
      if (!ok) {
        const grpc::Slice empty;
        *reply_ = grpc::ByteBuffer(&empty, 1);
        return Finish(grpc::Status::OK);
      }
      std::vector<grpc::Slice> slices;
      message_.Dump(&slices).ok();
      for (const grpc::Slice& slice : slices) {
        const size_t size = std::min(slice.size(), out_->size() - position_);
        std::copy(slice.begin(), slice.begin() + size, out_->begin() + position_);
        position_ += size;
      }
      StartRead(&message_);
    }
    void OnDone() override { delete this; }

   private:
    std::vector<char>* const out_;
    grpc::ByteBuffer* const reply_;
    grpc::ByteBuffer message_;
    size_t position_ = 0;
  };
  grpc::ServerReadReactor<grpc::ByteBuffer>* Upload(grpc::CallbackServerContext*,
                                                    grpc::ByteBuffer* reply) override {
    return new Reactor(&out_, reply);
  }

 public:
  explicit SinkService(size_t bytes) : out_(bytes) {}

 private:
  std::vector<char> out_;
};

constexpr size_t kBulk = size_t{64} << 20;

void RawPeer() {
  const std::string address =
      "unix:/tmp/chx-raw-" + std::to_string(static_cast<long>(Now() * 1e6)) + ".sock";
  EchoService echo;
  SinkService sink(kBulk + 4096 * 1024);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&echo);
  builder.RegisterService(&sink);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  {
    const auto stub = v1::SessionService::NewStub(channel);
    grpc::ClientContext context;
    const auto stream = stub->Execute(&context);
    v1::Submit submit;
    submit.set_commands(std::string(96, 'x'));
    v1::Event event;
    const int n = 300;
    double start = 0;
    for (int i = -20; i < n; ++i) {
      if (i == 0) start = Now();
      stream->Write(submit);
      stream->Read(&event);
    }
    Print("scalar read: raw gRPC stream", (Now() - start) / n);
    stream->WritesDone();
    stream->Finish();
  }
  const std::vector<char> data(kBulk, 1);
  grpc::ClientContext context;
  grpc::ByteBuffer reply;
  const grpc::internal::RpcMethod method("/chx.v1.TransferService/Upload",
                                         grpc::internal::RpcMethod::CLIENT_STREAMING, channel);
  const double start = Now();
  const std::unique_ptr<grpc::ClientWriter<grpc::ByteBuffer>> writer(
      grpc::internal::ClientWriterFactory<grpc::ByteBuffer>::Create(channel.get(), method, &context,
                                                                    &reply));
  for (size_t at = 0; at < data.size(); at += kChunkBytes) {
    const grpc::Slice slice(&data[at], kChunkBytes, grpc::Slice::STATIC_SLICE);
    writer->Write(grpc::ByteBuffer(&slice, 1));
  }
  writer->WritesDone();
  writer->Finish();
  Print("upload, per byte: raw gRPC", (Now() - start) / static_cast<double>(kBulk));
  server->Shutdown();
}

void Enqueue(Session& session, bool grad, const char* name) {
  Array a = ones(session, {1});
  if (grad) a.RequireGrad();
  session.Synchronize().IgnoreError();
  // Fewer than a batch: the call alone. Again and again, as a program in its loop would.
  const int n = 200;
  std::vector<double> times;
  for (int round = 0; round < 50; ++round) {
    const double start = Now();
    for (int i = 0; i < n; ++i) {
      const Array c = a + a;
    }
    times.push_back((Now() - start) / n);
    session.Synchronize().IgnoreError();
  }
  std::nth_element(times.begin(), times.begin() + 25, times.end());
  Print(name, times[25]);
}

int Main() {
  absl::StatusOr<Ref<Session>> connected = Session::Connect(std::getenv("CHX_SERVER"));
  if (!connected.ok()) {
    std::fprintf(stderr, "%s\n", connected.status().ToString().c_str());
    return 1;
  }
  Session& session = **connected;
  std::printf("{\n");
  Enqueue(session, false, "enqueue, C++");
  Enqueue(session, true, "enqueue with graph, C++");
  const Array a = ones(session, {1});
  const int n = 200000;
  double start = Now();
  for (int i = 0; i < n; ++i) {
    const Array c = a + a;
  }
  session.Synchronize().IgnoreError();
  Print("operator through the daemon, C++", (Now() - start) / n);
  start = Now();
  for (int i = 0; i < 300; ++i) a.Item().status().IgnoreError();
  Print("scalar read: chx unix, C++", (Now() - start) / 300);
  const std::vector<char> data(kBulk, 1);
  start = Now();
  const Array big = Array::FromHost(session, data.data(), {int64_t{kBulk}}, Dtype::kUint8);
  Print("upload, per byte: chx unix, C++", (Now() - start) / static_cast<double>(kBulk));
  RawPeer();
  std::printf("\"end\": [0]}\n");
  return 0;
}

}  // namespace
}  // namespace chx

int main() { return chx::Main(); }
