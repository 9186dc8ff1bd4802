// TransferService: whole arrays, in chunks, without a copy more than necessary.
#ifndef CHX_SERVER_RPC_TRANSFER_SERVICE_H_
#define CHX_SERVER_RPC_TRANSFER_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>

#include "proto/chxd.grpc.pb.h"
#include "server/session/session_manager.h"

namespace chx {

// Registers its methods itself: generated code offers raw chunks on gRPC's few callback threads
// only, where one session's wait would hold up all others. Here each transfer has its own thread.
class TransferServiceImpl final : public grpc::Service {
 public:
  explicit TransferServiceImpl(SessionManager* manager);

 private:
  grpc::Status Upload(grpc::ServerReader<grpc::ByteBuffer>* chunks);
  grpc::Status Download(const v1::DownloadRequest& request,
                        grpc::ServerWriter<grpc::ByteBuffer>* chunks);

  SessionManager* const manager_;
};

}  // namespace chx

#endif  // CHX_SERVER_RPC_TRANSFER_SERVICE_H_
