// TransferService: whole arrays, in chunks, without a copy more than necessary.
#ifndef CHX_SERVER_RPC_TRANSFER_SERVICE_H_
#define CHX_SERVER_RPC_TRANSFER_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>

#include "proto/chxd.grpc.pb.h"
#include "server/rpc/auth.h"
#include "server/session/session_manager.h"

namespace chx {

using RawTransferService = v1::TransferService::WithRawCallbackMethod_Upload<
    v1::TransferService::WithRawCallbackMethod_Download<v1::TransferService::Service>>;

// Messages are parsed and made by hand, from and to raw slices: their body is their last field.
class TransferServiceImpl final : public RawTransferService {
 public:
  TransferServiceImpl(SessionManager* manager, const Authorizer* authorizer)
      : manager_(manager), authorizer_(authorizer) {}

  grpc::ServerReadReactor<grpc::ByteBuffer>* Upload(grpc::CallbackServerContext* context,
                                                    grpc::ByteBuffer* reply) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Download(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override;

 private:
  SessionManager* const manager_;
  const Authorizer* const authorizer_;
};

}  // namespace chx

#endif  // CHX_SERVER_RPC_TRANSFER_SERVICE_H_
