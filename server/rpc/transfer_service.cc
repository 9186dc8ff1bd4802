#include "server/rpc/transfer_service.h"

#include <grpcpp/support/method_handler.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "ops/error.h"
#include "proto/chunk.h"
#include "proto/wire.h"

namespace chx {
namespace {

// Receives one array.
class Uploader {
 public:
  explicit Uploader(SessionManager* manager) : manager_(manager) {}

  absl::Status Receive(const grpc::ByteBuffer& message) {
    CHX_RETURN_IF_ERROR(ParseChunk(message, &chunk_));
    if (!sink_.has_value()) CHX_RETURN_IF_ERROR(Begin());
    for (absl::string_view piece : chunk_.pieces) CHX_RETURN_IF_ERROR(sink_->Write(piece));
    return absl::OkStatus();
  }
  absl::Status Finish() {
    if (!sink_.has_value()) return absl::InvalidArgumentError("[upload] expects a header");
    return sink_->Finish();
  }

 private:
  absl::Status Begin() {
    v1::UploadHeader header;
    if (!header.ParseFromString(chunk_.header)) {
      return absl::InvalidArgumentError("[upload] expects a header in the first chunk");
    }
    record_ = manager_->Find(header.session_id());
    if (record_ == nullptr) return absl::NotFoundError("no such session");
    CHX_RETURN_IF_ERROR(wire::CheckArrayHeader("upload", header.shape_size(), header.dtype()));
    if (header.device() > 65535) {
      return DeviceError("[upload] expects a device number, got ", header.device());
    }
    CHX_ASSIGN_OR_RETURN(Session::UploadSink sink,
                         record_->session->BeginUpload(
                             header.handle(), static_cast<Dtype>(header.dtype()),
                             absl::MakeConstSpan(header.shape().data(), header.shape_size()),
                             static_cast<DeviceId>(header.device())));
    sink_ = std::move(sink);
    return absl::OkStatus();
  }

  SessionManager* const manager_;
  SessionRecordPtr record_;  // outlives the sink
  ParsedChunk chunk_;
  absl::optional<Session::UploadSink> sink_;
};

// gRPC may hold on to a slice after the write has returned: it owns its share of the data.
grpc::Slice SliceOf(const std::shared_ptr<std::string>& data, size_t offset, size_t size) {
  if (size == 0) return grpc::Slice();
  using Owner = std::shared_ptr<std::string>;
  return grpc::Slice(
      &(*data)[offset], size, [](void* owner) { delete static_cast<Owner*>(owner); },
      new Owner(data));
}

}  // namespace

TransferServiceImpl::TransferServiceImpl(SessionManager* manager) : manager_(manager) {
  using grpc::internal::RpcMethod;
  using grpc::internal::RpcServiceMethod;
  AddMethod(new RpcServiceMethod(
      "/chx.v1.TransferService/Upload", RpcMethod::CLIENT_STREAMING,
      new grpc::internal::ClientStreamingHandler<TransferServiceImpl, grpc::ByteBuffer,
                                                 v1::UploadReply>(
          [](TransferServiceImpl* self, grpc::ServerContext*,
             grpc::ServerReader<grpc::ByteBuffer>* chunks,
             v1::UploadReply*) { return self->Upload(chunks); },
          this)));
  AddMethod(new RpcServiceMethod(
      "/chx.v1.TransferService/Download", RpcMethod::SERVER_STREAMING,
      new grpc::internal::ServerStreamingHandler<TransferServiceImpl, v1::DownloadRequest,
                                                 grpc::ByteBuffer>(
          [](TransferServiceImpl* self, grpc::ServerContext*, const v1::DownloadRequest* request,
             grpc::ServerWriter<grpc::ByteBuffer>* chunks) {
            return self->Download(*request, chunks);
          },
          this)));
}

grpc::Status TransferServiceImpl::Upload(grpc::ServerReader<grpc::ByteBuffer>* chunks) {
  Uploader uploader(manager_);
  grpc::ByteBuffer message;
  while (chunks->Read(&message)) {
    const absl::Status status = uploader.Receive(message);
    if (!status.ok()) return wire::ToGrpc(status);
  }
  return wire::ToGrpc(uploader.Finish());
}

grpc::Status TransferServiceImpl::Download(const v1::DownloadRequest& request,
                                           grpc::ServerWriter<grpc::ByteBuffer>* chunks) {
  const SessionRecordPtr record = manager_->Find(request.session_id());
  if (record == nullptr) return wire::ToGrpc(absl::NotFoundError("no such session"));
  // The client waits for its stream before it asks.
  const uint64_t last = record->last_batch_seq;
  if (request.after_batch_seq() > last) {
    return wire::ToGrpc(
        absl::FailedPreconditionError(absl::StrCat("[download] batch ", request.after_batch_seq(),
                                                   " is not applied yet: ", last, " is the last")));
  }
  MutexLock lock(&record->download_mutex);
  absl::StatusOr<Session::HostCopy> copy = record->session->ReadArray(request.handle());
  if (!copy.ok()) return wire::ToGrpc(copy.status());
  v1::DownloadHeader header;
  header.set_dtype(static_cast<uint32_t>(copy->dtype));
  for (int64_t dim : copy->shape) header.add_shape(dim);
  std::string header_bytes = header.SerializeAsString();
  const auto data = std::make_shared<std::string>(std::move(copy->data));
  size_t sent = 0;
  do {
    const size_t size = std::min(kChunkBytes, data->size() - sent);
    if (!chunks->Write(MakeChunk(header_bytes, SliceOf(data, sent, size)))) {
      return wire::ToGrpc(absl::CancelledError("the stream is cut"));
    }
    header_bytes.clear();
    sent += size;
  } while (sent < data->size());
  return grpc::Status::OK;
}

}  // namespace chx
