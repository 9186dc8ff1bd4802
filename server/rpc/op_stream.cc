#include "server/rpc/op_stream.h"

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "proto/command.h"
#include "proto/wire.h"
#include "server/rpc/limits.h"

namespace chx {
namespace {

// As many commands as are decoded before they run: what the executor sees at once.
constexpr size_t kWindow = 64;
// Commands decoded from batches up to this size keep their memory for the next batch.
constexpr size_t kSmallBatch = 64 << 10;
// What a message takes beside its strings, roughly.
constexpr uint64_t kMessageBytes = 64;

struct UnackedEvent {
  v1::Event event;
  uint64_t bytes = 0;
};

}  // namespace

// What survives a cut of the stream, guarded by the record's stream_mutex.
struct StreamState final : TransportState {
  uint64_t attachment = 0;  // of the newest stream that came here
  uint64_t next_event_seq = 1;
  std::deque<UnackedEvent> unacked;
  uint64_t unacked_bytes = 0;
  std::vector<Command> window = std::vector<Command>(kWindow);

  void Acknowledge(uint64_t seq) {
    while (!unacked.empty() && unacked.front().event.event_seq() <= seq) {
      unacked_bytes -= unacked.front().bytes;
      unacked.pop_front();
    }
  }

  // An event with room for `bytes` more, behind the first `keep`, which have been sent.
  v1::Event* Room(size_t keep, uint64_t bytes) {
    if (unacked.size() == keep || unacked.back().bytes + bytes > kEventBytes) {
      unacked.emplace_back();
      unacked.back().event.set_event_seq(next_event_seq++);
    }
    unacked.back().bytes += bytes;
    unacked_bytes += bytes;
    return &unacked.back().event;
  }
};

namespace {

StreamState& StateOf(SessionRecord& record) {
  if (record.transport == nullptr) record.transport = std::make_unique<StreamState>();
  return static_cast<StreamState&>(*record.transport);
}

absl::Status Cut() { return absl::CancelledError("the stream is cut"); }

uint64_t BytesOf(const RootError& error) {
  return kMessageBytes + error.status.message().size() + error.op.size() + error.inputs.size() +
         error.location.size();
}

}  // namespace

void FillError(const RootError& error, v1::Error* message) {
  wire::ToMessage(error.status, error.op, error.inputs, error.location, message);
}

OpStream::OpStream(SessionRecord* record, uint64_t attachment, Send send)
    : record_(record), attachment_(attachment), send_(std::move(send)) {}

absl::Status OpStream::Resume(uint64_t acked_event_seq) {
  MutexLock lock(&record_->stream_mutex);
  StreamState& state = StateOf(*record_);
  if (attachment_ < state.attachment) return Cut();
  state.attachment = attachment_;
  state.Acknowledge(acked_event_seq);
  for (const UnackedEvent& unacked : state.unacked) {
    if (!send_(unacked.event)) return Cut();
  }
  return absl::OkStatus();
}

absl::Status OpStream::Apply(const v1::Submit& submit) {
  MutexLock lock(&record_->stream_mutex);
  StreamState& state = StateOf(*record_);
  // A batch that an older stream still held would be applied without an answer to the newer one,
  // which sends it again.
  if (attachment_ != state.attachment) return Cut();
  state.Acknowledge(submit.acked_event_seq());
  const uint64_t last = record_->last_batch_seq;
  if (submit.batch_seq() <= last) {
    commands_since_ack_ = kMaxInflightCommands;  // its acknowledgement was lost
    return Answer(&state, state.unacked.size());
  }
  if (submit.batch_seq() != last + 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("expects batch ", last + 1, ", got ", submit.batch_seq()));
  }
  if (submit.commands().size() > kMaxBatchBytes) {
    return absl::InvalidArgumentError(absl::StrCat("expects batches of at most ", kMaxBatchBytes,
                                                   " bytes, got ", submit.commands().size()));
  }
  const size_t first = state.unacked.size();
  CHX_RETURN_IF_ERROR(Run(submit.commands(), &state));
  record_->last_batch_seq = submit.batch_seq();
  bytes_since_ack_ += submit.commands().size();
  return Answer(&state, first);
}

absl::Status OpStream::Run(absl::string_view commands, StreamState* state) {
  const size_t keep = state->unacked.size();
  CommandReader reader(commands);
  size_t total = 0;
  while (!reader.AtEnd()) {
    size_t count = 0;
    while (count < kWindow && !reader.AtEnd()) {
      CHX_RETURN_IF_ERROR(reader.Next(&state->window[count++]));
    }
    total += count;
    if (total > kMaxInflightCommands) {
      return absl::InvalidArgumentError(
          absl::StrCat("expects batches of at most ", kMaxInflightCommands, " commands"));
    }
    record_->session->Execute(absl::MakeConstSpan(state->window).subspan(0, count), &output_);
    if (!output_.empty()) Collect(state, keep);
  }
  commands_since_ack_ += total;
  if (commands.size() > kSmallBatch) state->window.assign(kWindow, Command());
  return absl::OkStatus();
}

void OpStream::Collect(StreamState* state, size_t keep) {
  for (const SessionOutput::Error& error : output_.errors) {
    if (state->unacked_bytes > kMaxUnackedErrorBytes) break;
    v1::OpError* message = state->Room(keep, BytesOf(*error.error))->add_errors();
    message->set_handle(error.handle);
    FillError(*error.error, message->mutable_error());
  }
  for (SessionOutput::Value& value : output_.values) {
    const uint64_t bytes =
        kMessageBytes + value.data.size() + (value.error == nullptr ? 0 : BytesOf(*value.error));
    const bool fits = state->unacked_bytes + bytes <= kMaxUnackedValueBytes;
    v1::FetchedValue* message = state->Room(keep, fits ? bytes : 2 * kMessageBytes)->add_values();
    message->set_request_id(value.request_id);
    if (!fits) {
      wire::ToMessage(MemoryError("[fetch] expects at most ", kMaxUnackedValueBytes,
                                  " bytes of values that the client has not acknowledged"),
                      "fetch", "", "", message->mutable_error());
      continue;
    }
    if (value.error != nullptr) {
      FillError(*value.error, message->mutable_error());
      continue;
    }
    message->set_dtype(static_cast<uint32_t>(value.dtype));
    for (int64_t dim : value.shape) message->add_shape(dim);
    message->set_data(std::move(value.data));
  }
  if (!output_.freed_functions.empty()) {
    const uint64_t bytes = output_.freed_functions.size() * sizeof(uint64_t);
    auto* freed = state->Room(keep, bytes)->mutable_freed_functions();
    freed->Add(output_.freed_functions.begin(), output_.freed_functions.end());
  }
  output_.Clear();
}

absl::Status OpStream::Answer(StreamState* state, size_t first) {
  const bool content = first < state->unacked.size();
  if (!content && commands_since_ack_ < kMaxInflightCommands / 4 &&
      bytes_since_ack_ < kMaxInflightBytes / 4) {
    return absl::OkStatus();
  }
  commands_since_ack_ = 0;
  bytes_since_ack_ = 0;
  if (state->unacked_bytes > kMaxUnackedEventBytes) {
    return absl::ResourceExhaustedError("the client does not acknowledge events");
  }
  if (!content) {
    ack_.set_acked_batch_seq(record_->last_batch_seq);
    return send_(ack_) ? absl::OkStatus() : Cut();
  }
  for (size_t i = first; i < state->unacked.size(); ++i) {
    v1::Event& event = state->unacked[i].event;
    event.set_acked_batch_seq(record_->last_batch_seq);
    if (!send_(event)) return Cut();
  }
  return absl::OkStatus();
}

}  // namespace chx
