#include "server/collectives/memory_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ops/error.h"
#include "server/collectives/compare_calls.h"
#include "server/collectives/ranks_text.h"

namespace chx::server {
namespace {

// Work of so many parts is worth waking the other ranks' threads for.
constexpr int64_t kPartsToShare = 2;

}  // namespace

MemoryEngine::MemoryEngine(std::string name, int size, std::chrono::milliseconds timeout)
    : name_(std::move(name)), size_(size), num_local_(size), timeout_(timeout), devices_(name_) {}

MemoryEngine::~MemoryEngine() {
  if (link_ != nullptr) link_->Detach();
  if (peers_ != nullptr && peers_->HasUnsent()) keep_(std::move(peers_));
}

absl::Status MemoryEngine::BrokenError(const CollectiveCall& call) const {
  return MakeError(ErrorKind::kContext,
                   absl::StrCat("[", call.op.name, "] expects a whole process group, got '", name_,
                                "', in which ", broken_, ": form it again"));
}

// Those who wait come back with an error, and whoever comes gets it at once.
void MemoryEngine::BreakNow(const std::string& why) {
  if (broken_.empty()) {
    broken_ = why;
    if (link_ != nullptr) link_->Tell(why, finished_);
  }
  if (meeting_ != nullptr) meeting_->over = meeting_->broken = true;
  meeting_ = nullptr;
  if (exchanging_) interrupted_ = true;
  if (exchanging_ && peers_ != nullptr) peers_->Abort();
  InterruptExchanges();
  changed_.notify_all();
}

void MemoryEngine::Break(int rank, absl::string_view why) {
  const MutexLock lock(&mutex_);
  BreakNow(absl::StrCat("rank ", rank, " ", why));
}

void MemoryEngine::Wake() {
  const MutexLock lock(&mutex_);
  if (exchanging_ && exchanger_ != nullptr && exchanger_->stopping()) BreakNow(exchanger_stopped_);
  InterruptExchanges();
  changed_.notify_all();
}

std::string MemoryEngine::Absent(const Meeting& meeting) const {
  std::vector<bool> come(meeting.calls.size(), true);
  for (int rank = 0; rank < size_; ++rank) {
    if (peers_ == nullptr || peers_->layout().is_local(rank)) {
      come[rank] = meeting.calls[rank] != nullptr;
    }
  }
  return AbsentRanks(come);
}

absl::StatusOr<MemoryEngine::MeetingPtr> MemoryEngine::Come(int rank, const CollectiveCall& call,
                                                            bool* last) {
  const MutexLock lock(&mutex_);
  *last = false;
  if (!broken_.empty()) return BrokenError(call);
  if (meeting_ == nullptr) {
    meeting_ = std::make_shared<Meeting>();
    meeting_->calls.resize(static_cast<size_t>(size_));
  }
  const MeetingPtr meeting = meeting_;
  meeting->calls[rank] = &call;
  if (++meeting->come < num_local_) return meeting;
  meeting_ = nullptr;
  meeting->failed = CompareCalls(name_, meeting->calls);
  const auto in_host = [](const CollectiveCall* one) { return one->stream == nullptr; };
  if (peers_ != nullptr) {
    *last = true;
  } else if (!meeting->failed.ok()) {
    meeting->over = true;
  } else if (std::all_of(meeting->calls.begin(), meeting->calls.end(), in_host)) {
    meeting->work.emplace(meeting->calls);
    meeting->over = meeting->work->size() == 0;
  } else if (devices_.PlaceOf(meeting->calls) == ArrayPlace::kDevices) {
    *last = true;
  } else {
    meeting->over = meeting->through_host = true;
  }
  if (*last) {
    BeginExchange(rank, call, meeting.get());
    return meeting;
  }
  // Else this rank has finished it before others would be awake.
  if (meeting->over || meeting->work->size() >= kPartsToShare) changed_.notify_all();
  return meeting;
}

void MemoryEngine::BeginExchange(int rank, const CollectiveCall& call, Meeting* meeting) {
  meeting->exchanging = exchanging_ = true;
  interrupted_ = false;
  exchanger_ = CurrentStopToken();
  exchanger_stopped_ = absl::StrCat("rank ", rank, " was stopped in ", call.op.name);
}

bool MemoryEngine::HasBegun(const Meeting& meeting) {
  const MutexLock lock(&mutex_);
  return meeting.over || meeting.work.has_value();
}

bool MemoryEngine::HasEnded(const Meeting& meeting) {
  const MutexLock lock(&mutex_);
  return meeting.over && meeting.working == 0;
}

void MemoryEngine::WaitForRanks(int rank, const CollectiveCall& call, const Meeting& meeting) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  const WaitScope others_compute;
  const MutexLock lock(&mutex_);
  bool late = false;
  std::string silent;  // perhaps those that have not come wait for these
  while (!meeting.over && !meeting.work.has_value()) {
    // Who exchanges comes back by itself, at its own deadline or when the group is broken.
    if (meeting.exchanging && (!WaitIsStopped() || !broken_.empty())) {
      changed_.wait(mutex_);
    } else if (WaitIsStopped()) {
      BreakNow(absl::StrCat("rank ", rank, " was stopped in ", call.op.name));
    } else if (late) {
      BreakNow(!silent.empty()
                   ? silent
                   : absl::StrCat(Absent(meeting), " did not come to ", call.op.name, " within ",
                                  absl::FormatDuration(absl::FromChrono(timeout_))));
    } else if (std::chrono::steady_clock::now() >= deadline) {
      silent = SilentPeers();
      late = true;
    } else {
      changed_.wait_until(mutex_, deadline);
    }
  }
}

void MemoryEngine::Work(int rank, HostKernels kernels, Meeting* meeting) {
  {
    const MutexLock lock(&mutex_);
    if (meeting->over) return;
    ++meeting->working;
  }
  int64_t taken = 0;
  const absl::Status status = meeting->work->Work(kernels, &taken);
  const MutexLock lock(&mutex_);
  --meeting->working;
  meeting->done += taken;
  if (!status.ok() && meeting->failed.ok()) {
    meeting->failed = MakeError(KindOf(status), absl::StrCat(status.message(), ", at rank ", rank,
                                                             " of process group '", name_, "'"));
  }
  if (!status.ok() && WaitIsStopped()) BreakNow(absl::StrCat("rank ", rank, " was stopped"));
  meeting->over = !meeting->failed.ok() || meeting->done == meeting->work->size();
  if (meeting->over && meeting->working == 0) changed_.notify_all();
}

void MemoryEngine::WaitForEnd(const Meeting& meeting) {
  const WaitScope others_compute;
  const MutexLock lock(&mutex_);
  while (!meeting.over || meeting.working > 0) changed_.wait(mutex_);
}

absl::Status MemoryEngine::Outcome(const CollectiveCall& call, const Meeting& meeting) {
  const MutexLock lock(&mutex_);
  return meeting.broken ? BrokenError(call) : meeting.failed;
}

absl::Status MemoryEngine::Run(int rank, const CollectiveCall& call, HostKernels kernels) {
  if (!by_devices_ && call.stream != nullptr) return RunThroughHost(rank, call, kernels);
  bool last = false;
  CHX_ASSIGN_OR_RETURN(const MeetingPtr meeting, Come(rank, call, &last));
  if (last && peers_ != nullptr) {
    Exchange(rank, call, kernels, meeting.get());
  } else if (last) {
    ExchangeHere(rank, call, meeting.get());
  }
  if (!HasBegun(*meeting)) WaitForRanks(rank, call, *meeting);
  Work(rank, kernels, meeting.get());
  if (!HasEnded(*meeting)) WaitForEnd(*meeting);
  const absl::Status outcome = Outcome(call, *meeting);
  if (!outcome.ok() || !meeting->through_host) return outcome;
  return RunThroughHost(rank, call, kernels);
}

}  // namespace chx::server
