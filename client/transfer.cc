// Bulk data of a Connection: raw chunks, whose bodies are neither copied into a message nor out.
#include <grpcpp/impl/codegen/sync_stream.h>

#include <algorithm>
#include <cstring>

#include "client/connection.h"
#include "ops/error.h"
#include "proto/chunk.h"

namespace chx {
namespace {

grpc::ByteBuffer Serialized(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

absl::optional<DeviceId> Connection::SharingDevice() const {
  if (segments_ == nullptr || !segments_->usable()) return absl::nullopt;
  const auto it = std::find(shares_.begin(), shares_.end(), true);
  if (it == shares_.end()) return absl::nullopt;
  return static_cast<DeviceId>(it - shares_.begin());
}

absl::Status Connection::Upload(Handle handle, Dtype dtype, absl::Span<const int64_t> shape,
                                DeviceId device, absl::string_view data) {
  calls_.fetch_add(1, std::memory_order_relaxed);
  v1::UploadHeader header;
  header.set_session_id(session_id_);
  header.set_handle(handle);
  header.set_dtype(static_cast<uint32_t>(dtype));
  for (int64_t dim : shape) header.add_shape(dim);
  header.set_device(device);
  std::string header_bytes = header.SerializeAsString();
  grpc::ClientContext context;
  AddToken(&context);
  grpc::ByteBuffer reply;
  const grpc::internal::RpcMethod method("/chx.v1.TransferService/Upload",
                                         grpc::internal::RpcMethod::CLIENT_STREAMING, channel_);
  const std::unique_ptr<grpc::ClientWriter<grpc::ByteBuffer>> writer(
      grpc::internal::ClientWriterFactory<grpc::ByteBuffer>::Create(channel_.get(), method,
                                                                    &context, &reply));
  do {
    const absl::string_view piece = data.substr(0, kChunkBytes);
    data.remove_prefix(piece.size());
    // Finish() below returns when the daemon has answered: the slice is not needed any more then.
    const grpc::ByteBuffer chunk =
        MakeChunk(header_bytes, grpc::Slice(piece.data(), piece.size(), grpc::Slice::STATIC_SLICE));
    header_bytes.clear();
    if (!writer->Write(chunk)) break;
  } while (!data.empty());
  writer->WritesDone();
  return FromRpc(writer->Finish());
}

absl::Status Connection::Download(Handle handle, void* out, size_t bytes) {
  calls_.fetch_add(1, std::memory_order_relaxed);
  v1::DownloadRequest request;
  request.set_session_id(session_id_);
  request.set_handle(handle);
  grpc::ClientContext context;
  AddToken(&context);
  const grpc::internal::RpcMethod method("/chx.v1.TransferService/Download",
                                         grpc::internal::RpcMethod::SERVER_STREAMING, channel_);
  const std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> reader(
      grpc::internal::ClientReaderFactory<grpc::ByteBuffer>::Create(channel_.get(), method,
                                                                    &context, Serialized(request)));
  char* position = static_cast<char*>(out);
  size_t left = bytes;
  grpc::ByteBuffer message;
  ParsedChunk chunk;
  absl::Status status;
  while (reader->Read(&message)) {
    if (!status.ok()) continue;
    status = ParseChunk(message, &chunk);
    for (absl::string_view piece : chunk.pieces) {
      if (!status.ok()) break;
      if (piece.size() > left) {
        status = ChainerxError("chxd sent more than the ", bytes, " bytes of the array");
        break;
      }
      std::memcpy(position, piece.data(), piece.size());
      position += piece.size();
      left -= piece.size();
    }
  }
  const grpc::Status finished = reader->Finish();
  if (!finished.ok()) return FromRpc(finished);
  if (status.ok() && left != 0) return ChainerxError("chxd sent ", left, " bytes too few");
  return status;
}

}  // namespace chx
