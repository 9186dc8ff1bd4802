// The memory engine's part in groups of several daemons.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/collectives/memory_engine.h"
#include "server/engine/stop_token.h"

namespace chx::server {
namespace {

// When a connection is cut, the meeting place says who has gone at about the same time.
constexpr std::chrono::milliseconds kPatienceForReason(100);
// What was sent before its group broke is there within that.
constexpr std::chrono::milliseconds kPatienceForLeftovers(1000);

}  // namespace

MemoryEngine::MemoryEngine(std::string name, std::chrono::milliseconds timeout,
                           std::unique_ptr<PeerExchange> peers, std::shared_ptr<MemberLink> link,
                           Keep keep, FindSilent find_silent, bool by_devices)
    : name_(std::move(name)),
      size_(peers->layout().num_ranks()),
      num_local_(static_cast<int>(peers->layout().local_ranks().size())),
      timeout_(timeout),
      peers_(std::move(peers)),
      link_(std::move(link)),
      keep_(std::move(keep)),
      find_silent_(std::move(find_silent)),
      devices_(name_),
      by_devices_(by_devices) {}

void MemoryEngine::InterruptExchanges() {
  for (PeerExchange::Receiving* receiving : receiving_) receiving->Interrupt();
}

void MemoryEngine::BreakElsewhere(const std::string& why, int64_t finished) {
  const MutexLock lock(&mutex_);
  if (!broken_.empty()) return;
  broken_ = why;  // before BreakNow, which would tell others
  if (!exchanging_ || finished <= finished_) return BreakNow(why);
  // What is exchanged now has been finished there: it ends well here, too.
  InterruptExchanges();
  changed_.notify_all();
}

std::string MemoryEngine::SilentPeers() {
  if (find_silent_ == nullptr) return "";
  mutex_.Unlock();
  std::string silent;
  {
    const WaitScope others_compute;
    silent = find_silent_();
  }
  mutex_.Lock();
  return silent;
}

void MemoryEngine::BreakForPeers(const PeerOutcome& outcome) {
  const auto deadline = std::chrono::steady_clock::now() + kPatienceForReason;
  while (broken_.empty()) {
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) break;
  }
  std::string silent;
  if (broken_.empty() && outcome.unanswered) silent = SilentPeers();
  BreakNow(silent.empty() ? outcome.broken : silent);
}

void MemoryEngine::Exchange(int rank, const CollectiveCall& call, HostKernels kernels,
                            Meeting* meeting) {
  PeerOutcome outcome;
  {
    const WaitScope others_compute;
    const ArrayPlace place =
        by_devices_ ? devices_.PlaceOf(meeting->calls) : ArrayPlace::kAlwaysHost;
    outcome = peers_->Run(meeting->calls, meeting->failed, place, kernels);
    if (outcome.place == ArrayPlace::kDevices) outcome = ExchangeByDevices(rank, call, *meeting);
    if (!outcome.broken.empty()) peers_->Abort();  // what is on its way has no place to go to
  }
  const MutexLock lock(&mutex_);
  exchanging_ = false;
  meeting->failed = std::move(outcome.failed);
  meeting->broken = !outcome.broken.empty();
  meeting->through_host = !meeting->broken && outcome.place != ArrayPlace::kHost;
  if (outcome.place == ArrayPlace::kAlwaysHost) by_devices_ = false;
  if (meeting->broken) {
    BreakForPeers(outcome);
  } else {
    ++finished_;
  }
  meeting->over = true;
  changed_.notify_all();
}

absl::Status MemoryEngine::SendToPeer(int rank, const CollectiveCall& call, MemoryCharge charge) {
  {
    const MutexLock lock(&mutex_);
    if (!broken_.empty()) return BrokenError(call);
  }
  PeerOutcome outcome;
  outcome.broken = peers_->Send(rank, call, std::move(charge));
  if (outcome.broken.empty()) return absl::OkStatus();
  const MutexLock lock(&mutex_);
  BreakForPeers(outcome);
  return BrokenError(call);
}

absl::Status MemoryEngine::ReceiveFromPeer(int rank, const CollectiveCall& call, PeerAttrs from) {
  const std::unique_ptr<PeerExchange::Receiving> receiving = peers_->BeginReceive(rank, from);
  {
    const MutexLock lock(&mutex_);
    receiving_.push_back(receiving.get());
  }
  const auto patience = [&](PeerExchange::TimePoint began) {
    const MutexLock lock(&mutex_);
    if (WaitIsStopped()) {
      BreakNow(absl::StrCat("rank ", rank, " was stopped in ", call.op.name));
      peers_->Abort();
    }
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        began + (broken_.empty() ? timeout_ : std::min(timeout_, kPatienceForLeftovers)) -
        std::chrono::steady_clock::now());
  };
  PeerOutcome outcome;
  {
    const WaitScope others_compute;
    outcome = peers_->Receive(call, patience, receiving.get());
    if (!outcome.broken.empty()) peers_->Abort();  // another message may have begun to come
  }
  const MutexLock lock(&mutex_);
  receiving_.erase(std::find(receiving_.begin(), receiving_.end(), receiving.get()));
  if (outcome.broken.empty()) return outcome.failed;
  BreakForPeers(outcome);
  return BrokenError(call);
}

}  // namespace chx::server
