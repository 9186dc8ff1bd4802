// Calls a daemon as a client that knows nothing but the protocol.
#ifndef CHX_TESTS_RPC_RPC_CLIENT_H_
#define CHX_TESTS_RPC_RPC_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/chxd.grpc.pb.h"

namespace chx {

// A directory for one socket, with a path that is short enough for one, as Bazel's are not.
class SocketDirectory {
 public:
  SocketDirectory();
  ~SocketDirectory();
  std::string Socket() const { return path_ + "/chxd.sock"; }

 private:
  std::string path_;
};

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address);

// Any method of any service: sends one message of raw bytes and no more, returns the status and the
// messages of the reply, appended to *reply.
grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& token, const std::string& message, std::string* reply);

// A session of one client.
class RpcClient {
 public:
  using ExecuteStream = grpc::ClientReaderWriter<v1::Submit, v1::Event>;

  explicit RpcClient(std::shared_ptr<grpc::Channel> channel, std::string token = "");

  grpc::Status Open();
  grpc::Status Close(v1::CloseReply* reply);
  // A new stream, which takes over.
  void Connect();
  // False if the stream is cut.
  bool Send(std::string commands);
  bool Send(uint64_t batch_seq, std::string commands);
  bool Read(v1::Event* event) { return stream_->Read(event); }
  grpc::Status FinishStream();

  grpc::Status Upload(uint64_t handle, const std::vector<float>& values, size_t chunk_bytes);
  grpc::Status Download(uint64_t handle, std::vector<float>* values);

  // With the token; each is for one call.
  std::unique_ptr<grpc::ClientContext> NewContext() const;
  const std::string& session_id() const { return session_id_; }
  void set_session_id(std::string id) { session_id_ = std::move(id); }
  v1::OpenReply opened;
  uint64_t acked_event_seq = 0;

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::string token_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::TransferService::Stub> transfers_;
  std::string session_id_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<ExecuteStream> stream_;
  bool first_ = true;
  uint64_t next_batch_seq_ = 1;
};

}  // namespace chx

#endif  // CHX_TESTS_RPC_RPC_CLIENT_H_
