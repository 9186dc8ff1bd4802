// The C++ side of tests/perf/bench.py: one round, as JSON {name: [seconds per unit]}. Address of
// the daemon in $CHX_SERVER. The raw gRPC peer is a generic service in this same process: what the
// library costs that chxd's clients went without.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

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
#include "proto/frame.h"

namespace chx {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Print(const char* name, double seconds, bool last = false) {
  std::printf("\"%s\": [%.9g]%s\n", name, seconds, last ? "" : ",");
}

// Answers every message of "echo" with a small one, the floor for reading a scalar; copies what
// other methods are sent into one buffer, the floor for an upload.
class RawService final : public grpc::CallbackGenericService {
 public:
  explicit RawService(size_t bytes) : out_(bytes) {}

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor(bool echo, std::vector<char>* out) : echo_(echo), out_(out) { StartRead(&message_); }
    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::OK);
      if (echo_) return StartWrite(&reply_);
      std::vector<grpc::Slice> slices;
      message_.Dump(&slices).ok();
      for (const grpc::Slice& slice : slices) {
        const size_t size = std::min(slice.size(), out_->size() - position_);
        std::copy(slice.begin(), slice.begin() + size, out_->begin() + position_);
        position_ += size;
      }
      StartRead(&message_);
    }
    void OnWriteDone(bool) override { StartRead(&message_); }
    void OnDone() override { delete this; }

   private:
    const bool echo_;
    std::vector<char>* const out_;
    const grpc::Slice small_ = grpc::Slice("12345678");
    const grpc::ByteBuffer reply_{&small_, 1};
    grpc::ByteBuffer message_;
    size_t position_ = 0;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    return new Reactor(call->method() == "/raw/echo", &out_);
  }

  std::vector<char> out_;
};

constexpr size_t kBulk = size_t{64} << 20;

void RawPeer() {
  const std::string address =
      "unix:/tmp/chx-raw-" + std::to_string(static_cast<long>(Now() * 1e6)) + ".sock";
  RawService service(kBulk + 4096 * 1024);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
  const auto call = [&channel](const char* name, grpc::ClientContext* context) {
    const grpc::internal::RpcMethod method(name, grpc::internal::RpcMethod::BIDI_STREAMING,
                                           channel);
    return std::unique_ptr<Stream>(
        grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
            channel.get(), method, context));
  };
  grpc::ByteBuffer reply;
  {
    grpc::ClientContext context;
    const auto stream = call("/raw/echo", &context);
    const grpc::Slice slice(std::string(96, 'x'));
    const int n = 300;
    double start = 0;
    for (int i = -20; i < n; ++i) {
      if (i == 0) start = Now();
      stream->Write(grpc::ByteBuffer(&slice, 1));
      stream->Read(&reply);
    }
    Print("scalar read: raw gRPC stream", (Now() - start) / n);
    stream->WritesDone();
    stream->Finish();
  }
  const std::vector<char> data(kBulk, 1);
  grpc::ClientContext context;
  const double start = Now();
  const auto writer = call("/raw/sink", &context);
  for (size_t at = 0; at < data.size(); at += kChunkBytes) {
    const grpc::Slice slice(&data[at], kChunkBytes, grpc::Slice::STATIC_SLICE);
    writer->Write(grpc::ByteBuffer(&slice, 1));
  }
  writer->WritesDone();
  while (writer->Read(&reply)) {
  }
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
  Array x = a;
  // Each result is used, so none is left out of a recognized window.
  for (int i = 0; i < n; ++i) x = x + a;
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
