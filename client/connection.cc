#include "client/connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/waiting.h"
#include "ops/registry.h"
#include "proto/wire.h"

namespace chx {
namespace {

constexpr size_t kMaxErrors = 1000;
constexpr int kLastDelayMs = 1000;
constexpr std::chrono::milliseconds kPatience(200);
constexpr int kReconnectDelaysMs[] = {0, 20, 100, 400, kLastDelayMs};

}  // namespace

Connection::Connection(std::string address, ConnectOptions options)
    : address_(std::move(address)), options_(std::move(options)) {}

void Connection::AddToken(grpc::ClientContext* context) const {
  if (!options_.token.empty()) context->AddMetadata("authorization", "Bearer " + options_.token);
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const std::string& address,
                                                             const ConnectOptions& options) {
  std::unique_ptr<Connection> connection(new Connection(address, options));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  // Sessions of one process must not share a connection: a fork or a cut concerns one of them.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!options.tls_roots.empty()) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = options.tls_roots;
    credentials = grpc::SslCredentials(tls);
  }
  connection->channel_ = grpc::CreateCustomChannel(address, credentials, arguments);
  connection->stub_ = v1::SessionService::NewStub(connection->channel_);
  v1::OpenReply reply;
  CHX_RETURN_IF_ERROR(connection->OpenSession("", false, &reply));
  connection->session_id_ = reply.session_id();
  connection->op_ids_.assign(reply.op_ids().begin(), reply.op_ids().end());
  connection->op_ids_.resize(static_cast<size_t>(OpRegistry::Global().size()), 0);
  for (const v1::DeviceInfo& device : reply.devices()) {
    connection->devices_.push_back(device.name());
    connection->shares_.push_back(device.shares_memory());
  }
  connection->segments_ = SegmentMap::For(address, reply.session_id());
  connection->limits_ = reply.limits();
  connection->link_ = connection->Attach(0, 0);
  return connection;
}

std::shared_ptr<Link> Connection::Attach(uint64_t last_batch_seq, uint64_t last_event_seq) {
  v1::Submit greeting;
  greeting.set_session_id(session_id_);
  greeting.set_batch_seq(last_batch_seq);  // applied already
  greeting.set_acked_event_seq(last_event_seq);
  std::shared_ptr<Link> link = OpenLocalLink(address_, greeting);
  if (link != nullptr) return link;
  link = std::make_shared<GrpcLink>(stub_.get(), [this](auto* context) { AddToken(context); });
  link->Write(greeting);
  return link;
}

absl::Status Connection::FromRpc(const grpc::Status& status) const {
  const absl::Status error = wire::FromGrpc(status);
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::UNAUTHENTICATED:
      break;
    default:
      return error;
  }
  if (!status.error_details().empty()) return error;
  return MakeError(ErrorKind::kConnection,
                   absl::StrCat("chxd at ", address_, ": ", status.error_message()));
}

absl::Status Connection::OpenSession(absl::string_view resume_session_id, bool patient,
                                     v1::OpenReply* reply) {
  v1::OpenRequest request;
  request.set_min_protocol(wire::kProtocolVersion);
  request.set_max_protocol(wire::kProtocolVersion);
  request.set_client_name(options_.client_name);
  request.set_resume_session_id(std::string(resume_session_id));
  if (resume_session_id.empty()) {
    for (const auto& op : OpRegistry::Global().ops()) {
      v1::OpSignature* signature = request.add_ops();
      signature->set_name(op->name);
      signature->set_hash(op->SignatureHash());
    }
  }
  grpc::ClientContext context;
  AddToken(&context);
  context.set_wait_for_ready(patient);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(patient ? 3 : 10));
  const grpc::Status status = stub_->Open(&context, request, reply);
  if (status.ok()) return absl::OkStatus();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return MakeError(ErrorKind::kConnection,
                     absl::StrCat("cannot reach chxd at ", address_, ": ", status.error_message()));
  }
  return wire::FromGrpc(status);
}

Connection::~Connection() {
  if (link_ != nullptr) link_->Cancel();
}

absl::Status Connection::Send(absl::FunctionRef<uint32_t(std::string*)> take) {
  MutexLock write_lock(&write_mutex_);
  auto batch = std::make_shared<v1::Submit>();
  {
    MutexLock lock(&mutex_);
    if (!failed_.ok()) return failed_;
    if (!spare_buffers_.empty()) {
      batch->set_commands(std::move(spare_buffers_.back()));
      spare_buffers_.pop_back();
    }
  }
  const uint32_t commands = take(batch->mutable_commands());
  if (commands == 0) return absl::OkStatus();
  batch->set_num_commands(commands);
  batch->set_batch_seq(next_batch_seq_++);
  bool full = false;
  std::shared_ptr<Link> link;
  {
    MutexLock lock(&mutex_);
    link = link_;
    batch->set_acked_event_seq(last_event_seq_);
    unacked_.push_back(batch);
    inflight_commands_ += commands;
    inflight_bytes_ += batch->commands().size();
    full = inflight_commands_ > limits_.max_inflight_commands() ||
           inflight_bytes_ > limits_.max_inflight_bytes();
  }
  if (!link->Write(*batch)) {
    // The batch is kept until it is acknowledged, and goes over the next stream. That is made now:
    // nobody may read before the lease ends.
    return ReadUntil([this, &link]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return link_ != link; });
  }
  if (!full) return absl::OkStatus();
  return ReadUntil([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return inflight_commands_ <= limits_.max_inflight_commands() &&
           inflight_bytes_ <= limits_.max_inflight_bytes();
  });
}

absl::StatusOr<v1::FetchedValue> Connection::TakeValue(uint64_t request_id, bool interruptible) {
  const absl::Status arrived = ReadUntil(
      [this, request_id]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return values_.contains(request_id); },
      interruptible);
  if (Interruption::Is(arrived)) Abandon(request_id);
  CHX_RETURN_IF_ERROR(arrived);
  MutexLock lock(&mutex_);
  v1::FetchedValue value = std::move(values_[request_id]);
  values_.erase(request_id);
  if (!value.has_error()) return value;
  absl::Status status = wire::FromMessage(value.error());
  if (write_error_ == status) write_error_ = absl::OkStatus();  // said now
  return status;
}

absl::StatusOr<std::string> Connection::WaitFor(uint64_t request_id, bool interruptible) {
  CHX_ASSIGN_OR_RETURN(v1::FetchedValue value, TakeValue(request_id, interruptible));
  return std::move(*value.mutable_data());
}

absl::Status Connection::TakeWriteError() {
  MutexLock lock(&mutex_);
  return std::exchange(write_error_, absl::OkStatus());
}

void Connection::Abandon(uint64_t request_id) {
  MutexLock lock(&mutex_);
  if (values_.erase(request_id) == 0) abandoned_.insert(request_id);
}

absl::Status Connection::Wait(uint64_t request_id, void* out, size_t bytes) {
  CHX_ASSIGN_OR_RETURN(const std::string data, WaitFor(request_id, true));
  CHX_RETURN_IF_ERROR(TakeWriteError());
  if (data.size() != bytes) {
    return ChainerxError("chxd sent ", data.size(), " bytes instead of ", bytes);
  }
  if (bytes != 0) std::memcpy(out, data.data(), bytes);
  return absl::OkStatus();
}

absl::Status Connection::ReadUntil(absl::FunctionRef<bool()> done, bool interruptible) {
  bool patient = true;
  for (;;) {
    if (!patient && Interruption::Asked()) return Interruption::Error();
    patient = true;
    {
      MutexLock lock(&mutex_);
      while (patient && reading_ && failed_.ok() && !done()) {
        if (!interruptible) {
          arrived_.wait(mutex_);
        } else {
          patient = arrived_.wait_for(mutex_, kPatience) == std::cv_status::no_timeout;
        }
      }
      if (done()) return absl::OkStatus();
      if (!failed_.ok()) return failed_;
      if (reading_) continue;
      reading_ = true;
    }
    const absl::Status status = ReadEvent(!interruptible, &patient);
    {
      MutexLock lock(&mutex_);
      reading_ = false;
      if (!status.ok()) Fail(status);
    }
    arrived_.notify_all();
  }
}

absl::Status Connection::ReadEvent(bool wait_on, bool* got) {
  std::shared_ptr<Link> link;
  {
    MutexLock lock(&mutex_);
    link = link_;
  }
  v1::Event event;
  const Link::Got read = link->Read(&event, wait_on);
  *got = read != Link::Got::kNothing;
  if (!*got) return absl::OkStatus();
  if (read == Link::Got::kEvent) {
    Dispatch(&event);
    return absl::OkStatus();
  }
  const grpc::Status status = link->Finish();
  {
    MutexLock lock(&mutex_);
    if (!failed_.ok()) return failed_;  // closed meanwhile
  }
  // The daemon ended the stream on purpose; another would fare no better.
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE &&
      status.error_code() != grpc::StatusCode::CANCELLED &&
      status.error_code() != grpc::StatusCode::OK) {
    return Lost(wire::FromGrpc(status));
  }
  return Reconnect();
}

absl::Status Connection::status() {
  MutexLock lock(&mutex_);
  return failed_;
}

void Connection::Fail(absl::Status status) {
  if (!failed_.ok()) return;
  failed_ = std::move(status);
  has_failed_ = true;
}

absl::Status Connection::Lost(const absl::Status& why) {
  return MakeError(ErrorKind::kConnection,
                   absl::StrCat("lost the session with chxd at ", address_, ": ", why.message()));
}

void Connection::Dispatch(v1::Event* event) {
  MutexLock lock(&mutex_);
  while (!unacked_.empty() && unacked_.front()->batch_seq() <= event->acked_batch_seq()) {
    v1::Submit& batch = *unacked_.front();
    inflight_commands_ -= batch.num_commands();
    inflight_bytes_ -= batch.commands().size();
    // A sender may still hold one that went over two streams.
    if (spare_buffers_.size() < 8 && unacked_.front().use_count() == 1) {
      batch.mutable_commands()->clear();
      spare_buffers_.push_back(std::move(*batch.mutable_commands()));
    }
    unacked_.pop_front();
  }
  if (event->event_seq() == 0 || event->event_seq() <= last_event_seq_) return;
  last_event_seq_ = event->event_seq();
  for (v1::FetchedValue& value : *event->mutable_values()) {
    const uint64_t id = value.request_id();
    if (abandoned_.erase(id) == 0) values_[id] = std::move(value);
  }
  if (event->freed_functions_size() != 0) {
    freed_functions_.insert(freed_functions_.end(), event->freed_functions().begin(),
                            event->freed_functions().end());
    has_freed_functions_ = true;
  }
  for (const v1::OpError& error : event->errors()) {
    absl::Status status = wire::FromMessage(error.error());
    if (error.handle() == 0 && write_error_.ok()) write_error_ = status;
    if (errors_.size() < kMaxErrors) errors_.push_back(std::move(status));
  }
}

absl::Status Connection::Reconnect() {
  absl::Status last;
  for (int delay : kReconnectDelaysMs) {
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    uint64_t last_event_seq = 0;
    {
      MutexLock lock(&mutex_);
      if (!failed_.ok()) return failed_;
      last_event_seq = last_event_seq_;
    }
    v1::OpenReply reply;
    last = OpenSession(session_id_, delay == kLastDelayMs, &reply);
    if (absl::IsNotFound(last)) break;
    if (!last.ok()) continue;
    std::shared_ptr<Link> link = Attach(reply.last_batch_seq(), last_event_seq);
    // Writers find the new stream when it has all that came before them.
    uint64_t sent = reply.last_batch_seq();
    for (;;) {
      std::vector<std::shared_ptr<v1::Submit>> again;
      {
        MutexLock lock(&mutex_);
        for (const auto& batch : unacked_) {
          if (batch->batch_seq() > sent) again.push_back(batch);
        }
        if (again.empty()) {
          link_ = std::move(link);
          return absl::OkStatus();
        }
      }
      for (const auto& batch : again) link->Write(*batch);
      sent = again.back()->batch_seq();
    }
  }
  return Lost(last);
}

std::vector<uint64_t> Connection::TakeFreedFunctions() {
  if (!has_freed_functions_.load(std::memory_order_relaxed)) return {};
  MutexLock lock(&mutex_);
  has_freed_functions_ = false;
  return std::exchange(freed_functions_, {});
}

std::vector<absl::Status> Connection::TakeErrors() {
  MutexLock lock(&mutex_);
  return std::exchange(errors_, {});
}

absl::Status Connection::Close() {
  if (segments_ != nullptr) segments_->Clear();
  {
    MutexLock lock(&mutex_);
    if (!failed_.ok()) return absl::OkStatus();
    Fail(MakeError(ErrorKind::kConnection, "the session is closed"));
  }
  arrived_.notify_all();
  v1::CloseRequest request;
  request.set_session_id(session_id_);
  v1::CloseReply reply;
  grpc::ClientContext context;
  AddToken(&context);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  const grpc::Status status = stub_->Close(&context, request, &reply);
  MutexLock lock(&mutex_);
  link_->Cancel();
  for (const v1::OpError& error : reply.unread_errors()) {
    errors_.push_back(wire::FromMessage(error.error()));
  }
  return FromRpc(status);
}

}  // namespace chx
