#include "server/engine/compute_slots.h"

#include "server/engine/host_cpus.h"
#include "server/engine/shared_storage.h"

namespace chx::server {

int ComputeSlots::DefaultSlots() { return 4 * HostCpus(); }

ComputeSlots::Turn::Turn(ComputeSlots* slots, Account* account, const StopToken* stop)
    : slots_(slots), account_(account), stop_(stop) {
  if (slots_ == nullptr) return;
  slots_->Enter(account_, stop_);
  began_ = TurnClock::now();
  SetYielder(this);
}

ComputeSlots::Turn::~Turn() {
  if (slots_ == nullptr) return;
  SetYielder(nullptr);
  slots_->Leave(account_, TurnClock::now() - began_);
}

void ComputeSlots::Turn::Yield() {
  // Those who wait for the storage may have all turns.
  if (slots_->waiting() == 0 || UsesSharedStorage()) return;
  const auto used = TurnClock::now() - began_;
  if (used < kSlice) return;
  slots_->Leave(account_, used);
  slots_->Enter(account_, stop_);
  began_ = TurnClock::now();
}

void ComputeSlots::Enter(Account* account, const StopToken* stop) {
  MutexLock lock(&mutex_);
  if (active_ < slots_ && queue_.empty()) {
    ++active_;
    return;
  }
  Waiter waiter;
  waiter.account = account;
  waiter.stop = stop;
  queue_.Add(&waiter, TurnClock::now());
  waiting_.store(static_cast<int>(queue_.size()), std::memory_order_relaxed);
  // It may have been told to stop a moment ago, when it did not wait yet.
  if (stop->stopping()) {
    queue_.Remove(&waiter);
    Grant(&waiter);
  }
  GrantNext();
  while (!waiter.granted) waiter.wake.wait(mutex_);
}

void ComputeSlots::Leave(Account* account, Duration used) {
  MutexLock lock(&mutex_);
  queue_.Charge(account, used);
  --active_;
  GrantNext();
}

void ComputeSlots::GrantNext() {
  while (active_ < slots_ && !queue_.empty()) Grant(queue_.TakeNext(TurnClock::now()));
}

// It is in the queue no longer.
void ComputeSlots::Grant(TurnWaiter* waiter) {
  waiting_.store(static_cast<int>(queue_.size()), std::memory_order_relaxed);
  ++active_;
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
