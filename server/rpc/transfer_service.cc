#include "server/rpc/transfer_service.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "proto/chunk.h"
#include "proto/wire.h"

namespace chx {
namespace {

class UploadReactor final : public grpc::ServerReadReactor<grpc::ByteBuffer> {
 public:
  UploadReactor(SessionManager* manager, grpc::ByteBuffer* reply)
      : manager_(manager), reply_(reply) {}

  void Start(const grpc::Status& allowed) {
    if (!allowed.ok()) return Finish(allowed);
    StartRead(&message_);
  }
  void OnReadDone(bool ok) override {
    const absl::Status status = ok ? Receive() : Complete();
    if (!ok || !status.ok()) return Finish(wire::ToGrpc(status));
    StartRead(&message_);
  }
  void OnDone() override { delete this; }

 private:
  absl::Status Receive() {
    CHX_RETURN_IF_ERROR(ParseChunk(message_, &chunk_));
    if (!sink_.has_value()) CHX_RETURN_IF_ERROR(Begin());
    for (absl::string_view piece : chunk_.pieces) CHX_RETURN_IF_ERROR(sink_->Write(piece));
    return absl::OkStatus();
  }

  absl::Status Begin() {
    v1::UploadHeader header;
    if (!header.ParseFromString(chunk_.header)) {
      return absl::InvalidArgumentError("[upload] expects a header in the first chunk");
    }
    record_ = manager_->Find(header.session_id());
    if (record_ == nullptr) return absl::NotFoundError("no such session");
    CHX_RETURN_IF_ERROR(wire::CheckArrayHeader("upload", header.shape_size(), header.dtype()));
    if (header.device() > 65535) return DeviceError("[upload] expects a device number");
    CHX_ASSIGN_OR_RETURN(
        Session::UploadSink sink,
        record_->session->BeginUpload(header.handle(), static_cast<Dtype>(header.dtype()),
                                      absl::MakeConstSpan(header.shape().data(),
                                                          header.shape_size()),
                                      static_cast<DeviceId>(header.device())));
    sink_ = std::move(sink);
    return absl::OkStatus();
  }

  absl::Status Complete() {
    if (!sink_.has_value()) return absl::InvalidArgumentError("[upload] expects a header");
    CHX_RETURN_IF_ERROR(sink_->Finish());
    const grpc::Slice empty;
    *reply_ = grpc::ByteBuffer(&empty, 1);
    return absl::OkStatus();
  }

  SessionManager* const manager_;
  grpc::ByteBuffer* const reply_;
  SessionRecordPtr record_;  // outlives the sink
  grpc::ByteBuffer message_;
  ParsedChunk chunk_;
  absl::optional<Session::UploadSink> sink_;
};

class DownloadReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit DownloadReactor(SessionManager* manager) : manager_(manager) {}

  void Start(const grpc::Status& allowed, const grpc::ByteBuffer& request) {
    const absl::Status status = allowed.ok() ? Read(request) : absl::OkStatus();
    if (!allowed.ok() || !status.ok()) {
      return Finish(allowed.ok() ? wire::ToGrpc(status) : allowed);
    }
    v1::DownloadHeader header;
    header.set_dtype(static_cast<uint32_t>(copy_.dtype));
    for (int64_t dim : copy_.shape) header.add_shape(dim);
    Send(header.SerializeAsString());
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the stream is cut"));
    if (sent_ == copy_.data.size()) return Finish(grpc::Status::OK);
    Send("");
  }
  void OnDone() override { delete this; }

 private:
  absl::Status Read(const grpc::ByteBuffer& buffer) {
    std::vector<grpc::Slice> slices;
    std::string bytes;
    v1::DownloadRequest request;
    if (buffer.Length() > 4096 || !buffer.Dump(&slices).ok()) {
      return absl::InvalidArgumentError("[download] expects a small request");
    }
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    if (!request.ParseFromString(bytes)) {
      return absl::InvalidArgumentError("[download] expects a DownloadRequest");
    }
    const SessionRecordPtr record = manager_->Find(request.session_id());
    if (record == nullptr) return absl::NotFoundError("no such session");
    {
      // The client waits for its stream before it asks.
      MutexLock lock(&record->stream_mutex);
      if (request.after_batch_seq() > record->last_batch_seq) {
        return absl::FailedPreconditionError(
            absl::StrCat("[download] batch ", request.after_batch_seq(),
                         " is not applied yet: ", record->last_batch_seq, " is the last"));
      }
    }
    CHX_ASSIGN_OR_RETURN(copy_, record->session->ReadArray(request.handle()));
    return absl::OkStatus();
  }

  void Send(const std::string& header) {
    const size_t size = std::min(kChunkBytes, copy_.data.size() - sent_);
    chunk_ = MakeChunk(header, grpc::Slice(&copy_.data[sent_], size, grpc::Slice::STATIC_SLICE));
    sent_ += size;
    StartWrite(&chunk_);
  }

  SessionManager* const manager_;
  Session::HostCopy copy_;
  size_t sent_ = 0;
  grpc::ByteBuffer chunk_;
};

}  // namespace

grpc::ServerReadReactor<grpc::ByteBuffer>* TransferServiceImpl::Upload(
    grpc::CallbackServerContext* context, grpc::ByteBuffer* reply) {
  auto* reactor = new UploadReactor(manager_, reply);
  reactor->Start(authorizer_->Check(*context));
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* TransferServiceImpl::Download(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  auto* reactor = new DownloadReactor(manager_);
  reactor->Start(authorizer_->Check(*context), *request);
  return reactor;
}

}  // namespace chx
