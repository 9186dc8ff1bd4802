#include "server/rpc/data_calls.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "ops/error.h"
#include "server/rpc/op_stream.h"

namespace chx::server {
namespace {

constexpr int64_t kChunk = int64_t{1} << 20;  // bytes that are read at once, or one row

// Reads rows into an array of the session's, a chunk after the other.
absl::Status ReadRows(const DataRoot& root, const DataArray& array, absl::Span<const int64_t> given,
                      Session* session, Session::UploadSink* sink) {
  const int64_t row_bytes = array.row_bytes();
  const int64_t count = given.empty() ? array.rows() : static_cast<int64_t>(given.size());
  const int64_t most = std::max<int64_t>(kChunk / std::max<int64_t>(row_bytes, 1), 1);
  CHX_ASSIGN_OR_RETURN(
      const MemoryCharge charge,
      MemoryCharge::Of(session->account(), std::min(most, count) * (row_bytes + 8)));
  std::string chunk;
  std::vector<int64_t> rows;
  for (int64_t begin = 0; begin < count; begin += most) {
    const auto size = static_cast<size_t>(std::min(most, count - begin));
    rows.resize(size);
    if (given.empty()) {
      std::iota(rows.begin(), rows.end(), begin);
    } else {
      std::copy_n(given.begin() + begin, size, rows.begin());
    }
    chunk.resize(size * static_cast<size_t>(row_bytes));
    CHX_RETURN_IF_ERROR(root.Read(array, rows, &chunk[0]));
    CHX_RETURN_IF_ERROR(sink->Write(chunk));
    if (session->stop().session_ended()) {
      return MakeError(ErrorKind::kCancelled, "[data] the session has ended");
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool DataCallService::Is(const v1::Call& call) {
  return call.has_describe_data() || call.has_read_data();
}

absl::Status DataCallService::Answer(const v1::Call& call, v1::Reply* reply) {
  if (call.has_describe_data()) {
    return Describe(call.describe_data(), reply->mutable_describe_data());
  }
  return Read(call.read_data());
}

absl::StatusOr<SessionRecordPtr> DataCallService::FindSession(const std::string& id) {
  SessionRecordPtr record = manager_->Find(id);
  if (record == nullptr) return NoSuchSession(manager_, id);
  CHX_RETURN_IF_ERROR(CheckAllowed(*record->owner.tenant, Feature::kDataFiles, "data"));
  if (root_ == nullptr) return ValueError("[data] expects a daemon with --data-root");
  return record;
}

absl::Status DataCallService::Describe(const v1::DescribeDataRequest& request,
                                       v1::DescribeDataReply* reply) {
  CHX_ASSIGN_OR_RETURN(const SessionRecordPtr record, FindSession(request.session_id()));
  CHX_ASSIGN_OR_RETURN(const MemoryCharge charge,
                       MemoryCharge::Of(record->session->account(), kDataParseBytes));
  CHX_ASSIGN_OR_RETURN(const std::vector<DataArray> arrays, root_->Describe(request.path()));
  for (const DataArray& array : arrays) {
    v1::DataMember* const member = reply->add_members();
    member->set_name(array.name);
    member->set_dtype(static_cast<uint32_t>(array.dtype));
    member->mutable_shape()->Add(array.shape.begin(), array.shape.end());
  }
  return absl::OkStatus();
}

absl::Status DataCallService::Read(const v1::ReadDataRequest& request) {
  CHX_ASSIGN_OR_RETURN(const SessionRecordPtr record, FindSession(request.session_id()));
  if (request.epoch() != 0 && request.epoch() != manager_->epoch()) {
    return absl::NotFoundError("the session is of another process of the daemon");
  }
  Session* const session = record->session.get();
  // By an attempt before this one.
  const auto is_bound = [&] { return request.again() && session->Holds(request.handle()); };
  if (is_bound()) return absl::OkStatus();
  if (request.device() > 65535) {
    return DeviceError("[data] expects a device number, got ", request.device());
  }
  DataArray array;
  {
    CHX_ASSIGN_OR_RETURN(const MemoryCharge charge,
                         MemoryCharge::Of(session->account(), kDataParseBytes));
    CHX_ASSIGN_OR_RETURN(array, root_->Find(request.file().path(), request.file().member()));
  }
  std::vector<int64_t> shape(array.shape.begin(), array.shape.end());
  if (request.rows_size() > 0) {
    if (shape.empty()) return DimensionError("[data] expects an array with a first axis");
    shape[0] = request.rows_size();
  }
  CHX_ASSIGN_OR_RETURN(Session::UploadSink sink,
                       session->BeginUpload(request.handle(), array.dtype, shape,
                                            static_cast<DeviceId>(request.device())));
  // Another client may have taken the session up before the sink was made, and it would be its.
  if (manager_->Find(request.session_id()) == nullptr) {
    return NoSuchSession(manager_, request.session_id());
  }
  CHX_RETURN_IF_ERROR(ReadRows(*root_, array, request.rows(), session, &sink));
  const absl::Status bound = sink.Finish();
  // Two attempts may end at once.
  return !bound.ok() && is_bound() ? absl::OkStatus() : bound;
}

}  // namespace chx::server
