// One limit for the host memory of the whole daemon, and what each session takes of it.
//
// Memory is charged before it is allocated: from a MemoryMeter (records under a lock, without
// atomics) or a MemoryCharge (single large things) to the session's MemoryAccount, and from there
// to its tenant's MemoryGroup and the daemon's MemoryBudget. Objects without a fixed size are
// charged by estimates that include the allocator's overhead.
#ifndef CHX_SERVER_ENGINE_MEMORY_BUDGET_H_
#define CHX_SERVER_ENGINE_MEMORY_BUDGET_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/memory_group.h"

namespace chx::server {

// What malloc takes for an allocation beside the bytes that were asked for, at most, for small
// ones.
inline constexpr int64_t kAllocationBytes = 16;

// What errors of a session at its limit advise.
inline constexpr char kHowToRaise[] =
    "release arrays, or raise the limit: chxd's --session-memory, or chx.connect(memory=...) and "
    "$CHX_MEMORY for a private daemon";

// The process's heap, as a budget sees it. Thread-safe; each function may be null.
struct HeapWatch {
  // What the process really holds, which estimates may miss: charges are refused where that would
  // pass the limit.
  std::function<int64_t()> resident;
  // Gives free memory back to the system, now; false: it was done a moment ago.
  std::function<bool()> trim;
  // So many bytes of the heap have been freed.
  std::function<void(int64_t)> freed;
};

// The daemon's. Thread-safe; outlives all accounts.
class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t limit, HeapWatch heap = {});

  bool TryCharge(int64_t bytes);
  // What cannot be refused. May pass the limit.
  void Charge(int64_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }
  // `heap`: it was the allocator's, which keeps freed memory until it is told to give it back.
  void Release(int64_t bytes, bool heap) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    if (heap) Freed(bytes);
  }
  // What was never charged, as it was within a guarantee.
  void Freed(int64_t bytes) const {
    if (heap_.freed != nullptr) heap_.freed(bytes);
  }

  // What gives back memory that nobody uses, of the group's sessions or, null, of all that hold
  // more than they are guaranteed; false: there was none. Set while no account exists. It is called
  // under locks of the session that needs memory: it may try others', and not wait for them.
  using Relief = std::function<bool(const MemoryGroup* group)>;
  void set_relief(Relief relief) { relief_ = std::move(relief); }
  bool Relieve(const MemoryGroup* group) const { return relief_ != nullptr && relief_(group); }

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }

 private:
  bool FitsResident(int64_t bytes);

  const int64_t limit_;
  const int64_t sample_every_;
  const HeapWatch heap_;
  Relief relief_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> unsampled_{0};  // charged since the process was last looked at
};

enum class MemoryUse : uint8_t {
  kArrays = 0,        // slabs in host memory
  kDeviceArrays = 1,  // slabs of a device that has its own memory: not the daemon's budget
  kRecords = 2,       // handles, graphs, locations, errors, events: what lies in the heap
  // Copies on the way to the client, one at a time for each session. Each may have the session's
  // limit beside what counts there: else an array of more than half of it could not be read.
  kTransfers = 3,
  kFixed = 4,  // what each open session costs. Not under its limit either
  // Arrays in files: not memory, and under the limit of SpillFolder.
  kSpilled = 5,
  kAway = 6,  // arrays of a device that has its own memory, in the host's for want of room there
};
inline constexpr int kNumMemoryUses = 7;

// A session's. Thread-safe.
class MemoryAccount {
 public:
  // `budget`: null: there is none. `group`: whom it is of; null: nobody in particular.
  explicit MemoryAccount(int64_t limit, MemoryBudget* budget = nullptr,
                         MemoryGroupPtr group = nullptr)
      : limit_(limit), budget_(budget), group_(std::move(group)) {}
  // Gives back what is still charged.
  ~MemoryAccount();
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // Keeps so much of the budget for this account alone, as long as it exists: within that, charges
  // are only refused for its own limit and its group's. Called once, before all charges. False:
  // there is not so much left.
  bool Guarantee(int64_t bytes);
  int64_t guaranteed() const { return guaranteed_; }
  bool beyond_guarantee() const { return Beyond(budgeted_.load(std::memory_order_relaxed)) > 0; }
  const MemoryGroupPtr& group() const { return group_; }

  bool TryCharge(int64_t bytes, MemoryUse use);
  // Whether so much more would leave room in what the session shares with others, its tenant's
  // memory and the daemon's: for the same again, and one of so many parts of it.
  bool LeavesRoom(int64_t bytes, int parts) const;
  // Where TryCharge has failed: has others give back what they do not use. True: try again.
  bool Relieve(int64_t bytes) const;
  // What cannot be refused: a few bytes that others, which were refused, would have taken.
  void Charge(int64_t bytes, MemoryUse use);
  void Release(int64_t bytes, MemoryUse use);

  // Under the limit.
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // What the tenant and the daemon let it have in host memory while nobody else has any.
  int64_t host_limit() const;
  // From now on. What is charged already stays, also beyond the limit.
  void set_limit(int64_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  int64_t used_for(MemoryUse use) const {
    return by_use_[static_cast<int>(use)].load(std::memory_order_relaxed);
  }
  // All of it that is memory.
  int64_t held() const;
  // A kMemory error that says which limit left no room for `bytes`.
  absl::Status Exhausted(int64_t bytes) const;

 private:
  static bool IsLimited(MemoryUse use) {
    return use != MemoryUse::kTransfers && use != MemoryUse::kFixed && use != MemoryUse::kSpilled;
  }
  static bool IsBudgeted(MemoryUse use) {
    return use != MemoryUse::kDeviceArrays && use != MemoryUse::kSpilled;
  }
  static bool IsHeap(MemoryUse use) {
    return IsBudgeted(use) && use != MemoryUse::kArrays && use != MemoryUse::kAway;
  }

  // What an amount takes of the budget beside the guarantee.
  int64_t Beyond(int64_t bytes) const { return std::max<int64_t>(bytes - guaranteed_, 0); }
  // Of group and budget.
  bool TryChargeShared(int64_t bytes);
  void ReleaseShared(int64_t bytes);

  std::atomic<int64_t> limit_;
  MemoryBudget* const budget_;
  const MemoryGroupPtr group_;
  int64_t guaranteed_ = 0;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> budgeted_{0};  // the uses that the budget sees
  std::atomic<int64_t> by_use_[kNumMemoryUses] = {};
};
using MemoryAccountPtr = std::shared_ptr<MemoryAccount>;

// A charge that ends with the object, on whatever thread that is.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(MemoryCharge&& other) noexcept
      : account_(std::move(other.account_)),
        bytes_(std::exchange(other.bytes_, 0)),
        use_(other.use_) {}
  MemoryCharge& operator=(MemoryCharge other) noexcept {
    std::swap(account_, other.account_);
    std::swap(bytes_, other.bytes_);
    std::swap(use_, other.use_);
    return *this;
  }
  ~MemoryCharge() {
    if (bytes_ != 0) account_->Release(bytes_, use_);
  }
  // A kMemory error if there is no room.
  static absl::StatusOr<MemoryCharge> Of(const MemoryAccountPtr& account, int64_t bytes,
                                         MemoryUse use = MemoryUse::kRecords);
  int64_t bytes() const { return bytes_; }

 private:
  MemoryAccountPtr account_;
  int64_t bytes_ = 0;
  MemoryUse use_ = MemoryUse::kRecords;
};

// Charges records that come and go by the thousand: takes room from the account in large pieces.
// Not thread-safe: whoever owns it has a lock.
class MemoryMeter {
 public:
  static constexpr int64_t kChunk = 64 << 10;

  explicit MemoryMeter(MemoryAccountPtr account, MemoryUse use = MemoryUse::kRecords)
      : account_(std::move(account)), use_(use) {}
  ~MemoryMeter() { account_->Release(held_, use_); }
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  // What to call when there is no room; true: it has given some back.
  void set_reclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }

  // Makes sure that the next `bytes` can be charged.
  bool Reserve(int64_t bytes) { return bytes <= room_ || Refill(bytes); }
  bool TryCharge(int64_t bytes) {
    if (!Reserve(bytes)) return false;
    room_ -= bytes;
    return true;
  }
  // After Reserve, or for what cannot be refused.
  void Charge(int64_t bytes) {
    room_ -= bytes;
    if (room_ < 0) Overdraw();
  }
  void Release(int64_t bytes) {
    room_ += bytes;
    if (room_ > 3 * kChunk) GiveBack();
  }
  absl::Status Exhausted(int64_t bytes) const { return account_->Exhausted(bytes); }
  const MemoryAccountPtr& account() const { return account_; }

 private:
  bool Refill(int64_t bytes);
  void Overdraw();
  void GiveBack();

  const MemoryAccountPtr account_;
  const MemoryUse use_;
  std::function<bool()> reclaim_;
  int64_t held_ = 0;  // what the account has been charged
  int64_t room_ = 0;  // of that, what is not in use
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_MEMORY_BUDGET_H_
