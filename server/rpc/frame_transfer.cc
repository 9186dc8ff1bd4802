#include "server/rpc/frame_transfer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "ops/error.h"
#include "proto/messages.h"
#include "server/rpc/op_stream.h"

namespace chx::server {
namespace {

// A client that has not yet resumed here does not know what the session has lost.
absl::Status CheckEpoch(uint64_t epoch, const SessionManager& manager) {
  if (epoch == 0 || epoch == manager.epoch()) return absl::OkStatus();
  return absl::NotFoundError("the session is in another process of the daemon by now");
}

// The array of one upload, from its header to the bound handle.
class Uploader {
 public:
  Uploader(SessionManager* manager, const v1::UploadHeader& header)
      : manager_(manager), record_(manager->Find(header.session_id())), header_(header) {}

  absl::Status Begin() {
    if (record_ == nullptr) return Gone();
    CHX_RETURN_IF_ERROR(CheckEpoch(header_.epoch(), *manager_));
    if (IsBound()) return absl::OkStatus();
    CHX_RETURN_IF_ERROR(wire::CheckArrayHeader("upload", header_.shape_size(), header_.dtype()));
    if (header_.device() > 65535) {
      return DeviceError("[upload] expects a device number, got ", header_.device());
    }
    CHX_ASSIGN_OR_RETURN(Session::UploadSink sink,
                         record_->session->BeginUpload(
                             header_.handle(), static_cast<Dtype>(header_.dtype()),
                             absl::MakeConstSpan(header_.shape().data(), header_.shape_size()),
                             static_cast<DeviceId>(header_.device())));
    // Another client may have taken the session up before the sink was made, and it would be its.
    if (manager_->Find(header_.session_id()) == nullptr) return Gone();
    sink_ = std::move(sink);
    return absl::OkStatus();
  }
  // Of the session's memory, for a part of the array on its way.
  absl::StatusOr<MemoryCharge> Charge(size_t bytes) const {
    if (record_ == nullptr) return Gone();
    return MemoryCharge::Of(record_->session->account(), static_cast<int64_t>(bytes));
  }
  absl::Status Write(absl::string_view data) {
    return sink_.has_value() ? sink_->Write(data) : absl::OkStatus();
  }
  absl::Status Finish() {
    const absl::Status status = sink_.has_value() ? sink_->Finish() : absl::OkStatus();
    // Two attempts may end at once.
    return !status.ok() && IsBound() ? absl::OkStatus() : status;
  }

 private:
  // By an attempt before this one, which the client did not see the end of.
  bool IsBound() const { return header_.again() && record_->session->Holds(header_.handle()); }

  absl::Status Gone() const { return NoSuchSession(manager_, header_.session_id()); }

  SessionManager* const manager_;
  const SessionRecordPtr record_;  // null: there is no such session. Outlives the sink
  const v1::UploadHeader& header_;
  absl::optional<Session::UploadSink> sink_;
};

}  // namespace

bool ServeUpload(SessionManager* manager, const v1::UploadHeader& header,
                 FrameConnection* connection) {
  const SessionRecordPtr record = manager->Find(header.session_id());
  absl::optional<Transfers::Scope> scope;
  if (record != nullptr) scope.emplace(&record->transfers, [connection] { connection->Cut(); });
  Uploader uploader(manager, header);
  absl::Status status = uploader.Begin();
  MemoryCharge charge;  // of the chunk
  int64_t received = 0;
  std::string chunk;  // never smaller than it was: what is not read is not zeroed again
  for (;;) {
    FrameKind kind;
    size_t bytes = 0;
    if (connection->reader().Peek(&kind, &bytes) != FrameReader::Result::kFrame ||
        kind != FrameKind::kData || bytes > kMaxDataBytes) {
      return false;
    }
    if (chunk.size() < bytes) {
      absl::StatusOr<MemoryCharge> charged = uploader.Charge(bytes);
      if (!charged.ok()) {
        v1::Reply reply;
        if (connection->SendReply(charged.status(), &reply)) connection->Linger();
        return false;
      }
      charge = *std::move(charged);
      chunk.resize(bytes);
    }
    if (connection->reader().TakeInto(&chunk[0]) != FrameReader::Result::kFrame) return false;
    if (bytes == 0) break;
    if (status.ok()) status = uploader.Write(absl::string_view(chunk).substr(0, bytes));
    if (status.ok()) received += static_cast<int64_t>(bytes);
  }
  // Else a client that is gone might find, and have released, the handle before it is bound here.
  if (connection->HungUp()) return false;
  if (status.ok()) status = uploader.Finish();
  if (record != nullptr) record->session->counters().received(Way::kTransfer).Add(received);
  v1::Reply reply;
  return connection->SendReply(status, &reply);
}

bool ServeDownload(SessionManager* manager, const v1::DownloadRequest& request,
                   std::chrono::milliseconds patience, FrameConnection* connection) {
  v1::Reply reply;
  const SessionRecordPtr record = manager->Find(request.session_id());
  if (record == nullptr) {
    return connection->SendReply(NoSuchSession(manager, request.session_id()), &reply);
  }
  const absl::Status known = CheckEpoch(request.epoch(), *manager);
  if (!known.ok()) return connection->SendReply(known, &reply);
  // The client waits for its stream before it asks.
  const uint64_t last = record->last_batch_seq;
  if (request.after_batch_seq() > last) {
    return connection->SendReply(
        absl::FailedPreconditionError(absl::StrCat("[download] batch ", request.after_batch_seq(),
                                                   " is not applied yet: ", last, " is the last")),
        &reply);
  }
  const Transfers::Scope scope(&record->transfers, [connection] { connection->Cut(); });
  MutexLock lock(&record->download_mutex);
  const absl::StatusOr<Session::HostCopy> copy = record->session->ReadArray(request.handle());
  if (!copy.ok()) return connection->SendReply(copy.status(), &reply);
  v1::DownloadHeader* const header = reply.mutable_download();
  header->set_dtype(static_cast<uint32_t>(copy->dtype));
  for (int64_t dim : copy->shape) header->add_shape(dim);
  header->set_bytes(copy->data.size());
  connection->SetSendTimeout(patience);
  bool open = connection->SendReply(absl::OkStatus(), &reply);
  for (absl::string_view left = copy->data; open && !left.empty();) {
    const absl::string_view chunk = left.substr(0, kChunkBytes);
    left.remove_prefix(chunk.size());
    open = connection->SendData(chunk);
    if (open) {
      record->session->counters().sent(Way::kTransfer).Add(static_cast<int64_t>(chunk.size()));
    }
  }
  connection->SetSendTimeout(std::chrono::seconds(0));
  return open;
}

}  // namespace chx::server
