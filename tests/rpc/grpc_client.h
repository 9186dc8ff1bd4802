// Calls the services that the daemon serves by gRPC.
#ifndef CHX_TESTS_RPC_GRPC_CLIENT_H_
#define CHX_TESTS_RPC_GRPC_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace chx::server {

// `address`: a daemon's Unix socket.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address);

// Any method of any service: sends one message of raw bytes and no more, returns the status and the
// messages of the reply, appended to *reply.
grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& token, const std::string& message, std::string* reply);

// What gRPC's health service says: "SERVING", "NOT_SERVING", or why it says nothing.
std::string HealthOf(const std::shared_ptr<grpc::Channel>& channel,
                     const std::string& service = "");

}  // namespace chx::server

#endif  // CHX_TESTS_RPC_GRPC_CLIENT_H_
