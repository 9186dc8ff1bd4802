#include "server/health.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/client_unary_call.h>

#include <chrono>
#include <iostream>

namespace chx {

int CheckHealth(const std::string& address) {
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
  // HealthCheckRequest{service: ""} is empty, and SERVING is {status (field 1): 1}: two bytes.
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer reply;
  const grpc::internal::RpcMethod method("/grpc.health.v1.Health/Check",
                                         grpc::internal::RpcMethod::NORMAL_RPC, channel);
  const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      channel.get(), method, &context, request, &reply);
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (status.ok() && reply.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  const bool serving = bytes == "\x08\x01";
  std::cout << (serving ? "SERVING" : status.ok() ? "NOT_SERVING" : status.error_message()) << "\n";
  return serving ? 0 : 1;
}

}  // namespace chx
