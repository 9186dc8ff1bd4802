// The memory engine's part in collectives that devices do by themselves.
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ops/error.h"
#include "server/collectives/memory_engine.h"

namespace chx::server {

PeerOutcome MemoryEngine::ExchangeByDevices(int rank, const CollectiveCall& call,
                                            const Meeting& meeting) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  const auto goes_on = [&]() -> absl::Status {
    const MutexLock lock(&mutex_);
    if (!interrupted_ && WaitIsStopped()) BreakNow(exchanger_stopped_);
    if (!interrupted_ && std::chrono::steady_clock::now() >= deadline) {
      const std::string silent = SilentPeers();
      BreakNow(!silent.empty()
                   ? silent
                   : absl::StrCat("the ranks' devices did not finish ", call.op.name, " within ",
                                  absl::FormatDuration(absl::FromChrono(timeout_))));
    }
    return interrupted_ ? BrokenError(call) : absl::OkStatus();
  };
  const auto ask = [&](const std::string& own, std::vector<std::string>* all) {
    return peers_->Tell(call.op.name, own, all);
  };
  const DeviceExchange::Tell tell(ask);
  const int self = peers_ == nullptr ? 0 : peers_->layout().self;
  const absl::StatusOr<ArrayPlace> place =
      devices_.Run(meeting.calls, self, peers_ == nullptr ? nullptr : &tell, goes_on);
  PeerOutcome outcome;
  if (!place.ok()) {
    const bool others = KindOf(place.status()) == ErrorKind::kContext;
    outcome.broken = absl::StrCat(others ? "" : absl::StrCat("rank ", rank, " has failed: "),
                                  place.status().message());
    outcome.unanswered = others;
  } else if (*place != ArrayPlace::kDevices) {
    outcome.place = *place;
  }
  return outcome;
}

// What has been queued for all ranks ends whatever becomes of the group: so the group may be broken
// afterwards, and this collective ends well.
void MemoryEngine::ExchangeHere(int rank, const CollectiveCall& call, Meeting* meeting) {
  PeerOutcome outcome;
  {
    const WaitScope others_compute;
    outcome = ExchangeByDevices(rank, call, *meeting);
  }
  const MutexLock lock(&mutex_);
  exchanging_ = false;
  meeting->broken = !outcome.broken.empty();
  meeting->through_host = !meeting->broken && outcome.place != ArrayPlace::kHost;
  if (outcome.place == ArrayPlace::kAlwaysHost) by_devices_ = false;
  if (meeting->broken) BreakNow(outcome.broken);
  meeting->over = true;
  changed_.notify_all();
}

absl::Status MemoryEngine::RunThroughHost(int rank, const CollectiveCall& call,
                                          HostKernels kernels) {
  if (call.stream == nullptr) return Run(rank, call, kernels);
  CollectiveCall there = call;
  there.stream = nullptr;
  there.passage = nullptr;
  there.failed = call.passage->ToHost(&there);
  const absl::Status status = Run(rank, there, kernels);
  CHX_RETURN_IF_ERROR(there.failed);
  CHX_RETURN_IF_ERROR(status);
  return call.passage->FromHost();
}

}  // namespace chx::server
