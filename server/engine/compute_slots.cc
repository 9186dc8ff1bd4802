#include "server/engine/compute_slots.h"

#include <algorithm>

#include "server/engine/host_cpus.h"

namespace chx::server {
namespace {

// What a session has had while nobody waited is no debt, nor is more than this.
constexpr std::chrono::milliseconds kMostDebt{100};

thread_local ComputeSlots::Turn* current_turn = nullptr;

}  // namespace

bool StopRequested() {
  const StopToken* const stop = CurrentStopToken();
  if (stop == nullptr) return false;
  if (stop->Notice()) return true;
  if (current_turn == nullptr) return false;
  current_turn->Yield();
  return stop->Notice();
}

int ComputeSlots::DefaultSlots() { return 4 * HostCpus(); }

ComputeSlots::Turn::Turn(ComputeSlots* slots, Account* account, const StopToken* stop)
    : slots_(slots), account_(account), stop_(stop) {
  if (slots_ == nullptr) return;
  slots_->Enter(account_, stop_);
  began_ = std::chrono::steady_clock::now();
  current_turn = this;
}

ComputeSlots::Turn::~Turn() {
  if (slots_ == nullptr) return;
  current_turn = nullptr;
  slots_->Leave(account_, std::chrono::steady_clock::now() - began_);
}

void ComputeSlots::Turn::Yield() {
  if (slots_->waiting() == 0) return;
  const auto used = std::chrono::steady_clock::now() - began_;
  if (used < kSlice) return;
  slots_->Leave(account_, used);
  slots_->Enter(account_, stop_);
  began_ = std::chrono::steady_clock::now();
}

void ComputeSlots::Enter(Account* account, const StopToken* stop) {
  MutexLock lock(&mutex_);
  if (active_ < slots_ && waiters_.empty()) {
    ++active_;
    return;
  }
  Waiter waiter{stop, {}};
  account->used = std::clamp<Duration>(account->used, floor_, floor_ + kMostDebt);
  waiters_.emplace(account->used, &waiter);
  waiting_.store(static_cast<int>(waiters_.size()), std::memory_order_relaxed);
  // It may have been told to stop a moment ago, when it did not wait yet.
  if (stop->stopping()) {
    GrantTo(waiters_.find({account->used, &waiter}));
  }
  Grant();
  while (!waiter.granted) waiter.wake.wait(mutex_);
}

void ComputeSlots::Leave(Account* account, Duration used) {
  account->used += used;
  MutexLock lock(&mutex_);
  --active_;
  Grant();
}

void ComputeSlots::Grant() {
  while (active_ < slots_ && !waiters_.empty()) {
    floor_ = std::max(floor_, waiters_.begin()->first);
    GrantTo(waiters_.begin());
  }
}

ComputeSlots::Waiters::iterator ComputeSlots::GrantTo(Waiters::iterator it) {
  Waiter* const waiter = it->second;
  const auto next = waiters_.erase(it);
  waiting_.store(static_cast<int>(waiters_.size()), std::memory_order_relaxed);
  ++active_;
  waiter->granted = true;
  waiter->wake.notify_one();
  return next;
}

void ComputeSlots::WakeStopped() {
  MutexLock lock(&mutex_);
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    it = it->second->stop->stopping() ? GrantTo(it) : std::next(it);
  }
}

}  // namespace chx::server
