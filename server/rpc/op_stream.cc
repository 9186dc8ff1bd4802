#include "server/rpc/op_stream.h"

#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "proto/command_codec.h"
#include "proto/messages.h"
#include "server/log/log.h"
#include "server/log/printable.h"
#include "server/rpc/limits.h"
#include "server/session/command_handles.h"

namespace chx::server {
namespace {

// As many commands as are decoded before they run: what the executor sees at once.
constexpr size_t kWindow = 64;
// Batches beyond this size are charged for what decoding makes of them. After so many bytes the
// window's memory is looked at, and given back if it has become more than that.
constexpr size_t kSmallBatch = 64 << 10;
// What decoding makes of a byte, at most: an absent operand takes 9 bytes, and 32 when decoded, in
// a list that has doubled.
constexpr int64_t kDecodedBytes = 8;
// What a message takes beside its strings, roughly, on the wire and in memory.
constexpr uint64_t kMessageBytes = 64;
constexpr uint64_t kObjectBytes = 320;

struct UnackedEvent {
  v1::Event event;
  uint64_t bytes = 0;
  uint64_t messages = 0;

  int64_t charged() const { return static_cast<int64_t>(bytes + (messages + 1) * kObjectBytes); }
};

}  // namespace

// What survives a cut of the stream, guarded by the record's stream_mutex.
struct StreamState final : TransportState {
  explicit StreamState(MemoryAccountPtr account) : meter(std::move(account)) {}

  MemoryMeter meter;        // of what is unacknowledged
  uint64_t attachment = 0;  // of the newest stream that came here
  uint64_t next_event_seq = 1;
  std::deque<UnackedEvent> unacked;
  uint64_t unacked_bytes = 0;
  std::vector<Command> window = std::vector<Command>(kWindow);
  MemoryCharge wide;   // of a window that is larger
  size_t decoded = 0;  // bytes, since the window's memory was looked at

  // The next event's number, then each event with its size.
  std::string Serialize() const override {
    std::string data(reinterpret_cast<const char*>(&next_event_seq), sizeof(next_event_seq));
    for (const UnackedEvent& each : unacked) {
      const std::string event = each.event.SerializeAsString();
      const uint64_t size = event.size();
      data.append(reinterpret_cast<const char*>(&size), sizeof(size));
      data.append(event);
    }
    return data;
  }

  void Acknowledge(uint64_t seq) {
    while (!unacked.empty() && unacked.front().event.event_seq() <= seq) {
      unacked_bytes -= unacked.front().bytes;
      meter.Release(unacked.front().charged());
      unacked.pop_front();
    }
  }

  // An event with room for `bytes` more, behind the first `keep`, which have been sent.
  v1::Event* Room(size_t keep, uint64_t bytes) {
    if (unacked.size() == keep || unacked.back().bytes + bytes > kEventBytes) {
      unacked.emplace_back();
      unacked.back().event.set_event_seq(next_event_seq++);
      meter.Charge(unacked.back().charged());
    }
    unacked.back().bytes += bytes;
    ++unacked.back().messages;
    unacked_bytes += bytes;
    meter.Charge(static_cast<int64_t>(bytes + kObjectBytes));
    return &unacked.back().event;
  }
  // Whether the session has the memory for a message of so many bytes.
  bool HasMemory(uint64_t bytes) {
    return meter.Reserve(static_cast<int64_t>(bytes + 2 * kObjectBytes));
  }

  // Makes room for commands that wait for those behind them. False: there is no memory for it.
  bool Widen(size_t size, const MemoryAccountPtr& account) {
    if (size <= window.size()) return true;
    if (wide.bytes() == 0) {
      const auto bytes = static_cast<int64_t>((Session::kMaxLeft + kWindow) * sizeof(Command));
      absl::StatusOr<MemoryCharge> charge = MemoryCharge::Of(account, bytes, MemoryUse::kFixed);
      if (!charge.ok()) return false;
      wide = *std::move(charge);
    }
    window.resize(size);
    return true;
  }

  // Commands keep their memory for the next batch, unless that is much.
  void TidyWindow(size_t bytes) {
    decoded += bytes;
    if (decoded < kSmallBatch) return;
    decoded = 0;
    size_t heap = 0;
    for (const Command& command : window) heap += HeapBytes(command);
    // Assigned command by command, the lists would keep their memory.
    if (heap > kSmallBatch) window = std::vector<Command>(kWindow);
  }
};

namespace {

// std::swap takes half a minute to compile for a variant of so many types.
void Swap(Command* a, Command* b) {
  if (a == b) return;
  Command kept = std::move(*a);
  a->~Command();
  new (a) Command(std::move(*b));
  b->~Command();
  new (b) Command(std::move(kept));
}

StreamState& StateOf(SessionRecord& record) {
  if (record.transport == nullptr) {
    record.transport = std::make_unique<StreamState>(record.session->account());
  }
  return static_cast<StreamState&>(*record.transport);
}

absl::Status Cut() { return absl::CancelledError("the stream is cut"); }

uint64_t BytesOf(const RootError& error) {
  return kMessageBytes + error.status.message().size() + error.op.size() + error.inputs.size() +
         error.location.size();
}

void LogDeviceError(const SessionRecord& record, const RootError& error) {
  static auto* const limit = new LogLimit;
  Log(limit, LogLevel::kError, "device error",
      {{"session", record.number},
       {"tenant", record.owner.tenant->name},
       {"op", error.op},
       {"reason", error.status.message()}});
}

// It is told of once, by whoever carries the session's stream.
void ReportSlow(const SessionRecord& record, const SessionOutput::Slow& slow, Metrics* metrics) {
  static auto* const limit = new LogLimit;
  const std::string location = PrintableLines(slow.location);
  Log(limit, LogLevel::kWarning, "slow command",
      {{"session", record.number},
       {"tenant", record.owner.tenant->name},
       {"client", record.owner.client_name},
       {"op", slow.op},
       {"inputs", slow.inputs},
       {"location", location},
       {"milliseconds", slow.milliseconds}});
  if (metrics == nullptr) return;
  metrics->AddSlow({record.number, record.owner.tenant->name, slow.op, slow.inputs,
                    Printable(slow.location), slow.milliseconds, std::chrono::system_clock::now()});
}

void LogOutOfMemory(const SessionRecord& record, const RootError& error) {
  static auto* const limit = new LogLimit;
  Log(limit, LogLevel::kWarning, "out of memory",
      {{"session", record.number},
       {"tenant", record.owner.tenant->name},
       {"peer", record.owner.peer},
       {"client", record.owner.client_name},
       {"op", error.op},
       {"reason", error.status.message()}});
}

}  // namespace

void FillError(const RootError& error, v1::Error* message) {
  wire::ToMessage(error.status, error.op, error.inputs, error.location, message);
  // It may quote the client, who may have sent anything: a string of protobuf's has to be UTF-8.
  message->set_message(PrintableLines(message->message()));
}

absl::StatusOr<std::unique_ptr<TransportState>> ReadStreamState(const MemoryAccountPtr& account,
                                                                absl::string_view data) {
  const auto take = [&data](uint64_t* number) {
    if (data.size() < sizeof(*number)) return false;
    std::memcpy(number, data.data(), sizeof(*number));
    data.remove_prefix(sizeof(*number));
    return true;
  };
  const absl::Status unreadable = absl::DataLossError("the events of its stream cannot be read");
  auto state = std::make_unique<StreamState>(account);
  if (!take(&state->next_event_seq)) return unreadable;
  uint64_t last = 0;
  while (!data.empty()) {
    uint64_t size = 0;
    if (!take(&size) || size > data.size() || size > kMaxUnackedEventBytes) return unreadable;
    UnackedEvent unacked;
    unacked.bytes = size;
    unacked.messages = 1 + size / kMessageBytes;
    if (!state->meter.Reserve(unacked.charged())) return account->Exhausted(unacked.charged());
    if (!unacked.event.ParseFromArray(data.data(), static_cast<int>(size)) ||
        unacked.event.event_seq() <= last || unacked.event.event_seq() >= state->next_event_seq) {
      return unreadable;
    }
    last = unacked.event.event_seq();
    data.remove_prefix(size);
    state->meter.Charge(unacked.charged());
    state->unacked_bytes += size;
    state->unacked.push_back(std::move(unacked));
  }
  return state;
}

OpStream::OpStream(SessionRecord* record, uint64_t attachment, Send send)
    : record_(record), attachment_(attachment), send_(std::move(send)) {}

absl::Status OpStream::Resume(uint64_t acked_event_seq) {
  MutexLock lock(&record_->stream_mutex);
  CHX_RETURN_IF_ERROR(record_->passed_on);
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
  CHX_RETURN_IF_ERROR(record_->passed_on);
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
  CHX_RETURN_IF_ERROR(Run(submit, &state));
  if (record_->session->stop().session_ended()) return Cut();
  record_->last_batch_seq = submit.batch_seq();
  bytes_since_ack_ += submit.commands().size();
  record_->session->counters()
      .received(Way::kStream)
      .Add(static_cast<int64_t>(submit.commands().size()));
  return Answer(&state, first);
}

absl::Status OpStream::Run(const v1::Submit& submit, StreamState* state) {
  const absl::string_view commands = submit.commands();
  const size_t keep = state->unacked.size();
  CommandReader reader(commands);
  // A large batch for which there is no memory is decoded command by command: what is in it may be
  // what gives some back.
  size_t window = kWindow;
  absl::StatusOr<MemoryCharge> charge = MemoryCharge();
  if (commands.size() > kSmallBatch) {
    charge = MemoryCharge::Of(record_->session->account(),
                              static_cast<int64_t>(commands.size()) * kDecodedBytes);
    if (!charge.ok()) window = 1;
  }
  size_t total = 0;
  size_t left = 0;  // commands that wait for those behind them, at the front of the window
  while (!reader.AtEnd()) {
    size_t count = left;
    const bool may_wait = state->Widen(left + window, record_->session->account());
    while (may_wait && count < left + window && !reader.AtEnd()) {
      Command& command = state->window[count++];
      CHX_RETURN_IF_ERROR(reader.Next(&command));
      if (NamesOthersHandle(command)) {
        return absl::InvalidArgumentError("expects handles below 2^63");
      }
    }
    total += count - left;
    if (total > kMaxInflightCommands) {
      return absl::InvalidArgumentError(
          absl::StrCat("expects batches of at most ", kMaxInflightCommands, " commands"));
    }
    const size_t done = record_->session->Execute(
        absl::MakeConstSpan(state->window).subspan(0, count), &output_, submit.batch_seq(),
        may_wait && window == kWindow && !reader.AtEnd());
    if (record_->session->stop().session_ended()) return absl::OkStatus();  // who calls sees it
    left = count - std::min(done, count);
    for (size_t i = 0; i < left; ++i) Swap(&state->window[i], &state->window[done + i]);
    if (!output_.empty()) Collect(state, keep);
  }
  commands_since_ack_ += total;
  state->TidyWindow(commands.size());
  return absl::OkStatus();
}

void OpStream::Collect(StreamState* state, size_t keep) {
  for (const SessionOutput::Slow& slow : output_.slow) {
    ReportSlow(*record_, slow, record_->metrics.get());
  }
  for (const SessionOutput::Error& error : output_.errors) {
    if (state->unacked_bytes > kMaxUnackedErrorBytes) break;
    if (!state->HasMemory(BytesOf(*error.error))) break;
    if (absl::IsResourceExhausted(error.error->status)) LogOutOfMemory(*record_, *error.error);
    const ErrorKind kind = KindOf(error.error->status);
    if (kind == ErrorKind::kDevice || kind == ErrorKind::kBackend) {
      LogDeviceError(*record_, *error.error);
    }
    v1::OpError* message = state->Room(keep, BytesOf(*error.error))->add_errors();
    message->set_handle(error.handle);
    FillError(*error.error, message->mutable_error());
  }
  for (SessionOutput::Value& value : output_.values) {
    const uint64_t bytes =
        kMessageBytes + value.data.size() + (value.error == nullptr ? 0 : BytesOf(*value.error));
    value.charge = MemoryCharge();  // from here on it is the event's
    const bool fits =
        state->unacked_bytes + bytes <= kMaxUnackedValueBytes && state->HasMemory(bytes);
    v1::FetchedValue* message = state->Room(keep, fits ? bytes : 2 * kMessageBytes)->add_values();
    message->set_request_id(value.request_id);
    if (!fits) {
      wire::ToMessage(
          MemoryError("[fetch] expects room for ", bytes, " bytes, and at most ",
                      kMaxUnackedValueBytes, " of values that the client has not acknowledged"),
          "fetch", "", "", message->mutable_error());
      continue;
    }
    if (value.error != nullptr) {
      FillError(*value.error, message->mutable_error());
      continue;
    }
    message->set_dtype(static_cast<uint32_t>(value.dtype));
    for (int64_t dim : value.shape) message->add_shape(dim);
    record_->session->counters().sent(Way::kStream).Add(static_cast<int64_t>(value.data.size()));
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

}  // namespace chx::server
