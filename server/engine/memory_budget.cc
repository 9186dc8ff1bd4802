#include "server/engine/memory_budget.h"

#include <algorithm>

#include "ops/error.h"
#include "server/engine/memory_size.h"

namespace chx::server {
namespace {

// Between two looks at the process, at most: bounds what estimates may miss.
constexpr int64_t kMaxUnsampled = int64_t{16} << 20;

}  // namespace

MemoryBudget::MemoryBudget(int64_t limit, HeapWatch heap)
    : limit_(limit), sample_every_(std::min(limit / 64, kMaxUnsampled)), heap_(std::move(heap)) {}

bool MemoryBudget::TryCharge(int64_t bytes) {
  // Not added first and taken back: others must not be refused for what is refused itself.
  int64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  if (heap_.resident == nullptr || FitsResident(bytes)) return true;
  Release(bytes, false);
  return false;
}

bool MemoryBudget::FitsResident(int64_t bytes) {
  if (unsampled_.fetch_add(bytes, std::memory_order_relaxed) + bytes < sample_every_) return true;
  const auto fits = [&] { return heap_.resident() <= limit_ - bytes; };
  // What does not fit is looked at again next time.
  if (!fits() && (heap_.trim == nullptr || !heap_.trim() || !fits())) return false;
  unsampled_.store(0, std::memory_order_relaxed);
  return true;
}

MemoryAccount::~MemoryAccount() {
  for (int i = 0; i < kNumMemoryUses; ++i) {
    const auto use = static_cast<MemoryUse>(i);
    Release(used_for(use), use);
  }
  if (budget_ != nullptr) budget_->Release(guaranteed_, false);
}

bool MemoryAccount::Guarantee(int64_t bytes) {
  if (budget_ != nullptr && !budget_->TryCharge(bytes) &&
      !(budget_->Relieve(nullptr) && budget_->TryCharge(bytes))) {
    return false;
  }
  guaranteed_ = bytes;
  return true;
}

bool MemoryAccount::TryChargeShared(int64_t bytes) {
  if (group_ != nullptr && !group_->host().TryCharge(bytes)) return false;
  if (budget_ == nullptr) return true;
  // The budget first: it always has what the account says, or more.
  int64_t before = budgeted_.load(std::memory_order_relaxed);
  for (;;) {
    const int64_t more = Beyond(before + bytes) - Beyond(before);
    if (more != 0 && !budget_->TryCharge(more)) break;
    if (budgeted_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed)) {
      return true;
    }
    budget_->Release(more, false);
  }
  if (group_ != nullptr) group_->host().Release(bytes);
  return false;
}

void MemoryAccount::ReleaseShared(int64_t bytes) {
  if (group_ != nullptr) group_->host().Release(bytes);
  if (budget_ == nullptr) return;
  const int64_t before = budgeted_.fetch_sub(bytes, std::memory_order_relaxed);
  budget_->Release(Beyond(before) - Beyond(before - bytes), false);
}

bool MemoryAccount::LeavesRoom(int64_t bytes, int parts) const {
  const auto leaves = [bytes, parts](int64_t limit, int64_t used) {
    return bytes + std::max(bytes, limit / parts) <= limit - used;
  };
  if (group_ != nullptr && !leaves(group_->host().limit(), group_->host().used())) return false;
  if (budget_ == nullptr) return true;
  return Beyond(budgeted_.load(std::memory_order_relaxed) + bytes) == 0 ||
         leaves(budget_->limit(), budget_->used());
}

bool MemoryAccount::Relieve(int64_t bytes) const {
  if (budget_ == nullptr || bytes > limit_ - used()) return false;
  const bool of_group = group_ != nullptr && !group_->host().Fits(bytes);
  return budget_->Relieve(of_group ? group_.get() : nullptr);
}

bool MemoryAccount::TryCharge(int64_t bytes, MemoryUse use) {
  if (bytes > limit_ && use != MemoryUse::kFixed) return false;
  if (IsLimited(use)) {
    int64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  }
  if (IsBudgeted(use) && !TryChargeShared(bytes)) {
    if (IsLimited(use)) used_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  by_use_[static_cast<int>(use)].fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

void MemoryAccount::Charge(int64_t bytes, MemoryUse use) {
  if (IsLimited(use)) used_.fetch_add(bytes, std::memory_order_relaxed);
  if (IsBudgeted(use)) {
    if (group_ != nullptr) group_->host().Charge(bytes);
    const int64_t before = budgeted_.fetch_add(bytes, std::memory_order_relaxed);
    if (budget_ != nullptr) budget_->Charge(Beyond(before + bytes) - Beyond(before));
  }
  by_use_[static_cast<int>(use)].fetch_add(bytes, std::memory_order_relaxed);
}

void MemoryAccount::Release(int64_t bytes, MemoryUse use) {
  if (IsLimited(use)) used_.fetch_sub(bytes, std::memory_order_relaxed);
  if (IsBudgeted(use)) ReleaseShared(bytes);
  if (budget_ != nullptr && IsHeap(use)) budget_->Freed(bytes);
  by_use_[static_cast<int>(use)].fetch_sub(bytes, std::memory_order_relaxed);
}

int64_t MemoryAccount::host_limit() const {
  int64_t limit = limit_;
  if (group_ != nullptr) limit = std::min(limit, group_->host().limit());
  return budget_ == nullptr ? limit : std::min(limit, budget_->limit());
}

int64_t MemoryAccount::held() const {
  int64_t bytes = 0;
  for (const auto& use : by_use_) bytes += use.load(std::memory_order_relaxed);
  return bytes - used_for(MemoryUse::kSpilled);
}

absl::Status MemoryAccount::Exhausted(int64_t bytes) const {
  if (bytes <= limit_ - used() && group_ != nullptr && !group_->host().Fits(bytes)) {
    return MemoryError(
        "out of memory: ", FormatMemorySize(bytes),
        " more are needed, and the sessions of the tenant '", group_->name(), "' hold ",
        FormatMemorySize(group_->host().used()), " of its limit of ",
        FormatMemorySize(group_->host().limit()),
        "; release arrays, end other sessions, or ask the daemon's operator for more "
        "memory in the tenants file");
  }
  if (budget_ == nullptr || bytes > limit_ - used()) {
    const int64_t arrays = used_for(MemoryUse::kArrays) + used_for(MemoryUse::kDeviceArrays) +
                           used_for(MemoryUse::kAway);
    return MemoryError(
        "out of memory: ", FormatMemorySize(bytes), " more are needed, and the session holds ",
        FormatMemorySize(used()), " of its limit of ", FormatMemorySize(limit_), " (",
        FormatMemorySize(arrays), " in arrays, ", FormatMemorySize(used_for(MemoryUse::kRecords)),
        " in graphs and handles); ", kHowToRaise);
  }
  return MemoryError("out of memory: ", FormatMemorySize(bytes),
                     " more are needed, and the daemon's sessions hold ",
                     FormatMemorySize(budget_->used()), " of its limit of ",
                     FormatMemorySize(budget_->limit()),
                     "; release arrays, end other sessions, or raise the daemon's --memory");
}

absl::StatusOr<MemoryCharge> MemoryCharge::Of(const MemoryAccountPtr& account, int64_t bytes,
                                              MemoryUse use) {
  if (!account->TryCharge(bytes, use) &&
      !(account->Relieve(bytes) && account->TryCharge(bytes, use))) {
    return account->Exhausted(bytes);
  }
  MemoryCharge charge;
  charge.account_ = account;
  charge.bytes_ = bytes;
  charge.use_ = use;
  return charge;
}

bool MemoryMeter::Refill(int64_t bytes) {
  const auto charge = [this](int64_t more) {
    if (!account_->TryCharge(more, use_)) return false;
    held_ += more;
    room_ += more;
    return true;
  };
  const int64_t missing = bytes - room_;
  if (charge(std::max(missing, kChunk)) || charge(missing)) return true;
  if (reclaim_ != nullptr && reclaim_() && charge(missing)) return true;
  return account_->Relieve(missing) && charge(missing);
}

void MemoryMeter::Overdraw() {
  account_->Charge(-room_, use_);
  held_ -= room_;
  room_ = 0;
}

void MemoryMeter::GiveBack() {
  const int64_t bytes = room_ - kChunk;
  account_->Release(bytes, use_);
  held_ -= bytes;
  room_ = kChunk;
}

}  // namespace chx::server
