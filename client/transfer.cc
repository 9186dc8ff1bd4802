// Calls of a Connection beside its op stream: bulk data, whose bytes are copied into no message nor
// out of one, and what is said about the session as a whole.
#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "client/connection.h"
#include "client/trace.h"
#include "client/waiting.h"
#include "ops/error.h"
#include "proto/messages.h"

namespace chx {
namespace {

constexpr std::chrono::seconds kDialTimeout(5);
constexpr std::chrono::seconds kCancelTimeout(10);
// How long a cancel tries to get through: it is Ctrl-C's, so not for as long as a transfer.
constexpr std::chrono::seconds kCancelPatience(3);
constexpr int kAskTries = 8;
constexpr std::chrono::milliseconds kFirstWait(10);
constexpr std::chrono::milliseconds kLastWait(500);

// Whether the daemon has refused the connection, for now, and not the call.
bool IsRefusal(const v1::Status& status) {
  const absl::Status refused = wire::FromMessage(status);
  return status.kind() == 0 && (absl::IsUnavailable(refused) || absl::IsResourceExhausted(refused));
}

}  // namespace

absl::optional<DeviceId> Connection::SharingDevice() const {
  if (segments_ == nullptr || !segments_->usable()) return absl::nullopt;
  const auto it = std::find(shares_.begin(), shares_.end(), true);
  if (it == shares_.end()) return absl::nullopt;
  return static_cast<DeviceId>(it - shares_.begin());
}

absl::Status Connection::Ask(const v1::Call& call, Clock::time_point deadline, v1::Reply* reply) {
  auto pause = kFirstWait;
  for (int tries = 0; tries < kAskTries && Clock::now() < deadline; ++tries) {
    // After that of a connection that lay idle, a cut or a refusal means that there is no room just
    // now.
    if (tries > 1) std::this_thread::sleep_for(std::exchange(pause, 2 * pause));
    CHX_ASSIGN_OR_RETURN(std::unique_ptr<CallChannel> channel,
                         channels_->Take(deadline, tries != 0));
    if (!channel->Call(call, reply, deadline) || IsRefusal(reply->status())) continue;
    channels_->Return(std::move(channel));
    return FromReply(reply->status());
  }
  if (reply->has_status()) return FromReply(reply->status());
  return MakeError(ErrorKind::kConnection,
                   absl::StrCat("chxd at ", address_, ": the connection is cut"));
}

absl::Status Connection::AskAboutSession(
    absl::FunctionRef<void(const std::string& id, uint64_t epoch, v1::Call* call)> fill,
    std::chrono::seconds timeout, v1::Reply* reply) {
  const absl::Status status = Persist([&](CallChannel* channel) {
    v1::Call call;
    fill(session_id_, epoch_, &call);
    return channel->Call(call, reply, Clock::now() + timeout) && !IsRefusal(reply->status());
  });
  return status.ok() || reply->has_status() ? FromReply(reply->status()) : status;
}

absl::Status Connection::Cancel() {
  v1::Call call;
  call.mutable_cancel()->set_session_id(session_id_);
  call.mutable_cancel()->set_through_batch_seq(last_sent_seq_.load(std::memory_order_relaxed));
  const auto give_up = Clock::now() + kCancelPatience;
  for (auto delay = kFirstWait;; delay = std::min(2 * delay, kLastWait)) {
    v1::Reply reply;
    absl::Status status = Ask(call, Clock::now() + kCancelTimeout, &reply);
    const bool answered = status.ok() || reply.has_status();
    if (answered || Clock::now() >= give_up) return status;
    if (Interruption::Asked()) return Interruption::Error();
    MutexLock lock(&mutex_);
    if (!failed_.ok()) return failed_;
    arrived_.wait_for(mutex_, delay);
  }
}

absl::Status Connection::Persist(absl::FunctionRef<bool(CallChannel*)> attempt) {
  auto give_up = Clock::time_point::max();
  auto delay = kFirstWait;
  Departure departure;
  for (int tries = 0;; ++tries) {
    absl::StatusOr<std::unique_ptr<CallChannel>> channel =
        channels_->Take(Clock::now() + kDialTimeout, tries != 0);
    absl::Status status = channel.status();
    if (HasEnded(&departure, status)) return Departure::Error(address_);
    if (channel.ok()) {
      if (attempt(channel->get())) {
        channels_->Return(*std::move(channel));
        return absl::OkStatus();
      }
      if ((*channel)->interrupted()) return Interruption::Error();
      status = MakeError(ErrorKind::kConnection,
                         absl::StrCat("chxd at ", address_, ": the connection is cut"));
    }
    if (tries != 0 && Interruption::Asked()) return Interruption::Error();
    if (give_up == Clock::time_point::max()) give_up = Clock::now() + Patience();
    if (Clock::now() >= give_up) return status;
    MutexLock lock(&mutex_);
    if (!failed_.ok()) return failed_;
    if (tries == 0) continue;
    arrived_.wait_for(mutex_, delay);
    delay = std::min(2 * delay, kLastWait);
  }
}

absl::Status Connection::Upload(Handle handle, Dtype dtype, absl::Span<const int64_t> shape,
                                DeviceId device, absl::string_view data) {
  internal::TraceSpan span("transfer", "upload");
  span.SetBytes(data.size());
  calls_.fetch_add(1, std::memory_order_relaxed);
  v1::Call call;
  v1::UploadHeader& header = *call.mutable_upload();
  header.set_session_id(session_id_);
  header.set_handle(handle);
  header.set_dtype(static_cast<uint32_t>(dtype));
  for (int64_t dim : shape) header.add_shape(dim);
  header.set_device(device);
  header.set_epoch(epoch_);
  v1::Reply reply;
  CHX_RETURN_IF_ERROR(Persist([&](CallChannel* channel) {
    bool open = channel->Send(call);
    header.set_again(true);  // for the next attempt, if this one is cut
    for (absl::string_view left = data; open && !left.empty();) {
      const absl::string_view chunk = left.substr(0, kChunkBytes);
      left.remove_prefix(chunk.size());
      open = channel->SendData(chunk);
    }
    return open && channel->SendData("") && channel->Receive(&reply) && !IsRefusal(reply.status());
  }));
  if (!reply.has_status()) uploads_.fetch_add(1, std::memory_order_relaxed);
  return FromReply(reply.status());
}

absl::Status Connection::ReadData(v1::ReadDataRequest request) {
  internal::TraceSpan span("transfer", "read_data");
  calls_.fetch_add(1, std::memory_order_relaxed);
  v1::Call call;
  *call.mutable_read_data() = std::move(request);
  call.mutable_read_data()->set_session_id(session_id_);
  call.mutable_read_data()->set_epoch(epoch_);
  v1::Reply reply;
  CHX_RETURN_IF_ERROR(Persist([&](CallChannel* channel) {
    const bool open = channel->Send(call);
    call.mutable_read_data()->set_again(true);  // for the next attempt, if this one is cut
    return open && channel->Receive(&reply) && !IsRefusal(reply.status());
  }));
  if (!reply.has_status()) uploads_.fetch_add(1, std::memory_order_relaxed);
  return FromReply(reply.status());
}

absl::Status Connection::Download(Handle handle, void* out, size_t bytes) {
  internal::TraceSpan span("transfer", "download");
  span.SetBytes(bytes);
  calls_.fetch_add(1, std::memory_order_relaxed);
  v1::Call call;
  call.mutable_download()->set_session_id(session_id_);
  call.mutable_download()->set_handle(handle);
  call.mutable_download()->set_epoch(epoch_);
  v1::Reply reply;
  bool fits = true;
  CHX_RETURN_IF_ERROR(Persist([&](CallChannel* channel) {
    if (!channel->Send(call) || !channel->Receive(&reply)) return false;
    if (reply.has_status()) return !IsRefusal(reply.status());
    fits = reply.download().bytes() == bytes;
    if (!fits) channel->socket().Cut();  // what comes now is of no use
    return !fits || channel->ReceiveData(static_cast<char*>(out), bytes);
  }));
  if (!fits) {
    return ChainerxError("chxd sent ", reply.download().bytes(), " bytes instead of ", bytes);
  }
  return FromReply(reply.status());
}

}  // namespace chx
