#include "server/engine/compute_slots.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "server/engine/core_affinity.h"
#include "server/engine/host_cpus.h"
#include "server/engine/shared_storage.h"

namespace chx::server {
namespace {

// How often one that waits looks whether a turn is kept in vain, if nothing else happens.
constexpr std::chrono::milliseconds kWatch{1};
// After this time at low priority with less than a fifth of a core, a session has a rest from it:
// others on this host, which are not ours to order, would leave it nothing.
constexpr std::chrono::milliseconds kStarving{50};
constexpr int kLeastPart = 5;
constexpr std::chrono::seconds kRest{1};
// So many runs one after the other make a session one that takes long, or one that does not.
constexpr int kLongRuns = 2;
constexpr int kShortRuns = 8;

TurnClock::duration CpuTime() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

ComputeSlots::ComputeSlots(int slots, int most)
    : slots_(slots), most_(most == 0 ? slots : most), queue_(slots) {
  while (slots-- > 0) free_slots_.push_back(slots);
}

int ComputeSlots::DefaultSlots() { return HostCpus(); }
int ComputeSlots::MostSlots() { return 4 * HostCpus(); }

ComputeSlots::Turn::Turn(ComputeSlots* slots, Account* account, const StopToken* stop)
    : slots_(slots), account_(account), stop_(stop) {
  if (slots_ == nullptr) return;
  resumed_ = slots_->Enter(account_, stop_, TurnClock::now());
  SetYielder(this);
}

ComputeSlots::Turn::~Turn() {
  if (slots_ == nullptr) return;
  SetYielder(nullptr);
  const Time now = TurnClock::now();
  slots_->Leave(account_, now - resumed_, now);
}

void ComputeSlots::Turn::Yield() {
  // Those who wait for the storage may have all turns.
  if (slots_->waiting() == 0 || UsesSharedStorage()) return;
  const Time now = TurnClock::now();
  if (now - account_->began < kSlice) return;
  slots_->Leave(account_, now - resumed_, now);
  resumed_ = slots_->Enter(account_, stop_, now);
}

void ComputeSlots::Turn::Leave() {
  const Time now = TurnClock::now();
  slots_->Leave(account_, now - resumed_, now, /*keep=*/false);
}

void ComputeSlots::Turn::Return() {
  const Time now = TurnClock::now();
  account_->waited += now - account_->left;
  resumed_ = slots_->Enter(account_, stop_, now);
}

void ComputeSlots::Run(ComputeSlots* slots, Account* account, const StopToken* stop,
                       absl::FunctionRef<void()> commands) {
  if (slots == nullptr) return commands();
  const Time start = TurnClock::now();
  Duration taken;
  if (account->takes_long && start >= account->starved_until &&
      slots->ExpectsShortBeside(account, start)) {
    account->low = true;
    taken = slots->RunAtLowPriority(account, stop, commands);
    account->low = false;
  } else {
    const Duration waited = account->waited;
    {
      const Turn turn(slots, account, stop);
      commands();
    }
    taken = account->left - start - (account->waited - waited);
  }
  NoteLength(account, taken >= kLong);
}

// A thread that had to give its core away has taken long once. What frees arrays is short, and
// comes between long commands.
void ComputeSlots::NoteLength(Account* account, bool is_long) {
  int& differing = account->differing_runs;
  differing = is_long == account->takes_long ? 0 : differing + 1;
  if (differing < (is_long ? kLongRuns : kShortRuns)) return;
  account->takes_long = is_long;
  differing = 0;
}

void ComputeSlots::NoteShort(Account* account, Time now) {
  const Duration shorter = account->pause - account->pause / kPausePart;
  const Duration pause = now - account->last_short;
  // Who comes back later, or for the first time, has not paused but been away.
  account->pause = pause > kMostExpected ? shorter : std::max(shorter, pause);
  account->last_short = now;
  if (short_[0].account != account) short_[1] = short_[0];
  short_[0] = {account,
               now + std::clamp<Duration>(2 * account->pause, kLeastExpected, kMostExpected)};
}

bool ComputeSlots::ExpectsShortBeside(const Account* account, Time now) {
  MutexLock lock(&mutex_);
  return std::any_of(short_.begin(), short_.end(), [account, now](const Short& other) {
    return other.account != account && now < other.expected_until;
  });
}

ComputeSlots::Duration ComputeSlots::RunAtLowPriority(Account* account, const StopToken* stop,
                                                      absl::FunctionRef<void()> commands) {
  Duration taken{};
  background_.Run([&] {
    const Duration cpu_time = CpuTime();
    const Duration waited = account->waited;
    const Time start = TurnClock::now();
    {
      const Turn turn(this, account, stop);
      commands();
    }
    taken = CpuTime() - cpu_time;
    account->low_cpu_time += taken;
    account->low_time += account->left - start - (account->waited - waited);
  });
  if (account->low_time < kStarving) return taken;
  // Those of low priority share what is left among themselves.
  if (account->low_cpu_time * kLeastPart * account->low_beside < account->low_time) {
    account->starved_until = account->left + kRest;
  }
  account->low_time = account->low_cpu_time = {};
  account->low_beside = 1;
  return taken;
}

ComputeSlots::Time ComputeSlots::Enter(Account* account, const StopToken* stop, Time now) {
  const Time began = TakeTurn(account, stop, now);
  // Two sessions and their clients on one core would leave another one idle: the system looks for
  // that too rarely. Without others the system knows best.
  const bool contended =
      began.time_since_epoch().count() - contended_.load(std::memory_order_relaxed) <
      Duration(2 * kSlice).count();
  if (!account->low) StayOnCore(contended ? account->slot : -1);
  return began;
}

ComputeSlots::Time ComputeSlots::TakeTurn(Account* account, const StopToken* stop, Time now) {
  const Lock lock(this);
  if (TakeKept(account, now)) {
    if (account->low) ++low_active_;
    return now;
  }
  account->began = now;
  if (active_ >= slots_) DropLate(now);
  if (MayGoOn(account)) {
    Begin(account);
    return now;
  }
  Wait(account, stop, now);
  account->began = TurnClock::now();
  contended_.store(account->began.time_since_epoch().count(), std::memory_order_relaxed);
  account->waited += account->began - now;
  return account->began;
}

void ComputeSlots::Begin(Account* account) {
  ++active_;
  if (account->low) account->low_beside = std::max(account->low_beside, ++low_active_);
  account->slot = -1;
  if (free_slots_.empty()) return;
  account->slot = free_slots_.back();
  free_slots_.pop_back();
}

void ComputeSlots::End(int slot) {
  --active_;
  if (slot >= 0) free_slots_.push_back(slot);
}

bool ComputeSlots::MayGoOn(Account* account) {
  if (active_ < slots_ && queue_.empty()) return true;
  if (active_ >= most_) return false;
  if (queue_.GoesFirst(account)) return true;
  const int waiting = static_cast<int>(queue_.size());
  return !account->low && active_ - low_active_ < slots_ && waiting == low_waiting_;
}

bool ComputeSlots::TakeKept(Account* account, Time now) {
  if (account->kept == 0) return false;
  if (account->awaited) NotePause(account, now);
  const auto kept = std::find_if(kept_.begin(), kept_.end(), [account](const Kept& entry) {
    return entry.number == account->kept;
  });
  account->kept = 0;
  if (kept == kept_.end()) return false;
  kept_.erase(kept);
  // Nobody else could have this time.
  queue_.Charge(account, now - account->left);
  if (queue_.empty() || now - account->began < kSlice) return true;
  End(account->slot);
  return false;
}

void ComputeSlots::NotePause(Account* account, Time now) {
  if (now - account->left <= kMostPause) {
    account->misses = std::max(0, account->misses - 1);
  } else if (++account->misses >= kMostMisses) {
    account->misses = kMostMisses - kTrials;
    account->keep_from = now + kNoTrial;
  }
}

void ComputeSlots::Wait(Account* account, const StopToken* stop, Time now) {
  Waiter waiter;
  waiter.account = account;
  waiter.stop = stop;
  queue_.Add(&waiter, now);
  if (account->low) ++low_waiting_;
  waiting_.store(static_cast<int>(queue_.size()), std::memory_order_relaxed);
  // It may have been told to stop a moment ago, when it did not wait yet.
  if (stop->stopping()) {
    queue_.Remove(&waiter);
    Grant(&waiter);
  }
  GrantNext(now);
  while (!waiter.granted) {
    if (watcher_ == nullptr) watcher_ = &waiter;
    if (!to_wake_.empty()) {
      WakeGranted();
    } else if (watcher_ != &waiter) {
      waiter.wake->wait(mutex_);
    } else if (waiter.wake->wait_for(mutex_, kWatch) == std::cv_status::timeout) {
      GrantNext(TurnClock::now());
    }
  }
  if (watcher_ != &waiter) return;
  watcher_ = nullptr;
  if (!queue_.empty()) to_wake_.push_back(static_cast<Waiter*>(queue_.Last())->wake);
}

void ComputeSlots::Leave(Account* account, Duration used, Time now, bool keep) {
  const Lock lock(this);
  queue_.Charge(account, used);
  account->left = now;
  if (account->low) --low_active_;
  if (!account->takes_long && used < kLong) NoteShort(account, now);
  const bool over = !queue_.empty() && now - account->began >= kSlice;
  // There may be more of what was sent together.
  const bool more = !account->awaited || (account->local && now >= account->keep_from);
  keep = keep && more && !account->low;
  if (keep && active_ <= slots_ && !over) {
    account->kept = ++last_number_;
    kept_.push_back({account->kept, account->slot, now + kKept});
  } else {
    End(account->slot);
  }
  GrantNext(now);
}

void ComputeSlots::DropLate(Time now) {
  for (size_t i = kept_.size(); i-- > 0;) {
    if (kept_[i].until > now) continue;
    End(kept_[i].slot);
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void ComputeSlots::GrantNext(Time now) {
  if (queue_.empty()) return;
  DropLate(now);
  while (active_ < slots_ && !queue_.empty()) Grant(queue_.TakeNext(now));
}

// It is in the queue no longer.
void ComputeSlots::Grant(TurnWaiter* waiter) {
  waiting_.store(static_cast<int>(queue_.size()), std::memory_order_relaxed);
  auto* const account = static_cast<Account*>(waiter->account);
  if (account->low) --low_waiting_;
  Begin(account);
  auto* const granted = static_cast<Waiter*>(waiter);
  granted->granted = true;
  to_wake_.push_back(granted->wake);
}

void ComputeSlots::WakeGranted() {
  const std::vector<std::shared_ptr<CondVar>> granted = std::exchange(to_wake_, {});
  mutex_.Unlock();
  for (const auto& wake : granted) wake->notify_one();
  mutex_.Lock();
}

ComputeSlots::Lock::Lock(ComputeSlots* slots) : slots_(slots) { slots_->mutex_.Lock(); }
ComputeSlots::Lock::~Lock() {
  const std::vector<std::shared_ptr<CondVar>> granted = std::exchange(slots_->to_wake_, {});
  slots_->mutex_.Unlock();
  for (const auto& wake : granted) wake->notify_one();
}

void ComputeSlots::WakeStopped() {
  const Lock lock(this);
  for (TurnWaiter* waiter : queue_.Waiters()) {
    if (!static_cast<Waiter*>(waiter)->stop->stopping()) continue;
    queue_.Remove(waiter);
    Grant(waiter);
  }
}

}  // namespace chx::server
