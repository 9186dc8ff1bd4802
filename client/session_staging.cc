// Values that pass through memory which the daemon maps too: an upload waits for nothing, a fetch
// for one answer.
#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <utility>

#include "client/session.h"
#include "client/waiting.h"
#include "ops/error.h"

namespace chx {
namespace {

constexpr size_t kUploadStage = 4 << 20;
constexpr size_t kFetchStage = 8 << 20;
constexpr uint64_t kShareOfMemory = 32;  // of the session's limit, at most this part
constexpr size_t kLeastStage = 512 << 10;
constexpr size_t kLine = 64;
constexpr int kTriesLater = 64;  // transfers, after memory was refused
constexpr size_t kSentAtOnce = 1 << 20;
constexpr size_t kPieces = 4;            // that a fetch has under way
constexpr size_t kLeastPiece = 1 << 20;  // an answer costs as much as to copy 256 KB

size_t RoundUp(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

absl::StatusOr<bool> Session::OpenStage(Stage* stage, size_t most) {
  if (stage->handle != 0) return true;
  if (stage->refusals > 0 && stage->refusals++ < kTriesLater) return false;
  stage->refusals = 1;
  const absl::optional<DeviceId> device = connection_->SharingDevice();
  const size_t bytes = std::min<uint64_t>(
      most, connection_->session_memory_bytes() / kShareOfMemory / kLine * kLine);
  if (!device.has_value() || bytes < kLeastStage) return false;
  Handle handle = 0;
  absl::StatusOr<Shared> shared = AllocateShared(
      ArraySpec(Dtype::kUint8, Shape({static_cast<int64_t>(bytes)}), *device), false, &handle);
  if (Interruption::Is(shared.status())) {
    stage->refusals = 0;
    return shared.status();
  }
  if (!shared.ok()) return false;
  stage->handle = handle;
  stage->mapping = std::move(shared->mapping);
  stage->data = shared->data;
  stage->bytes = bytes;
  // No forked process has any use for it.
  madvise(stage->mapping->data(), stage->mapping->bytes(), MADV_DONTFORK);
  return true;
}

void Session::DropUploadStage() {
  if (!upload_stage_.dropped || !upload_stage_.mutex.TryLock()) return;
  upload_stage_.stage = Stage();
  upload_stage_.mutex.Unlock();
}

// A closed session's memory is to be the system's again, whoever still has arrays of it.
void Session::DropStages() {
  upload_stage_.dropped = true;
  DropUploadStage();
  MutexLock lock(&fetch_stage_.mutex);
  fetch_stage_.stage = Stage();
  fetch_stage_.dropped = true;
}

uint64_t Session::AppendFetchInto(Handle handle, const Stage& stage, size_t place, size_t begin,
                                  size_t bytes) {
  Command command;
  command.kind = CommandKind::kFetchInto;
  command.handle = handle;
  command.operands.emplace_back(stage.handle);
  for (const size_t number : {place, begin, bytes}) {
    command.operands.emplace_back(Scalar(static_cast<int64_t>(number)));
  }
  MutexLock lock(&mutex_);
  command.request_id = next_request_++;
  Write(command);
  return command.request_id;
}

absl::StatusOr<ArrayPtr> Session::UploadStaged(absl::string_view data, const ArraySpec& spec) {
  if (!upload_stage_.mutex.TryLock()) return ArrayPtr();
  absl::StatusOr<ArrayPtr> array = UploadBy(data, spec);
  upload_stage_.mutex.Unlock();
  DropUploadStage();  // if the session was closed meanwhile
  return array;
}

absl::StatusOr<ArrayPtr> Session::UploadBy(absl::string_view data, const ArraySpec& spec) {
  Stage& stage = upload_stage_.stage;
  const size_t size = RoundUp(data.size());
  CHX_ASSIGN_OR_RETURN(const bool open, OpenStage(&stage, kUploadStage));
  if (!open) return ArrayPtr();
  const size_t half = stage.bytes / 2 / kLine * kLine;
  if (size > half) return ArrayPtr();  // to be copied once is worth a round trip then
  if (upload_stage_.used + size > half) {
    // A fetch of nothing: answered when what is before it has been copied, and no later.
    uint64_t& marker = upload_stage_.requests[upload_stage_.half];
    marker = AppendFetchInto(stage.handle, stage, 0, 0, 0);
    if (const absl::Status flushed = FlushFor(marker); !flushed.ok()) {
      marker = 0;
      return flushed;
    }
    upload_stage_.half ^= 1;
    upload_stage_.used = upload_stage_.unsent = 0;
    const uint64_t request = std::exchange(upload_stage_.requests[upload_stage_.half], 0);
    if (request != 0) {
      const absl::Status answered = connection_->WaitFor(request, true).status();
      // Still in use: the next upload goes to the other half.
      if (Interruption::Is(answered)) upload_stage_.used = half;
      // A cancelled request is answered in its turn, too, and cancelling spares uploads.
      if (!answered.ok() && KindOf(answered) != ErrorKind::kCancelled) return answered;
    }
  }
  const size_t place = static_cast<size_t>(upload_stage_.half) * half + upload_stage_.used;
  upload_stage_.used += size;
  upload_stage_.unsent += size;
  CopyBulk(stage.data + place, data.data(), data.size(), data.size());
  Command command;
  command.kind = CommandKind::kUploadFrom;
  command.dtype = spec.dtype;
  command.device = spec.device;
  command.shape.assign(spec.shape.begin(), spec.shape.end());
  command.operands.emplace_back(stage.handle);
  command.operands.emplace_back(Scalar(static_cast<int64_t>(place)));
  bool due = false;
  {
    MutexLock lock(&mutex_);
    command.handle = next_handle_++;
    Write(command);
    due = Due();
  }
  // The daemon begins to copy while the next one is filled in.
  ArrayPtr array = NewArray(command.handle, spec);
  if (due || upload_stage_.unsent >= kSentAtOnce) {
    upload_stage_.unsent = 0;
    CHX_RETURN_IF_ERROR(Flush(true));
  }
  return array;
}

absl::StatusOr<bool> Session::FetchStaged(const ArrayBody& array, char* out, size_t bytes) {
  Stage stage;
  {
    MutexLock lock(&fetch_stage_.mutex);
    if (std::exchange(fetch_stage_.taken, true)) return false;
    stage = std::exchange(fetch_stage_.stage, Stage());
  }
  const absl::StatusOr<bool> fetched = FetchBy(&stage, array, out, bytes);
  MutexLock lock(&fetch_stage_.mutex);
  fetch_stage_.taken = false;
  if (!fetch_stage_.dropped) fetch_stage_.stage = std::move(stage);
  return fetched;
}

absl::StatusOr<bool> Session::FetchBy(Stage* taken, const ArrayBody& array, char* out,
                                      size_t bytes) {
  Stage& stage = *taken;
  CHX_ASSIGN_OR_RETURN(const bool open, OpenStage(&stage, kFetchStage));
  if (!open) return false;
  const size_t most = stage.bytes / kPieces / kLine * kLine;
  const size_t piece = std::min(most, std::max(kLeastPiece, RoundUp(bytes / kPieces)));
  if (!array.spec.is_contiguous() && bytes > piece) return false;
  const size_t count = (bytes + piece - 1) / piece;
  const auto bytes_of = [&](size_t i) { return std::min(piece, bytes - i * piece); };
  std::deque<uint64_t> requests;
  const auto ask = [&](size_t i) {
    requests.push_back(
        AppendFetchInto(array.handle, stage, i % kPieces * piece, i * piece, bytes_of(i)));
    return Flush(true);
  };
  absl::Status status;
  for (size_t i = 0; status.ok() && i < std::min(count, kPieces); ++i) status = ask(i);
  absl::optional<SharedPlace> place;
  for (size_t i = 0; !requests.empty(); ++i) {
    // Even after an error: no answer is to be left, and none of the places in use.
    absl::StatusOr<std::string> answer = Interruption::Error();
    if (!Interruption::Is(status)) {
      answer = connection_->WaitFor(requests.front(), true);
      requests.pop_front();
    }
    if (Interruption::Is(answer.status())) {
      for (uint64_t request : requests) connection_->Abandon(request);
      // The daemon may still write there.
      Released(stage.handle, static_cast<int64_t>(stage.bytes));
      stage = Stage();
      return answer.status();
    }
    if (status.ok()) status = answer.status();
    if (!status.ok() || place.has_value()) continue;
    if (!answer->empty()) {
      const absl::StatusOr<SharedPlace> decoded = DecodeSharedPlace(*answer);
      status = decoded.status();
      if (status.ok()) place = *decoded;
      continue;
    }
    CopyBulk(out + i * piece, stage.data + i % kPieces * piece, bytes_of(i), bytes);
    if (i + kPieces < count) status = ask(i + kPieces);
  }
  ForgetFreedFunctions();
  if (status.ok() && place.has_value()) status = CopyFromPlace(*place, out, bytes);
  // The ordinary way remains for what cannot be had in pieces or not be mapped.
  const bool other_way =
      KindOf(status) == ErrorKind::kNotImplemented || KindOf(status) == ErrorKind::kMemory;
  if (!status.ok() && !other_way) return status;
  CHX_RETURN_IF_ERROR(connection_->TakeWriteError());
  return !other_way;
}

absl::Status Session::CopyFromPlace(const SharedPlace& place, char* out, size_t bytes) {
  CHX_ASSIGN_OR_RETURN(const MappingPtr mapping, connection_->MapSegment(place.segment, true));
  if (place.offset > mapping->bytes() || bytes > mapping->bytes() - place.offset) {
    return ChainerxError("chxd shares an array beyond its segment");
  }
  CopyBulk(out, mapping->data() + place.offset, bytes, bytes);
  return absl::OkStatus();
}

}  // namespace chx
