#include "client/connection.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/fork_guard.h"
#include "client/local_socket.h"
#include "client/trace.h"
#include "client/waiting.h"
#include "ops/registry.h"
#include "proto/messages.h"

namespace chx {
namespace {

constexpr size_t kMaxErrors = 1000;
constexpr std::chrono::milliseconds kPatience(200);
// So much goes into any socket's buffer, whether the daemon takes it or not.
constexpr uint64_t kUnheardBytes = 64 << 10;
constexpr std::chrono::seconds kOpenTimeout(10);
constexpr std::chrono::seconds kCloseTimeout(5);
constexpr int kOpenTries = 8;  // within 1.3 s
constexpr std::chrono::milliseconds kFirstPause(10);

}  // namespace

Connection::Connection(std::string address, ConnectOptions options)
    : address_(std::move(address)),
      options_(std::move(options)),
      fork_generation_(ForkGeneration()) {}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const std::string& address,
                                                             const ConnectOptions& options) {
  std::unique_ptr<Connection> connection(new Connection(address, options));
  CHX_ASSIGN_OR_RETURN(connection->dialer_,
                       Dialer::For(address, options.tls_roots, options.tls_cert, options.tls_key));
  connection->channels_ =
      std::make_unique<ChannelPool>(connection->dialer_.get(), options.token, options.token_file);
  v1::OpenReply reply;
  std::unique_ptr<CallChannel> channel;
  CHX_RETURN_IF_ERROR(connection->OpenSession("", Clock::now() + kOpenTimeout, &reply, &channel));
  connection->session_id_ = reply.session_id();
  connection->session_number_ = reply.session_number();
  connection->op_ids_.assign(reply.op_ids().begin(), reply.op_ids().end());
  connection->op_ids_.resize(static_cast<size_t>(OpRegistry::Global().size()), 0);
  for (const v1::DeviceInfo& device : reply.devices()) {
    connection->devices_.push_back(device.name());
    connection->shares_.push_back(device.shares_memory());
  }
  const auto unknown = std::count(connection->op_ids_.begin(), connection->op_ids_.end(), 0);
  if (unknown != 0) {
    connection->Log(LogLevel::kInfo, "does not know ", unknown, " operators of this client");
  }
  connection->knows_sharing_ = reply.knows_sharing();
  connection->knows_programs_ = reply.knows_programs();
  connection->knows_runs_ = reply.knows_runs();
  connection->knows_data_ = reply.knows_data();
  connection->knows_upload_parts_ = reply.knows_upload_parts();
  connection->knows_groups_ = reply.knows_groups();
  connection->knows_reduce_backward_ = reply.knows_reduce_backward();
  connection->knows_published_programs_ = reply.knows_published_programs();
  connection->segments_ =
      SegmentMap::For(address, reply.session_id(), PeerOf(channel->socket().fd()));
  connection->limits_ = reply.limits();
  connection->keeps_names_ = reply.has_kept();
  connection->kept_ = reply.kept();
  connection->epoch_ = reply.epoch();
  if (!options.session.empty() && !connection->keeps_names_) {
    return MakeError(ErrorKind::kNotImplemented,
                     absl::StrCat("[connect] expects a daemon that knows named sessions, got chxd ",
                                  "at ", address, ", which is older"));
  }
  connection->AdoptNumbers(reply.last_batch_seq());
  connection->dialer_->set_lease(
      std::chrono::milliseconds(static_cast<int64_t>(reply.limits().lease_seconds() * 1000)));
  connection->last_heard_ = Clock::now().time_since_epoch().count();
  connection->link_ = connection->Attach(std::move(channel), reply.last_batch_seq(), 0);
  return connection;
}

// Batches of this client come after those of the session's former one.
void Connection::AdoptNumbers(uint64_t last_batch_seq) {
  MutexLock lock(&write_mutex_);
  next_batch_seq_ = last_batch_seq + 1;
  last_sent_seq_.store(last_batch_seq, std::memory_order_relaxed);
}

std::shared_ptr<Link> Connection::Attach(std::unique_ptr<CallChannel> channel,
                                         uint64_t last_batch_seq, uint64_t last_event_seq) const {
  v1::Submit greeting;
  greeting.set_session_id(session_id_);
  greeting.set_batch_seq(last_batch_seq);  // applied already
  greeting.set_acked_event_seq(last_event_seq);
  auto link = std::make_shared<Link>(std::move(channel));
  link->Write(greeting);  // were it cut, a read would tell
  return link;
}

absl::Status Connection::FromReply(const v1::Status& status) const {
  const absl::Status error = wire::FromMessage(status);
  if (status.kind() != 0) return error;
  switch (error.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnauthenticated:
      return MakeError(ErrorKind::kConnection,
                       absl::StrCat("chxd at ", address_, ": ", error.message()));
    // Why there is no such session any more, from a transfer that asked before the stream did.
    case absl::StatusCode::kFailedPrecondition:
      return MakeError(ErrorKind::kConnection, absl::StrCat("lost the session with chxd at ",
                                                            address_, ": ", error.message()));
    default:
      return error;
  }
}

absl::Status Connection::OpenSession(absl::string_view resume_session_id,
                                     Clock::time_point deadline, v1::OpenReply* reply,
                                     std::unique_ptr<CallChannel>* channel) {
  v1::Call call;
  v1::OpenRequest& request = *call.mutable_open();
  request.set_client_name(options_.client_name);
  request.set_resume_session_id(std::string(resume_session_id));
  if (resume_session_id.empty()) request.set_session_name(options_.session);
  if (resume_session_id.empty()) {
    for (const auto& op : OpRegistry::Global().ops()) {
      v1::OpSignature* signature = request.add_ops();
      signature->set_name(op->name);
      signature->set_hash(op->SignatureHash());
    }
  }
  v1::Reply answer;
  absl::Status status;
  // A daemon's front process cuts connections where it has to make room, and when it is replaced.
  // Whoever takes a session up tries again anyway.
  auto pause = kFirstPause;
  for (int tries = resume_session_id.empty() ? kOpenTries : 1; tries > 0; --tries) {
    CHX_ASSIGN_OR_RETURN(*channel, channels_->Take(deadline, true));
    if ((*channel)->Call(call, &answer, deadline)) {
      status = wire::FromMessage(answer.status());
      break;
    }
    const bool in_time = Clock::now() < deadline;
    status = absl::UnavailableError(
        !in_time                  ? "no answer in time"
        : dialer_->is_plain_tcp() ? "the connection is cut; if the port expects TLS, give tls_roots"
                                  : "the connection is cut");
    if (!in_time) break;
    Log(LogLevel::kDebug, "no session yet: ", status.message());
    if (tries > 1) std::this_thread::sleep_for(std::exchange(pause, 2 * pause));
  }
  const bool refused = absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
  if (refused && answer.status().kind() == 0) {
    return MakeError(ErrorKind::kConnection,
                     absl::StrCat("cannot reach chxd at ", address_, ": ", status.message()));
  }
  if (absl::IsUnauthenticated(status)) {
    const bool any = absl::EndsWith(status.message(), "a valid token");
    return absl::UnauthenticatedError(absl::StrCat(
        "chxd at ", address_, ": ", status.message(),
        any ? ", the one in its --token-file or one of its --tenants; give it as token, or in "
              "$CHX_TOKEN"
            : ""));
  }
  *reply = std::move(*answer.mutable_open());
  return status;
}

Connection::~Connection() {
  if (link_ != nullptr) link_->Cancel();
}

absl::Status Connection::Send(absl::FunctionRef<uint32_t(std::string*)> take, bool interruptible) {
  if (unheard_bytes_.load(std::memory_order_relaxed) > kUnheardBytes) {
    CHX_RETURN_IF_ERROR(WaitForRoom(interruptible));
  }
  bool full = false;
  CHX_RETURN_IF_ERROR(WriteBatch(take, &full));
  if (!full) return absl::OkStatus();
  Log(LogLevel::kDebug, "waits: the daemon has enough to do");
  const internal::TraceSpan span("wait", "wait for room");
  const Waiting waiting;
  const auto has_room = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return inflight_commands_ <= limits_.max_inflight_commands() &&
           inflight_bytes_ <= limits_.max_inflight_bytes();
  };
  return ReadUntil(has_room, interruptible);
}

bool Connection::TakesAtOnce() {
  MutexLock lock(&mutex_);
  return link_ != nullptr && link_->AllTaken();
}

absl::Status Connection::WaitForRoom(bool interruptible) {
  absl::optional<Waiting> waiting;
  for (;;) {
    std::shared_ptr<Link> link;
    {
      MutexLock lock(&mutex_);
      if (!failed_.ok()) return failed_;
      link = link_;
    }
    const auto patience = waiting.has_value() ? kPatience : std::chrono::milliseconds(0);
    if (link->WaitForRoom(static_cast<int>(patience.count()))) return absl::OkStatus();
    if (!waiting.has_value()) waiting.emplace();
    if (interruptible && Interruption::Asked()) return Interruption::Error();
  }
}

absl::Status Connection::WriteBatch(absl::FunctionRef<uint32_t(std::string*)> take, bool* full) {
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
  internal::TraceSpan span("flush", "flush");
  const uint32_t commands = take(batch->mutable_commands());
  if (commands == 0) return absl::OkStatus();
  batch->set_num_commands(commands);
  batch->set_batch_seq(next_batch_seq_++);
  last_sent_seq_.store(batch->batch_seq(), std::memory_order_relaxed);
  span.SetBatch(session_number_, batch->batch_seq());
  span.SetBytes(batch->commands().size());
  unheard_bytes_.fetch_add(batch->commands().size(), std::memory_order_relaxed);
  std::shared_ptr<Link> link;
  {
    MutexLock lock(&mutex_);
    if (!failed_.ok()) return failed_;
    link = link_;
    batch->set_acked_event_seq(last_event_seq_);
    unacked_.push_back(batch);
    inflight_commands_ += commands;
    inflight_bytes_ += batch->commands().size();
    *full = inflight_commands_ > limits_.max_inflight_commands() ||
            inflight_bytes_ > limits_.max_inflight_bytes();
  }
  if (link->Write(*batch)) return absl::OkStatus();
  // The batch is kept until it is acknowledged, and goes over the next stream. That is made now:
  // nobody may read before the lease ends.
  return ReadUntil([this, &link]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return link_ != link; });
}

absl::StatusOr<v1::FetchedValue> Connection::TakeValue(uint64_t request_id, bool interruptible) {
  internal::TraceSpan span("wait", "wait for a value");
  span.SetBatch(session_number_, last_sent_seq_.load(std::memory_order_relaxed));
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
    if (interruptible && !patient && Interruption::Asked()) return Interruption::Error();
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
    const absl::Status status =
        ReadEvent(interruptible ? Link::Wait::kAWhile : Link::Wait::kOn, &patient);
    {
      MutexLock lock(&mutex_);
      reading_ = false;
      if (!status.ok()) Fail(status);
    }
    arrived_.notify_all();
  }
}

absl::Status Connection::ReadEvent(Link::Wait wait, bool* got) {
  *got = false;
  if (recovery_.active) return Recover();
  std::shared_ptr<Link> link;
  {
    MutexLock lock(&mutex_);
    if (!failed_.ok()) return failed_;
    link = link_;
  }
  v1::Event event;
  const Link::Got read = link->Read(&event, wait);
  if (read == Link::Got::kNothing) return absl::OkStatus();
  if (read == Link::Got::kEvent) {
    *got = true;
    recovery_ = Recovery();
    Dispatch(&event);
    return absl::OkStatus();
  }
  {
    MutexLock lock(&mutex_);
    if (!failed_.ok()) return failed_;  // closed meanwhile
  }
  // Where the daemon ended the stream on purpose another would fare no better.
  const absl::Status end = link->Finish();
  if (!absl::IsUnavailable(end) && !absl::IsCancelled(end)) return Lost(end);
  recovery_.active = true;
  const auto patience = std::chrono::duration<double>(Patience());
  Log(LogLevel::kWarning, "the connection is cut; reconnects for up to ", patience.count(), " s");
  // A stream over which nothing came at all is one more failed try.
  if (recovery_.tries == 0) recovery_.since = Clock::now();
  return Recover();
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

void Connection::Dispatch(v1::Event* event) {
  last_heard_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  unheard_bytes_.store(0, std::memory_order_relaxed);
  if (event->draining() && !draining_.exchange(true)) {
    Log(LogLevel::kWarning, "the daemon is about to end");
  }
  MutexLock lock(&mutex_);
  last_acked_batch_ = std::max(last_acked_batch_, event->acked_batch_seq());
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

std::vector<uint64_t> Connection::TakeFreedFunctions() {
  if (!has_freed_functions_.load(std::memory_order_relaxed)) return {};
  MutexLock lock(&mutex_);
  has_freed_functions_ = false;
  return std::exchange(freed_functions_, {});
}

std::vector<absl::Status> Connection::TakeErrors() {
  if (fork_generation_ != ForkGeneration()) return {};
  MutexLock lock(&mutex_);
  return std::exchange(errors_, {});
}

absl::Status Connection::Close(bool discard) {
  if (segments_ != nullptr) segments_->Clear();
  std::shared_ptr<Link> link;
  {
    MutexLock lock(&mutex_);
    link = std::exchange(link_, nullptr);
    if (!failed_.ok()) {  // lost before, or closed
      channels_->Close();
      return absl::OkStatus();
    }
    Fail(MakeError(ErrorKind::kConnection, "the session is closed"));
  }
  arrived_.notify_all();
  v1::Call call;
  call.mutable_close()->set_session_id(session_id_);
  call.mutable_close()->set_discard(discard);
  v1::Reply reply;
  absl::Status status = Ask(call, Clock::now() + kCloseTimeout, &reply);
  // An attempt that was cut may have closed it.
  if (absl::IsNotFound(wire::FromMessage(reply.status()))) status = absl::OkStatus();
  // Nor does a daemon that was about to end, and has done so meanwhile, have it any more.
  if (draining() && KindOf(status) == ErrorKind::kConnection) status = absl::OkStatus();
  channels_->Close();
  link->Cancel();
  std::vector<absl::Status> unread;
  for (const v1::OpError& error : reply.close().unread_errors()) {
    unread.push_back(wire::FromMessage(error.error()));
    Log(LogLevel::kWarning, "an error that nobody has read: ", unread.back().message());
  }
  MutexLock lock(&mutex_);
  errors_.insert(errors_.end(), unread.begin(), unread.end());
  return status;
}

}  // namespace chx
