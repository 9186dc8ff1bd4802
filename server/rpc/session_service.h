// SessionService: sessions, and their op streams.
#ifndef CHX_SERVER_RPC_SESSION_SERVICE_H_
#define CHX_SERVER_RPC_SESSION_SERVICE_H_

#include <atomic>
#include <vector>

#include "proto/chxd.grpc.pb.h"
#include "server/session/session_manager.h"

namespace chx {

// Unpacks, calls the session, packs. The thread that gRPC gives to a stream is the session's lane:
// it reads, executes and answers, so that a value waits for no hand-over.
class SessionServiceImpl final : public v1::SessionService::Service {
 public:
  explicit SessionServiceImpl(SessionManager* manager) : manager_(manager) {}

  grpc::Status Open(grpc::ServerContext* context, const v1::OpenRequest* request,
                    v1::OpenReply* reply) override;
  grpc::Status Execute(grpc::ServerContext* context,
                       grpc::ServerReaderWriter<v1::Event, v1::Submit>* stream) override;
  grpc::Status Close(grpc::ServerContext* context, const v1::CloseRequest* request,
                     v1::CloseReply* reply) override;

  // Sessions that come over a Unix socket may map their arrays: there is a SegmentServer.
  void AllowSharedMemory() { shared_memory_ = true; }
  // From now on no session is opened; those there are go on.
  void StopOpening() { open_ = false; }

 private:
  SessionManager* const manager_;
  std::atomic<bool> open_{true};
  std::atomic<bool> shared_memory_{false};
};

}  // namespace chx

#endif  // CHX_SERVER_RPC_SESSION_SERVICE_H_
