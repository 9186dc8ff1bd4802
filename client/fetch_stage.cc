#include "client/fetch_stage.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include "client/copy_bulk.h"
#include "client/waiting.h"
#include "ops/error.h"

namespace chx {
namespace {

constexpr size_t kMostFetched = 8 << 20;
constexpr size_t kPieces = 4;            // that a fetch has under way
constexpr size_t kLeastPiece = 1 << 20;  // an answer costs as much as to copy 256 KB

// One fetch: a window of kPieces pieces moves over the value.
class PiecewiseFetch {
 public:
  PiecewiseFetch(Connection* connection, CommandQueue* queue, const Stage& stage, Handle array,
                 char* out, size_t bytes)
      : connection_(*connection),
        queue_(*queue),
        stage_(stage),
        array_(array),
        out_(out),
        bytes_(bytes),
        piece_(PieceOf(stage, bytes)) {}

  static size_t PieceOf(const Stage& stage, size_t bytes) {
    const size_t most = Stage::RoundDown(stage.bytes / kPieces);
    return std::min(most, std::max(kLeastPiece, Stage::RoundUp(bytes / kPieces)));
  }

  // If it is interrupted, the daemon may still write to the stage. *elements is set, and nothing
  // copied, if the elements lie in shared memory themselves.
  absl::Status Run(absl::optional<SegmentOffset>* elements) {
    const size_t count = (bytes_ + piece_ - 1) / piece_;
    absl::Status status;
    for (size_t i = 0; status.ok() && i < std::min(count, kPieces); ++i) status = Ask(i);
    for (size_t i = 0; !requests_.empty(); ++i) {
      // Even after an error: no answer is to be left, and no piece in use.
      if (Interruption::Is(status)) return Abandon(status);
      const absl::StatusOr<std::string> answer = connection_.WaitFor(requests_.front(), true);
      requests_.pop_front();
      if (Interruption::Is(answer.status())) return Abandon(answer.status());
      if (status.ok()) status = answer.status();
      if (!status.ok() || elements->has_value()) continue;
      if (!answer->empty()) {
        status = Learn(*answer, elements);
        continue;
      }
      CopyBulk(out_ + i * piece_, stage_.data + StageOffset(i), BytesOf(i), bytes_);
      if (i + kPieces < count) status = Ask(i + kPieces);
    }
    return status;
  }

 private:
  size_t BytesOf(size_t i) const { return std::min(piece_, bytes_ - i * piece_); }
  size_t StageOffset(size_t i) const { return i % kPieces * piece_; }

  absl::Status Ask(size_t i) {
    command::FetchInto fetch;
    fetch.handle = array_;
    fetch.stage = stage_.handle;
    fetch.stage_offset = static_cast<int64_t>(StageOffset(i));
    fetch.begin = static_cast<int64_t>(i * piece_);
    fetch.bytes = static_cast<int64_t>(BytesOf(i));
    requests_.push_back(queue_.AppendRequest(fetch));
    return queue_.Flush(true);
  }

  static absl::Status Learn(const std::string& answer, absl::optional<SegmentOffset>* elements) {
    CHX_ASSIGN_OR_RETURN(*elements, DecodeSegmentOffset(answer));
    return absl::OkStatus();
  }

  absl::Status Abandon(absl::Status status) {
    for (uint64_t request : requests_) connection_.Abandon(request);
    return status;
  }

  Connection& connection_;
  CommandQueue& queue_;
  const Stage& stage_;
  const Handle array_;
  char* const out_;
  const size_t bytes_;
  const size_t piece_;
  std::deque<uint64_t> requests_;  // not answered, oldest first
};

}  // namespace

absl::StatusOr<bool> FetchStage::Fetch(const ArrayBody& array, char* out, size_t bytes) {
  Stage stage;
  {
    MutexLock lock(&mutex_);
    if (std::exchange(taken_, true)) return false;
    stage = std::exchange(stage_, Stage());
  }
  const absl::StatusOr<bool> fetched = FetchThrough(&stage, array, out, bytes);
  MutexLock lock(&mutex_);
  taken_ = false;
  if (!dropped_) stage_ = std::move(stage);
  return fetched;
}

void FetchStage::Drop() {
  MutexLock lock(&mutex_);
  stage_ = Stage();
  dropped_ = true;
}

absl::StatusOr<bool> FetchStage::FetchThrough(Stage* stage, const ArrayBody& array, char* out,
                                              size_t bytes) {
  CHX_ASSIGN_OR_RETURN(const bool open, stage->Open(connection_, &memory_, kMostFetched));
  if (!open) return false;
  if (!array.spec.is_contiguous() && bytes > PiecewiseFetch::PieceOf(*stage, bytes)) return false;
  absl::optional<SegmentOffset> elements;
  absl::Status status =
      PiecewiseFetch(&connection_, &queue_, *stage, array.handle, out, bytes).Run(&elements);
  if (Interruption::Is(status)) {
    // The daemon may still write there.
    queue_.Release(stage->handle, static_cast<int64_t>(stage->bytes));
    *stage = Stage();
    return status;
  }
  if (status.ok() && elements.has_value()) status = memory_.CopyFrom(*elements, out, bytes);
  // Another way remains for what cannot be had in pieces or not be mapped.
  const bool other_way =
      KindOf(status) == ErrorKind::kNotImplemented || KindOf(status) == ErrorKind::kMemory;
  if (!status.ok() && !other_way) return status;
  CHX_RETURN_IF_ERROR(connection_.TakeWriteError());
  return !other_way;
}

}  // namespace chx
