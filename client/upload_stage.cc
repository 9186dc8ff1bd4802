#include "client/upload_stage.h"

#include <utility>

#include "client/copy_bulk.h"
#include "client/waiting.h"
#include "ops/error.h"

namespace chx {
namespace {

constexpr size_t kSentAtOnce = 1 << 20;

}  // namespace

absl::StatusOr<Handle> UploadStage::Upload(absl::string_view data, const ArraySpec& spec) {
  if (!mutex_.TryLock()) return Handle{0};
  absl::StatusOr<Handle> array = UploadLocked(data, spec);
  mutex_.Unlock();
  DropIfUnused();  // if the session was closed meanwhile
  return array;
}

absl::Status UploadStage::Grow(size_t half_bytes) {
  mutex_.Lock();
  absl::Status grown = GrowLocked(half_bytes);
  mutex_.Unlock();
  DropIfUnused();
  return grown;
}

absl::Status UploadStage::GrowLocked(size_t half_bytes) {
  const size_t bytes = 2 * Stage::RoundUp(half_bytes);
  if (bytes <= most_bytes_) return absl::OkStatus();
  if (stage_.handle != 0) {
    CHX_RETURN_IF_ERROR(queue_.Synchronize());
    for (uint64_t& request : requests_) {
      const uint64_t answered = std::exchange(request, 0);
      if (answered != 0) CHX_RETURN_IF_ERROR(connection_.WaitFor(answered, true).status());
    }
    queue_.Release(stage_.handle, static_cast<int64_t>(stage_.bytes));
  }
  stage_ = Stage();
  half_ = 0;
  used_ = unsent_ = 0;
  most_bytes_ = bytes;
  return absl::OkStatus();
}

void UploadStage::Drop() {
  dropped_ = true;
  DropIfUnused();
}

void UploadStage::DropIfUnused() {
  if (!dropped_ || !mutex_.TryLock()) return;
  stage_ = Stage();
  mutex_.Unlock();
}

absl::Status UploadStage::SwitchHalf() {
  // A fetch of nothing: answered when what is before it has been copied, and no later.
  command::FetchInto marker;
  marker.handle = marker.stage = stage_.handle;
  requests_[half_] = queue_.AppendRequest(marker);
  if (absl::Status flushed = queue_.FlushFor(requests_[half_]); !flushed.ok()) {
    requests_[half_] = 0;
    return flushed;
  }
  half_ ^= 1;
  used_ = unsent_ = 0;
  const uint64_t request = std::exchange(requests_[half_], 0);
  if (request == 0) return absl::OkStatus();
  absl::Status answered = connection_.WaitFor(request, true).status();
  // Still in use: the next upload goes to the other half.
  if (Interruption::Is(answered)) used_ = half_bytes_;
  // A cancelled request is answered in its turn, too, and cancelling spares uploads.
  return KindOf(answered) == ErrorKind::kCancelled ? absl::OkStatus() : answered;
}

absl::StatusOr<int64_t> UploadStage::Fill(absl::string_view data) {
  const size_t size = Stage::RoundUp(data.size());
  if (used_ + size > half_bytes_) CHX_RETURN_IF_ERROR(SwitchHalf());
  const size_t offset = static_cast<size_t>(half_) * half_bytes_ + used_;
  used_ += size;
  unsent_ += size;
  CopyBulk(stage_.data + offset, data.data(), data.size(), data.size());
  return static_cast<int64_t>(offset);
}

absl::StatusOr<Handle> UploadStage::UploadLocked(absl::string_view data, const ArraySpec& spec) {
  CHX_ASSIGN_OR_RETURN(const bool open,
                       stage_.Open(connection_, &memory_, most_bytes_, share_of_memory_));
  if (!open) return Handle{0};
  half_bytes_ = Stage::RoundDown(stage_.bytes / 2);
  if (Stage::RoundUp(data.size()) > half_bytes_) return UploadInParts(data, spec);
  CHX_ASSIGN_OR_RETURN(const int64_t offset, Fill(data));
  command::UploadFrom upload;
  upload.dtype = spec.dtype;
  upload.device = spec.device;
  upload.shape.assign(spec.shape.begin(), spec.shape.end());
  upload.stage = stage_.handle;
  upload.stage_offset = offset;
  Handle array = 0;
  bool due = false;
  {
    MutexLock lock(&queue_.mutex());
    array = upload.result = queue_.NewHandle();
    queue_.Append(std::move(upload));
    due = queue_.Due();
  }
  // The daemon begins to copy while the next one is filled in.
  if (!due && unsent_ < kSentAtOnce) return array;
  unsent_ = 0;
  if (absl::Status flushed = queue_.Flush(true); !flushed.ok()) {
    queue_.Release(array, spec.nbytes());
    return flushed;
  }
  return array;
}

absl::StatusOr<Handle> UploadStage::UploadInParts(absl::string_view data, const ArraySpec& spec) {
  // Shared memory of its own is worth a round trip then.
  if (!connection_.knows_upload_parts() || connection_.Shares(spec.device)) return Handle{0};
  const Handle array = queue_.AllocateHandle();
  for (size_t begin = 0; begin < data.size(); begin += half_bytes_) {
    const absl::string_view part = data.substr(begin, half_bytes_);
    const absl::StatusOr<int64_t> offset = Fill(part);
    absl::Status status = offset.status();
    if (status.ok()) {
      command::UploadPart upload;
      upload.result = array;
      upload.dtype = spec.dtype;
      upload.device = spec.device;
      upload.shape.assign(spec.shape.begin(), spec.shape.end());
      upload.stage = stage_.handle;
      upload.stage_offset = *offset;
      upload.begin = static_cast<int64_t>(begin);
      upload.bytes = static_cast<int64_t>(part.size());
      {
        MutexLock lock(&queue_.mutex());
        queue_.Append(std::move(upload));
      }
      unsent_ = 0;
      status = queue_.Flush(true);
    }
    if (!status.ok()) {
      // Of the first part nothing was sent.
      if (begin > 0) queue_.Release(array, spec.nbytes());
      return status;
    }
  }
  return array;
}

}  // namespace chx
