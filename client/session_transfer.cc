// Values on their way to and from the daemon: the way that suits their size and place.
#include <utility>

#include "client/session.h"
#include "client/waiting.h"

namespace chx {
namespace {

constexpr size_t kSharedBytes = 256 << 10;  // from here on a transfer is worth a mapping

// Whether a transfer is worth another try after a barrier, by which a cut stream is taken up and
// memory that was released before is free.
bool MayPass(const absl::Status& status) {
  return KindOf(status) == ErrorKind::kMemory || KindOf(status) == ErrorKind::kConnection;
}

}  // namespace

// A transfer is a call of its own: while it runs, another thread may close the session.
absl::Status Session::UnlessClosed(absl::Status transferred) const {
  if (transferred.ok() || connection_->ok()) return transferred;
  return connection_->status();
}

absl::StatusOr<ArrayPtr> Session::Upload(absl::string_view data, Dtype dtype,
                                         absl::Span<const int64_t> shape, DeviceId device) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  CHX_RETURN_IF_ERROR(CheckShape("array", shape, dtype));
  const ArraySpec spec(dtype, Shape(shape), device);
  if (spec.nbytes() != static_cast<int64_t>(data.size())) {
    return ValueError("[array] expects ", spec.nbytes(), " bytes, got ", data.size());
  }
  Handle handle = 0;
  bool due = false;
  const bool is_inline = data.size() <= connection_->max_inline_bytes();
  {
    MutexLock lock(&mutex_);
    handle = next_handle_++;
    if (is_inline) {
      CommandWriter(&pending_).Upload(handle, dtype, device, shape, data);
      Appended();
      due = Due();
    }
  }
  if (is_inline) {
    ArrayPtr array = NewArray(handle, spec);
    if (due) CHX_RETURN_IF_ERROR(Flush(true));
    return array;
  }
  if (connection_->SharingDevice().has_value()) {
    CHX_ASSIGN_OR_RETURN(ArrayPtr array, UploadStaged(data, spec));
    if (array) return array;
  }
  // What was released before makes room.
  CHX_RETURN_IF_ERROR(Flush(true));
  if (data.size() >= kSharedBytes && connection_->Shares(device)) {
    absl::StatusOr<ArrayPtr> array = UploadShared(data, spec);
    if (array.ok() || Interruption::Is(array.status())) return array;
  }
  absl::Status uploaded = connection_->Upload(handle, dtype, shape, device, data);
  if (!uploaded.ok() && MayPass(uploaded)) {
    CHX_RETURN_IF_ERROR(Synchronize());
    {
      MutexLock lock(&mutex_);
      handle = next_handle_++;  // a cut may have come after the old one was bound
    }
    uploaded = connection_->Upload(handle, dtype, shape, device, data);
  }
  CHX_RETURN_IF_ERROR(UnlessClosed(std::move(uploaded)));
  return NewArray(handle, spec);
}

absl::Status Session::Fetch(const ArrayBody& array, void* out, size_t bytes) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  if (static_cast<int64_t>(bytes) != array.spec.nbytes()) {
    return ValueError("[fetch] expects room for ", array.spec.nbytes(), " bytes, got ", bytes);
  }
  if (bytes > connection_->max_inline_bytes()) {
    if (connection_->SharingDevice().has_value()) {
      CHX_ASSIGN_OR_RETURN(const bool fetched, FetchStaged(array, static_cast<char*>(out), bytes));
      if (fetched) return absl::OkStatus();
    }
    CHX_RETURN_IF_ERROR(Synchronize());
    if (bytes >= kSharedBytes && connection_->Shares(array.spec.device) &&
        FetchShared(array, out, bytes).ok()) {
      return absl::OkStatus();
    }
    const absl::Status downloaded = connection_->Download(array.handle, out, bytes);
    if (downloaded.ok() || !MayPass(downloaded)) return UnlessClosed(downloaded);
    CHX_RETURN_IF_ERROR(Synchronize());
    return UnlessClosed(connection_->Download(array.handle, out, bytes));
  }
  uint64_t request = 0;
  {
    MutexLock lock(&mutex_);
    request = next_request_++;
    CommandWriter(&pending_).Fetch(request, array.handle);
    Appended();
  }
  CHX_RETURN_IF_ERROR(FlushFor(request));
  const absl::Status status = connection_->Wait(request, out, bytes);
  ForgetFreedFunctions();
  return status;
}

}  // namespace chx
