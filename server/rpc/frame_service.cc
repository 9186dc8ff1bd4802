#include "server/rpc/frame_service.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/messages.h"
#include "server/rpc/admin_calls.h"
#include "server/rpc/frame_transfer.h"
#include "server/rpc/limits.h"
#include "server/rpc/node_status.h"
#include "server/rpc/op_stream.h"
#include "server/rpc/refusal.h"

namespace chx::server {
namespace {

constexpr std::chrono::seconds kHelloTimeout(10);
constexpr size_t kMaxSubmitBytes = kMaxBatchBytes + 4096;
// An open with all the operators that it may name. Parsed, a message takes many times its bytes.
constexpr size_t kMaxCallBytes = 512 << 10;
// What a last word waits for a client that does not read.
constexpr std::chrono::seconds kLastWord(1);

template <typename Message>
bool Parse(absl::string_view payload, Message* message) {
  return message->ParseFromArray(payload.data(), static_cast<int>(payload.size()));
}

// False: the client has ended the stream, or it is cut, or no batch.
bool ReadSubmit(FrameConnection* connection, v1::Submit* submit) {
  FrameKind kind;
  absl::string_view payload;
  return connection->reader().Next(&kind, &payload) == FrameReader::Result::kFrame &&
         kind == FrameKind::kMessage && Parse(payload, submit) && !connection->HungUp();
}

bool IsForViewers(const v1::Call& call) {
  return call.has_health() || call.has_metrics() || call.has_node_status();
}

// Each call that an open session makes names it by its id.
bool Allows(Access access, const v1::Call& call) {
  if (access == Access::kAll || call.has_health()) return true;
  if (access == Access::kNone) return false;
  const bool resumes = call.has_open() && !call.open().resume_session_id().empty();
  return resumes || call.has_close() || call.has_cancel() || call.has_upload() ||
         call.has_download() || RunCallService::Is(call) || DataCallService::Is(call);
}

// What no session has as its id.
constexpr char kNoSession[] = "-";

// The id of the session that a call is about; null or empty: of none.
std::string* SessionIdOf(v1::Call* call) {
  switch (call->method_case()) {
    case v1::Call::kOpen:
      return call->mutable_open()->mutable_resume_session_id();
    case v1::Call::kClose:
      return call->mutable_close()->mutable_session_id();
    case v1::Call::kCancel:
      return call->mutable_cancel()->mutable_session_id();
    case v1::Call::kUpload:
      return call->mutable_upload()->mutable_session_id();
    case v1::Call::kDownload:
      return call->mutable_download()->mutable_session_id();
    case v1::Call::kStartRun:
      return call->mutable_start_run()->mutable_session_id();
    case v1::Call::kWatchRun:
      return call->mutable_watch_run()->mutable_session_id();
    case v1::Call::kControlRun:
      return call->mutable_control_run()->mutable_session_id();
    case v1::Call::kListRuns:
      return call->mutable_list_runs()->mutable_session_id();
    case v1::Call::kDescribeData:
      return call->mutable_describe_data()->mutable_session_id();
    case v1::Call::kReadData:
      return call->mutable_read_data()->mutable_session_id();
    default:
      return nullptr;
  }
}

void ServeOpStream(SessionManager* manager, FrameConnection* connection, v1::Submit* greeting) {
  const ComputeSlots* const slots = manager->options().session.compute_slots;
  StreamTransport transport;
  transport.read = [connection, slots](v1::Submit* submit) {
    connection->StayAwake(slots == nullptr || !slots->RunsLong());
    return ReadSubmit(connection, submit);
  };
  transport.send = [connection](const v1::Event& event) {
    return connection->Send(FrameKind::kMessage, event);
  };
  transport.cancel = [connection] { connection->Cut(); };
  transport.hung_up = [connection] { return connection->HungUp(); };
  transport.on_draining = [connection] { connection->TellDraining(); };
  const absl::Status status = ServeStream(manager, transport, greeting);
  connection->EndStream();
  if (status.ok()) return;
  connection->SetSendTimeout(kLastWord);
  connection->Send(FrameKind::kEnd, wire::ToMessage(status));
}

}  // namespace

FrameService::FrameService(SessionManager* manager, Runs* runs, FrameServiceOptions options)
    : manager_(manager),
      options_(std::move(options)),
      callers_(Tokens{options_.token, {}}),
      admin_calls_(manager, &callers_, options_.snapshot),
      run_calls_(manager, runs),
      data_calls_(manager, options_.data) {}

bool FrameService::Enter(FrameConnection* connection) {
  MutexLock lock(&mutex_);
  if (stopped_) return false;
  connections_.insert(connection);
  return true;
}

void FrameService::Leave(FrameConnection* connection) {
  MutexLock lock(&mutex_);
  connections_.erase(connection);
  if (connections_.empty()) ended_.notify_all();
}

void FrameService::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  for (const FrameConnection* connection : connections_) connection->Cut();
  while (!connections_.empty()) ended_.wait(mutex_);
}

void FrameService::Serve(int socket, const PeerInfo& peer) {
  FrameConnection connection(socket, options_.budget);
  if (!Enter(&connection)) return;
  Caller caller;
  const absl::Status greeted = Greet(&connection, peer, &caller);
  if (greeted.ok()) {
    ServeCalls(&connection, peer, caller);
  } else if (!absl::IsCancelled(greeted)) {
    v1::Reply reply;
    LogRefusal(peer, greeted);
    connection.SetSendTimeout(kLastWord);
    if (connection.SendReply(greeted, &reply)) connection.Linger();
  }
  Leave(&connection);
}

absl::Status FrameService::Greet(FrameConnection* connection, const PeerInfo& peer,
                                 Caller* caller) {
  FrameReader& reader = connection->reader();
  connection->SetReceiveTimeout(kHelloTimeout);
  reader.set_deadline(std::chrono::steady_clock::now() + kHelloTimeout);
  FrameKind kind;
  absl::string_view payload;
  v1::Hello hello;
  if (reader.Next(&kind, &payload) != FrameReader::Result::kFrame || kind != FrameKind::kHello ||
      !Parse(payload, &hello)) {
    return absl::CancelledError("no client");
  }
  connection->SetReceiveTimeout(std::chrono::seconds(0));
  reader.set_deadline(absl::nullopt);
  reader.set_max_bytes(kMaxSubmitBytes);
  if (hello.min_protocol() > wire::kProtocolVersion ||
      hello.max_protocol() < wire::kProtocolVersion) {
    return absl::UnimplementedError(
        absl::StrCat("this daemon speaks protocol ", wire::kProtocolVersion, ", the client ",
                     hello.min_protocol(), " to ", hello.max_protocol()));
  }
  // The daemon's own process has been started with its end of the connection.
  if (peer.viewer) {
    caller->access = Access::kAll;
  } else {
    *caller = callers_.Identify(peer, hello.token());
  }
  return absl::OkStatus();
}

void FrameService::HideFromOthers(const Caller& caller, std::string* session_id) {
  const SessionRecordPtr record = manager_->Find(*session_id);
  if (record != nullptr && !caller.Owns(*record)) *session_id = kNoSession;
}

void FrameService::ServeCalls(FrameConnection* connection, const PeerInfo& peer,
                              const Caller& caller) {
  for (;;) {
    FrameKind kind;
    size_t bytes = 0;
    absl::string_view payload;
    FrameReader& reader = connection->reader();
    if (reader.Peek(&kind, &bytes) != FrameReader::Result::kFrame ||
        (kind == FrameKind::kCall && bytes > kMaxCallBytes) ||
        reader.Next(&kind, &payload) != FrameReader::Result::kFrame) {
      return;
    }
    if (kind == FrameKind::kCall) {
      if (!Answer(connection, peer, caller, payload)) return;
    } else if (kind == FrameKind::kMessage && caller.access != Access::kNone && !peer.admin &&
               !peer.viewer) {
      v1::Submit greeting;
      if (!Parse(payload, &greeting) || connection->HungUp()) return;
      HideFromOthers(caller, greeting.mutable_session_id());
      connection->BeginStream();
      ServeOpStream(manager_, connection, &greeting);
      return;
    } else {
      return;
    }
  }
}

bool FrameService::Answer(FrameConnection* connection, const PeerInfo& peer,
                          const Caller& connected, absl::string_view payload) {
  v1::Call call;
  v1::Reply reply;
  if (!Parse(payload, &call)) return false;
  const bool asked = callers_.asks_each_call(peer);
  const Caller caller = asked ? callers_.Identify(peer, call.bearer()) : connected;
  if (!Allows(caller.access, call)) {
    const absl::Status refused = caller.access == Access::kNone
                                     ? caller.refused
                                     : absl::UnauthenticatedError(
                                           "this daemon expects a valid token: this one is no "
                                           "longer, and leads to sessions of before only");
    LogRefusal(peer, refused);
    if (asked) return connection->SendReply(refused, &reply);  // others ask over it, too
    connection->SetSendTimeout(kLastWord);
    if (connection->SendReply(refused, &reply)) connection->Linger();
    return false;
  }
  if (peer.admin && !AdminCalls::Is(call) && !IsForViewers(call)) return false;
  if (peer.viewer && !IsForViewers(call)) return false;
  if (std::string* const id = SessionIdOf(&call)) HideFromOthers(caller, id);
  // A client that reads nothing for so long is as good as gone, and comes again if it is not.
  const auto patience = std::max<std::chrono::milliseconds>(manager_->options().lease, kLastWord);
  if (call.has_upload()) return ServeUpload(manager_, call.upload(), connection);
  if (call.has_download()) {
    return ServeDownload(manager_, call.download(), patience, connection);
  }
  return connection->SendReply(Reply(call, peer, caller, &reply), &reply);
}

absl::Status FrameService::Reply(const v1::Call& call, const PeerInfo& peer, const Caller& caller,
                                 v1::Reply* reply) {
  switch (call.method_case()) {
    case v1::Call::kOpen:
      return Open(call.open(), peer, caller, reply->mutable_open());
    case v1::Call::kClose:
      return Close(call.close(), reply->mutable_close());
    case v1::Call::kCancel:
      return manager_->Cancel(call.cancel().session_id(), call.cancel().through_batch_seq());
    case v1::Call::kHealth:
      reply->mutable_health()->set_serving(!manager_->draining() &&
                                           !manager_->devices().all_lost());
      return absl::OkStatus();
    case v1::Call::kMetrics:
      FillMetrics(manager_, reply->mutable_metrics());
      return absl::OkStatus();
    case v1::Call::kNodeStatus:
      FillNodeStatus(manager_, reply->mutable_node_status());
      return absl::OkStatus();
    default:
      if (RunCallService::Is(call)) return run_calls_.Answer(call, reply);
      if (DataCallService::Is(call)) return data_calls_.Answer(call, reply);
      if (AdminCalls::Is(call)) return admin_calls_.Answer(call, peer, *caller.tenant, reply);
      return absl::UnimplementedError("this daemon does not know the call");
  }
}

}  // namespace chx::server
