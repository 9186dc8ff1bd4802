// The memory engine's messages from one rank to another.
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ops/error.h"
#include "server/collectives/memory_engine.h"
#include "server/engine/stop_token.h"

namespace chx::server {

absl::Status MemoryEngine::Send(int rank, const CollectiveCall& call, MemoryCharge charge) {
  CHX_ASSIGN_OR_RETURN(const PeerAttrs to, PeerAttrs::From(call.op, call.attrs));
  if (peers_ != nullptr && !peers_->layout().is_local(to.peer)) {
    return SendToPeer(rank, call, std::move(charge));
  }
  Message message;
  message.charge = std::move(charge);
  message.location = std::string(call.location);
  message.failed = call.failed;
  if (call.failed.ok()) {
    const KernelTensor& x = call.inputs[0];
    message.spec = ArraySpec(x.dtype, x.shape);
    message.data.assign(x.data, static_cast<size_t>(x.size() * ItemSize(x.dtype)));
  }
  const MutexLock lock(&mutex_);
  if (!broken_.empty()) return BrokenError(call);
  messages_[Channel(rank, to.peer, to.tag)].push_back(std::move(message));
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<MemoryEngine::Message> MemoryEngine::Take(int rank, const CollectiveCall& call,
                                                         const Channel& channel) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  const WaitScope others_compute;
  const MutexLock lock(&mutex_);
  bool late = false;
  std::string silent;  // perhaps the other rank waits for these
  while (true) {
    const auto found = messages_.find(channel);
    if (found != messages_.end()) {
      Message message = std::move(found->second.front());
      found->second.pop_front();
      if (found->second.empty()) messages_.erase(found);
      return message;
    }
    if (!broken_.empty()) return BrokenError(call);
    if (WaitIsStopped()) {
      BreakNow(absl::StrCat("rank ", rank, " was stopped in ", call.op.name));
    } else if (late) {
      BreakNow(!silent.empty()
                   ? silent
                   : absl::StrCat("rank ", std::get<0>(channel), " did not send to rank ", rank,
                                  " within ", absl::FormatDuration(absl::FromChrono(timeout_))));
    } else if (std::chrono::steady_clock::now() >= deadline) {
      silent = SilentPeers();
      late = true;
    } else {
      changed_.wait_until(mutex_, deadline);
    }
  }
}

absl::Status MemoryEngine::Receive(int rank, const CollectiveCall& call) {
  CHX_ASSIGN_OR_RETURN(const PeerAttrs from, PeerAttrs::From(call.op, call.attrs));
  if (peers_ != nullptr && !peers_->layout().is_local(from.peer)) {
    return ReceiveFromPeer(rank, call, from);
  }
  CHX_ASSIGN_OR_RETURN(const Message message, Take(rank, call, Channel(from.peer, rank, from.tag)));
  const std::string at =
      absl::StrCat("at rank ", from.peer,
                   message.location.empty() ? "" : absl::StrCat(" (", message.location, ")"));
  if (!message.failed.ok()) {
    return MakeError(KindOf(message.failed), absl::StrCat(message.failed.message(), ", ", at));
  }
  if (!call.failed.ok()) return call.failed;
  const KernelTensor& y = call.outputs[0];
  const ArraySpec expected(y.dtype, y.shape);
  if (message.spec.dtype != y.dtype || message.spec.shape != y.shape) {
    return ValueError("[", call.op.name, "] expects ", expected.ToString(), ", got ",
                      message.spec.ToString(), ", sent ", at);
  }
  if (!message.data.empty()) std::memcpy(y.data, message.data.data(), message.data.size());
  return absl::OkStatus();
}

}  // namespace chx::server
