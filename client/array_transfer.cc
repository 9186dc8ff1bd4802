#include "client/array_transfer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/client_functions.h"
#include "client/log.h"
#include "client/session.h"
#include "client/waiting.h"
#include "ops/error.h"

namespace chx {
namespace {

constexpr size_t kSharedBytes = 256 << 10;  // from here on a transfer is worth a mapping

// Whose uploads the calling thread sends ahead.
thread_local const ArrayTransfer* ahead = nullptr;

// Whether a transfer is worth another try after a barrier, by which a cut stream is taken up and
// memory that was released before is free.
bool MayPass(const absl::Status& status) {
  return KindOf(status) == ErrorKind::kMemory || KindOf(status) == ErrorKind::kConnection;
}

// Before another try.
void LogRetry(const Connection& connection, const absl::Status& why) {
  internal::Log(LogLevel::kInfo, absl::StrCat("chxd at ", connection.address(),
                                              ": waits for all that was called, then tries a "
                                              "transfer again: ",
                                              why.message()));
}

}  // namespace

ArrayTransfer::ArrayTransfer(Session* session, Connection* connection, CommandQueue* queue,
                             SharedMemory* memory)
    : session_(*session),
      connection_(*connection),
      queue_(*queue),
      memory_(*memory),
      upload_stage_(connection, queue, memory),
      loader_stage_(UploadStage::OfLoaders(connection, queue, memory)),
      fetch_stage_(connection, queue, memory) {}

// A transfer is a call of its own: while it runs, another thread may close the session.
absl::Status ArrayTransfer::UnlessClosed(absl::Status transferred) const {
  if (transferred.ok() || connection_.ok()) return transferred;
  return connection_.status();
}

absl::StatusOr<ArrayPtr> ArrayTransfer::Upload(absl::string_view data, Dtype dtype,
                                               absl::Span<const int64_t> shape, DeviceId device) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  CHX_RETURN_IF_ERROR(CheckShape("array", shape, dtype));
  const ArraySpec spec(dtype, Shape(shape), device);
  if (spec.nbytes() != static_cast<int64_t>(data.size())) {
    return ValueError("[array] expects ", spec.nbytes(), " bytes, got ", data.size());
  }
  if (data.size() <= connection_.max_inline_bytes()) {
    Handle handle = 0;
    const bool due = queue_.UploadInline(dtype, device, shape, data, &handle);
    ArrayPtr array = session_.NewArray(handle, spec);
    if (due) CHX_RETURN_IF_ERROR(queue_.FlushDue());
    return array;
  }
  CHX_ASSIGN_OR_RETURN(const Handle handle, UploadLarge(data, spec));
  return session_.NewArray(handle, spec);
}

absl::Status ArrayTransfer::UploadAhead(size_t bytes) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  ahead = this;
  return UnlessClosed(loader_stage_.Grow(bytes));
}

absl::StatusOr<Handle> ArrayTransfer::UploadLarge(absl::string_view data, const ArraySpec& spec) {
  const bool by_mapping = connection_.UploadsByMapping();
  if (by_mapping && connection_.SharingDevice().has_value()) {
    if (ahead == this) {
      CHX_ASSIGN_OR_RETURN(const Handle handle, loader_stage_.Upload(data, spec));
      if (handle != 0) return handle;
    }
    CHX_ASSIGN_OR_RETURN(const Handle handle, upload_stage_.Upload(data, spec));
    if (handle != 0) return handle;
  }
  // What was released before makes room.
  CHX_RETURN_IF_ERROR(queue_.Flush(true));
  if (by_mapping && data.size() >= kSharedBytes && connection_.Shares(spec.device)) {
    absl::StatusOr<Handle> handle = memory_.Upload(data, spec);
    if (handle.ok() || Interruption::Is(handle.status())) return handle;
  }
  return UploadByCall(data, spec);
}

absl::StatusOr<Handle> ArrayTransfer::UploadByCall(absl::string_view data, const ArraySpec& spec) {
  Handle handle = queue_.AllocateHandle();
  absl::Status uploaded =
      connection_.Upload(handle, spec.dtype, spec.shape.span(), spec.device, data);
  if (!uploaded.ok() && MayPass(uploaded)) {
    LogRetry(connection_, uploaded);
    CHX_RETURN_IF_ERROR(queue_.Synchronize());
    handle = queue_.AllocateHandle();  // a cut may have come after the old one was bound
    uploaded = connection_.Upload(handle, spec.dtype, spec.shape.span(), spec.device, data);
  }
  CHX_RETURN_IF_ERROR(UnlessClosed(std::move(uploaded)));
  return handle;
}

absl::Status ArrayTransfer::Fetch(const ArrayBody& array, void* out, size_t bytes) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  if (static_cast<int64_t>(bytes) != array.spec.nbytes()) {
    return ValueError("[fetch] expects room for ", array.spec.nbytes(), " bytes, got ", bytes);
  }
  absl::Status fetched = bytes <= connection_.max_inline_bytes()
                             ? queue_.FetchInline(array.handle, out, bytes)
                             : FetchLarge(array, static_cast<char*>(out), bytes);
  if (!Interruption::Is(fetched)) session_.functions().ForgetFreed();
  return fetched;
}

absl::Status ArrayTransfer::FetchLarge(const ArrayBody& array, char* out, size_t bytes) {
  if (connection_.SharingDevice().has_value()) {
    CHX_ASSIGN_OR_RETURN(const bool fetched, fetch_stage_.Fetch(array, out, bytes));
    if (fetched) return absl::OkStatus();
  }
  CHX_RETURN_IF_ERROR(queue_.Synchronize());
  if (bytes >= kSharedBytes && connection_.Shares(array.spec.device) &&
      memory_.Fetch(array.handle, array.spec, out).ok()) {
    return absl::OkStatus();
  }
  return FetchByCall(array, out, bytes);
}

absl::Status ArrayTransfer::FetchByCall(const ArrayBody& array, char* out, size_t bytes) {
  absl::Status downloaded = connection_.Download(array.handle, out, bytes);
  if (!downloaded.ok() && MayPass(downloaded)) {
    LogRetry(connection_, downloaded);
    CHX_RETURN_IF_ERROR(queue_.Synchronize());
    downloaded = connection_.Download(array.handle, out, bytes);
  }
  return UnlessClosed(std::move(downloaded));
}

void ArrayTransfer::Drop() {
  upload_stage_.Drop();
  loader_stage_.Drop();
  fetch_stage_.Drop();
}

}  // namespace chx
