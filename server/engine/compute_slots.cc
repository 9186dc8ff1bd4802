#include "server/engine/compute_slots.h"

#include <algorithm>
#include <ctime>

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

TurnClock::duration CpuTime() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

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

void ComputeSlots::Run(ComputeSlots* slots, Account* account, const StopToken* stop,
                       absl::FunctionRef<void()> commands) {
  if (slots == nullptr) return commands();
  const Time start = TurnClock::now();
  const Duration waited = account->waited;
  if (account->takes_long && slots->Shared(start) && start >= account->starved_until) {
    account->low = true;
    slots->RunAtLowPriority(account, stop, commands);
    account->low = false;
  } else {
    const Turn turn(slots, account, stop);
    commands();
  }
  account->takes_long = account->left - start - (account->waited - waited) >= kLong;
}

void ComputeSlots::RunAtLowPriority(Account* account, const StopToken* stop,
                                    absl::FunctionRef<void()> commands) {
  background_.Run([&] {
    const Duration cpu_time = CpuTime();
    const Duration waited = account->waited;
    const Time start = TurnClock::now();
    {
      const Turn turn(this, account, stop);
      commands();
    }
    account->low_cpu_time += CpuTime() - cpu_time;
    account->low_time += account->left - start - (account->waited - waited);
  });
  if (account->low_time < kStarving) return;
  if (account->low_cpu_time * kLeastPart < account->low_time) {
    account->starved_until = account->left + kRest;
  }
  account->low_time = account->low_cpu_time = {};
}

ComputeSlots::Time ComputeSlots::Enter(Account* account, const StopToken* stop, Time now) {
  MutexLock lock(&mutex_);
  if (last_account_ != account) {
    if (last_account_ != nullptr) others_.store(now.time_since_epoch().count());
    last_account_ = account;
  }
  if (TakeKept(account, now)) {
    if (account->low) ++low_active_;
    return now;
  }
  account->began = now;
  if (active_ >= slots_) DropLate(now);
  if (MayGoOn(account)) {
    ++active_;
    if (account->low) ++low_active_;
    return now;
  }
  Wait(account, stop, now);
  account->began = TurnClock::now();
  account->waited += account->began - now;
  return account->began;
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
  if (now - account->left <= kMostPause) {
    account->misses = 0;
  } else if (++account->misses > kTrials) {
    account->misses = 1;
    account->keep_from = now + kNoTrial;
  }
  const auto kept = std::find_if(kept_.begin(), kept_.end(), [account](const Kept& entry) {
    return entry.number == account->kept;
  });
  account->kept = 0;
  if (kept == kept_.end()) return false;
  kept_.erase(kept);
  // Nobody else could have this time.
  queue_.Charge(account, now - account->left);
  if (queue_.empty() || now - account->began < kSlice) return true;
  --active_;
  return false;
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
    if (watcher_ != &waiter) {
      waiter.wake.wait(mutex_);
    } else if (waiter.wake.wait_for(mutex_, kWatch) == std::cv_status::timeout) {
      GrantNext(TurnClock::now());
    }
  }
  if (watcher_ != &waiter) return;
  watcher_ = nullptr;
  if (!queue_.empty()) static_cast<Waiter*>(queue_.Last())->wake.notify_one();
}

void ComputeSlots::Leave(Account* account, Duration used, Time now) {
  MutexLock lock(&mutex_);
  queue_.Charge(account, used);
  account->left = now;
  if (account->low) --low_active_;
  const bool over = !queue_.empty() && now - account->began >= kSlice;
  const bool keep = account->local && !account->low && now >= account->keep_from;
  if (keep && active_ <= slots_ && !over) {
    Keep(account, now);
  } else {
    --active_;
  }
  GrantNext(now);
}

void ComputeSlots::Keep(Account* account, Time now) {
  account->kept = ++last_number_;
  kept_.push_back(
      {account->kept, now + (account->misses == 0 ? Duration(2 * kMostPause) : kTrial)});
}

void ComputeSlots::DropLate(Time now) {
  for (size_t i = kept_.size(); i-- > 0;) {
    if (kept_[i].until > now) continue;
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
    --active_;
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
  ++active_;
  if (static_cast<const Account*>(waiter->account)->low) {
    --low_waiting_;
    ++low_active_;
  }
  auto* const granted = static_cast<Waiter*>(waiter);
  granted->granted = true;
  granted->wake.notify_one();
}

void ComputeSlots::WakeStopped() {
  MutexLock lock(&mutex_);
  for (TurnWaiter* waiter : queue_.Waiters()) {
    if (!static_cast<Waiter*>(waiter)->stop->stopping()) continue;
    queue_.Remove(waiter);
    Grant(waiter);
  }
}

}  // namespace chx::server
