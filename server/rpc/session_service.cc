#include "server/rpc/session_service.h"

#include <deque>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/registry.h"
#include "proto/command.h"
#include "proto/wire.h"
#include "server/rpc/limits.h"
#include "server/rpc/version.h"

namespace chx {
namespace {

// As many commands as are decoded before they run: what the executor sees at once.
constexpr size_t kWindow = 64;

// What survives a cut of the stream, guarded by the record's stream_mutex.
struct StreamState final : TransportState {
  uint64_t next_event_seq = 1;
  std::deque<v1::Event> unacked;
  uint64_t unacked_bytes = 0;
  std::vector<Command> window = std::vector<Command>(kWindow);

  void Acknowledge(uint64_t seq) {
    while (!unacked.empty() && unacked.front().event_seq() <= seq) {
      unacked_bytes -= unacked.front().ByteSizeLong();
      unacked.pop_front();
    }
  }
};

StreamState& StateOf(SessionRecord& record) {
  if (record.transport == nullptr) record.transport = std::make_unique<StreamState>();
  return static_cast<StreamState&>(*record.transport);
}

// Lets another stream cancel this one, for as long as it exists.
class Canceller {
 public:
  explicit Canceller(grpc::ServerContext* context) : context_(context) {}
  void Cancel() {
    MutexLock lock(&mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  void Disarm() {
    MutexLock lock(&mutex_);
    context_ = nullptr;
  }

 private:
  Mutex mutex_;
  grpc::ServerContext* context_ ABSL_GUARDED_BY(mutex_);
};

void FillLimits(const ManagerOptions& options, v1::Limits* limits) {
  limits->set_max_batch_bytes(kMaxBatchBytes);
  limits->set_max_inflight_commands(kMaxInflightCommands);
  limits->set_max_inflight_bytes(kMaxInflightBytes);
  limits->set_max_inline_bytes(static_cast<uint32_t>(options.session.max_inline_bytes));
  limits->set_session_memory_bytes(static_cast<uint64_t>(options.session.memory_bytes));
  limits->set_lease_seconds(std::chrono::duration<double>(options.lease).count());
  limits->set_max_handles(static_cast<uint32_t>(options.session.max_handles));
}

void FillError(const RootError& error, v1::Error* message) {
  wire::ToMessage(error.status, error.op, error.inputs, error.location, message);
}

void FillEvent(SessionOutput* output, v1::Event* event) {
  for (const SessionOutput::Error& error : output->errors) {
    v1::OpError* message = event->add_errors();
    message->set_handle(error.handle);
    FillError(*error.error, message->mutable_error());
  }
  for (SessionOutput::Value& value : output->values) {
    v1::FetchedValue* message = event->add_values();
    message->set_request_id(value.request_id);
    if (value.error != nullptr) {
      FillError(*value.error, message->mutable_error());
      continue;
    }
    message->set_dtype(static_cast<uint32_t>(value.dtype));
    for (int64_t dim : value.shape) message->add_shape(dim);
    message->set_data(std::move(value.data));
  }
  output->Clear();
}

// One stream of one session.
class OpStream {
 public:
  OpStream(SessionRecord* record, grpc::ServerReaderWriter<v1::Event, v1::Submit>* stream)
      : record_(record), stream_(stream) {}

  // Sends again what the client may not have seen.
  bool Resume(uint64_t acked_event_seq) {
    MutexLock lock(&record_->stream_mutex);
    StreamState& state = StateOf(*record_);
    state.Acknowledge(acked_event_seq);
    for (const v1::Event& event : state.unacked) {
      if (!stream_->Write(event)) return false;
    }
    return true;
  }

  absl::Status Apply(const v1::Submit& submit) {
    MutexLock lock(&record_->stream_mutex);
    StreamState& state = StateOf(*record_);
    state.Acknowledge(submit.acked_event_seq());
    if (submit.batch_seq() <= record_->last_batch_seq) return absl::OkStatus();  // seen before
    if (submit.batch_seq() != record_->last_batch_seq + 1) {
      return absl::FailedPreconditionError(absl::StrCat("expects batch ",
                                                        record_->last_batch_seq + 1, ", got ",
                                                        submit.batch_seq()));
    }
    if (submit.commands().size() > kMaxBatchBytes) {
      return absl::InvalidArgumentError(absl::StrCat("expects batches of at most ",
                                                     kMaxBatchBytes, " bytes, got ",
                                                     submit.commands().size()));
    }
    CommandReader reader(submit.commands());
    while (!reader.AtEnd()) {
      size_t count = 0;
      while (count < kWindow && !reader.AtEnd()) {
        CHX_RETURN_IF_ERROR(reader.Next(&state.window[count++]));
      }
      record_->session->Execute(absl::MakeConstSpan(state.window).subspan(0, count), &output_);
      commands_since_ack_ += count;
    }
    record_->last_batch_seq = submit.batch_seq();
    bytes_since_ack_ += submit.commands().size();
    return Answer(&state);
  }

 private:
  // Values and errors at once; acknowledgements alone when a quarter of the credits is used up.
  absl::Status Answer(StreamState* state) {
    const bool content = !output_.errors.empty() || !output_.values.empty();
    const bool ack_due = commands_since_ack_ >= kMaxInflightCommands / 4 ||
                         bytes_since_ack_ >= kMaxInflightBytes / 4;
    if (!content && !ack_due) return absl::OkStatus();
    event_.Clear();
    event_.set_acked_batch_seq(record_->last_batch_seq);
    commands_since_ack_ = 0;
    bytes_since_ack_ = 0;
    if (content) {
      event_.set_event_seq(state->next_event_seq++);
      FillEvent(&output_, &event_);
      state->unacked.push_back(event_);
      state->unacked_bytes += event_.ByteSizeLong();
      if (state->unacked_bytes > kMaxUnackedEventBytes) {
        return absl::ResourceExhaustedError("the client does not acknowledge events");
      }
    }
    if (!stream_->Write(event_)) return absl::CancelledError("the stream is cut");
    return absl::OkStatus();
  }

  SessionRecord* const record_;
  grpc::ServerReaderWriter<v1::Event, v1::Submit>* const stream_;
  SessionOutput output_;
  v1::Event event_;
  uint64_t commands_since_ack_ = 0;
  uint64_t bytes_since_ack_ = 0;
};

}  // namespace

grpc::Status SessionServiceImpl::Open(grpc::ServerContext* context, const v1::OpenRequest* request,
                                      v1::OpenReply* reply) {
  const grpc::Status allowed = authorizer_->Check(*context);
  if (!allowed.ok()) return allowed;
  if (request->min_protocol() > wire::kProtocolVersion ||
      request->max_protocol() < wire::kProtocolVersion) {
    return grpc::Status(grpc::StatusCode::UNIMPLEMENTED,
                        absl::StrCat("this daemon speaks protocol ", wire::kProtocolVersion,
                                     ", the client ", request->min_protocol(), " to ",
                                     request->max_protocol()));
  }
  if (request->ops_size() > kMaxOpSignatures || request->client_name().size() > 256) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the request is too large");
  }
  SessionRecordPtr record;
  if (!request->resume_session_id().empty()) {
    record = manager_->Find(request->resume_session_id());
    if (record == nullptr) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such session");
    MutexLock lock(&record->stream_mutex);
    reply->set_last_batch_seq(record->last_batch_seq);
  } else {
    if (!open_) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the daemon is shutting down");
    absl::StatusOr<SessionRecordPtr> opened = manager_->Open(request->client_name());
    if (!opened.ok()) return wire::ToGrpc(opened.status());
    record = *std::move(opened);
  }
  reply->set_protocol(wire::kProtocolVersion);
  reply->set_session_id(record->id);
  reply->set_epoch(manager_->epoch());
  reply->set_server_version(kVersion);
  for (const v1::OpSignature& signature : request->ops()) {
    const OpDef* op = OpRegistry::Global().Find(signature.name());
    const bool known = op != nullptr && op->name == signature.name() &&
                       op->SignatureHash() == signature.hash();
    reply->add_op_ids(known ? op->id + 1u : 0u);
  }
  const Devices& devices = manager_->devices();
  for (int i = 0; i < devices.size(); ++i) {
    v1::DeviceInfo* info = reply->add_devices();
    info->set_name(devices.at(i).name());
    info->set_memory_bytes(devices.at(i).memory_bytes());
  }
  FillLimits(manager_->options(), reply->mutable_limits());
  return grpc::Status::OK;
}

grpc::Status SessionServiceImpl::Execute(
    grpc::ServerContext* context, grpc::ServerReaderWriter<v1::Event, v1::Submit>* stream) {
  const grpc::Status allowed = authorizer_->Check(*context);
  if (!allowed.ok()) return allowed;
  v1::Submit submit;
  if (!stream->Read(&submit)) return grpc::Status::OK;
  const SessionRecordPtr record = manager_->Find(submit.session_id());
  if (record == nullptr) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such session");
  const auto canceller = std::make_shared<Canceller>(context);
  const uint64_t attachment =
      manager_->Attach(record, [canceller] { canceller->Cancel(); });
  OpStream session_stream(record.get(), stream);
  absl::Status status;
  if (session_stream.Resume(submit.acked_event_seq())) {
    do {
      status = session_stream.Apply(submit);
    } while (status.ok() && stream->Read(&submit));
  }
  canceller->Disarm();
  manager_->Detach(record, attachment);
  // Records that cannot be read leave the session in a state that its client does not know.
  if (status.code() == absl::StatusCode::kInvalidArgument) {
    manager_->Close(record->id).status().IgnoreError();
  }
  return wire::ToGrpc(status);
}

grpc::Status SessionServiceImpl::Close(grpc::ServerContext* context,
                                       const v1::CloseRequest* request, v1::CloseReply* reply) {
  const grpc::Status allowed = authorizer_->Check(*context);
  if (!allowed.ok()) return allowed;
  absl::StatusOr<std::vector<SessionOutput::Error>> unread = manager_->Close(request->session_id());
  if (!unread.ok()) return wire::ToGrpc(unread.status());
  for (const SessionOutput::Error& error : *unread) {
    v1::OpError* message = reply->add_unread_errors();
    message->set_handle(error.handle);
    FillError(*error.error, message->mutable_error());
  }
  return grpc::Status::OK;
}

}  // namespace chx
