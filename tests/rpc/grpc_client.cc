#include "tests/rpc/grpc_client.h"

#include <grpcpp/generic/generic_stub.h>

#include <chrono>

#include "tests/rpc/health.grpc.pb.h"

namespace chx::server {
namespace {

void Configure(const std::string& token, grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
}

}  // namespace

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& token, const std::string& message, std::string* reply) {
  grpc::ClientContext context;
  Configure(token, &context);
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  grpc::GenericStub stub(channel);
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  wait();
  const grpc::Slice slice(message);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  wait();
  // To the end: the status does not come before the last message is read.
  grpc::ByteBuffer buffer;
  for (call->Read(&buffer, nullptr); wait(); call->Read(&buffer, nullptr)) {
    std::vector<grpc::Slice> slices;
    if (!buffer.Dump(&slices).ok()) continue;
    for (const grpc::Slice& part : slices) {
      reply->append(reinterpret_cast<const char*>(part.begin()), part.size());
    }
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  return status;
}

std::string HealthOf(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  using grpc::health::v1::HealthCheckResponse;
  grpc::ClientContext context;
  Configure("", &context);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse reply;
  const grpc::Status status =
      grpc::health::v1::Health::NewStub(channel)->Check(&context, request, &reply);
  return status.ok() ? HealthCheckResponse::ServingStatus_Name(reply.status())
                     : status.error_message();
}

}  // namespace chx::server
