// What sessions count while they work: plain numbers that one thread writes and others read.
#ifndef CHX_SERVER_OBSERVABILITY_COUNTERS_H_
#define CHX_SERVER_OBSERVABILITY_COUNTERS_H_

#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/error.h"
#include "ops/op_def.h"

namespace chx::server {

// Written by one thread at a time, which holds a lock for that; read by any. As cheap as a number.
class Counter {
 public:
  void Add(int64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// Written by any thread.
class SharedCounter {
 public:
  void Add(int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// The groups of the operators' table, by number.
class OpGroups {
 public:
  static constexpr int kMax = 32;

  static const OpGroups& Global();
  int size() const { return static_cast<int>(names_.size()); }
  const std::string& name(int group) const { return names_[group]; }
  int GroupOf(OpId op) const { return by_op_[op]; }
  // The same as a table.
  const uint8_t* by_op() const { return by_op_.data(); }

 private:
  OpGroups();

  std::vector<std::string> names_;
  std::vector<uint8_t> by_op_;
};

// Of one session on one device. Written by whoever holds the session's lock, or, what is the
// pool's, the pool's.
// What each operator touches is in one line of the cache, but for its group.
struct alignas(64) DeviceCounters {
  struct Group {
    Counter kernels;
    Counter nanoseconds;  // an estimate: see KernelTimer
  };
  // The session's thread's own, for KernelTimer.
  const uint8_t* const group_of = OpGroups::Global().by_op();
  int until_sample = 1;
  uint32_t random = 1;
  int64_t own_measured = 0;
  int64_t* measured = &own_measured;  // what has been added to `nanoseconds`, of all groups

  Counter live_bytes;        // of blocks in use
  Counter held_bytes;        // of slabs
  Counter spilled_bytes;     // of blocks in files, and of another device's in host memory
  Counter trims;             // how often unused slabs were given back
  Counter busy_nanoseconds;  // that the device has worked for the session, if it can tell
  std::array<Group, OpGroups::kMax> groups;

  void Add(const DeviceCounters& other);
};

// Measures a kernel, as long as it exists. Two looks at the clock would be a tenth of a small
// kernel: those are measured at random, one in kMeanGap, and count as so many.
class KernelTimer {
 public:
  static constexpr int64_t kLargeBytes = 64 << 10;  // from here on each is measured
  static constexpr int kMeanGap = 16;

  // `counters` may be null. `bytes`: of a large operand.
  KernelTimer(DeviceCounters* counters, OpId op, int64_t bytes) : counters_(counters) {
    if (counters == nullptr) return;
    group_ = &counters->groups[counters->group_of[op]];
    group_->kernels.Add();
    if (bytes >= kLargeBytes || --counters->until_sample == 0) Begin(bytes);
  }
  ~KernelTimer() {
    if (weight_ > 0) End();
  }
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;

 private:
  void Begin(int64_t bytes);
  void End();

  DeviceCounters* const counters_;
  DeviceCounters::Group* group_ = nullptr;
  int weight_ = 0;  // 0: it is not measured
  std::chrono::steady_clock::time_point began_;
};

// How bytes of arrays come and go: in the stream beside commands, by an upload or a download of
// their own, or through memory that client and daemon share.
enum class Way { kStream, kTransfer, kShared };
inline constexpr int kNumWays = 3;

// Why a session has ended.
enum class EndReason { kClosed, kLease, kLimit, kKilled, kProtocol, kOther };
inline constexpr int kNumEndReasons = 6;

// Of one session; or the sum over some.
struct SessionCounters {
  explicit SessionCounters(int num_devices) : devices(num_devices) {
    for (DeviceCounters& device : devices) device.measured = &measured;
  }
  SessionCounters(const SessionCounters&) = delete;
  SessionCounters& operator=(const SessionCounters&) = delete;

  std::vector<DeviceCounters> devices;
  int64_t measured = 0;  // as DeviceCounters'; the session's thread's own
  // Under the session's lock.
  Counter commands;
  Counter slow_commands;
  Counter repeated_windows;  // that have run as plans
  Counter wait_nanoseconds;  // for turns to compute
  std::array<Counter, kNumErrorKinds> errors;
  // By any thread.
  SharedCounter opened;
  SharedCounter resumes;
  std::array<SharedCounter, kNumEndReasons> ended;
  std::array<SharedCounter, kNumWays> received_bytes;
  std::array<SharedCounter, kNumWays> sent_bytes;

  SharedCounter& received(Way way) { return received_bytes[static_cast<int>(way)]; }
  SharedCounter& sent(Way way) { return sent_bytes[static_cast<int>(way)]; }

  // Reads what others may be writing; nobody else may write to this one.
  void Add(const SessionCounters& other);
};

// Refused connections, calls and sessions of this process.
enum class Refusal { kToken, kLimit, kOther };
inline constexpr int kNumRefusals = 3;
std::array<SharedCounter, kNumRefusals>& Refusals();

// Nanoseconds by a clock that costs a sixth of the usual one and moves every few milliseconds. What
// is shorter counts as nothing or as such a step, and sums are right on average.
inline int64_t CoarseNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
}

using SessionCountersPtr = std::shared_ptr<SessionCounters>;

}  // namespace chx::server

#endif  // CHX_SERVER_OBSERVABILITY_COUNTERS_H_
