// A run as clients see it: how far it is, what has happened, and what it is asked to do.
#ifndef CHX_SERVER_RUNS_RUN_H_
#define CHX_SERVER_RUNS_RUN_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "server/engine/memory_budget.h"
#include "server/runs/run_position.h"
#include "server/runs/run_spec.h"

namespace chx::server {

// Values are on the wire: append only.
enum class RunEventKind : uint8_t {
  kStarted = 0,
  kLog = 1,         // means of the metrics since the last one
  kEvaluation = 2,  // means of the evaluation's metrics
  kPaused = 3,
  kResumed = 4,
  kWarning = 5,
  kEnded = 6,
};

struct RunEvent {
  uint64_t number = 0;
  RunEventKind kind = RunEventKind::kStarted;
  int64_t step = 0;  // that were done
  double unix_time = 0;
  std::vector<double> values;
  std::string reason;  // kEnded: done, stopped, rule, time limit, error, session, daemon
  std::string text;
};

// Suspended: its daemon ends, or has begun and not yet come to it.
enum class RunState : uint8_t { kRunning = 0, kPaused = 1, kEnded = 2, kSuspended = 3 };

// Of a run at one time.
struct RunView {
  RunState state = RunState::kRunning;
  int64_t step = 0;
  uint64_t next = 0;     // the number of the next event that there will be
  uint64_t dropped = 0;  // events that made room for later ones
  std::vector<RunEvent> events;
};

enum class RunOrder : uint8_t { kRun = 0, kPause = 1, kStop = 2, kEndWithDaemon = 3 };

// A run for another daemon.
struct RunRecord {
  RunSpec spec;
  int64_t steps_per_epoch = 1;
  RunView view;
  // Unless it has ended:
  RunOrder order = RunOrder::kRun;
  RunPosition position;
};

// Thread-safe.
class Run {
 public:
  // Where there are so many events, every other one goes of the older ones.
  static constexpr size_t kMaxEvents = 32768;
  static constexpr size_t kMaxViewed = 1024;    // events of one view
  static constexpr size_t kMaxRecorded = 4096;  // of one that has ended

  // `steps_per_epoch`: what the spec comes to.
  Run(RunSpec spec, MemoryAccountPtr account, int64_t steps_per_epoch);
  // One that has ended, or is suspended.
  Run(RunRecord record, MemoryAccountPtr account);

  // Programs and arrays are under the run's own handles.
  const RunSpec& spec() const { return spec_; }
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  // Used under the session's lock, so that it is always that of the arrays. Written by the thread
  // that runs it, which reads it without the lock.
  RunPosition& position() { return position_; }
  // That it has run for, with the time that it was paused.
  double seconds() const;

  // The events from a number on; waits that long for the first.
  RunView Watch(uint64_t from, std::chrono::milliseconds patience);
  // The first event and as many of each kind, evenly spread, with the last one. Does not wait.
  RunView Sample(size_t of_each_kind);
  // Under the session's lock. Of one that has ended the first event and the newest ones.
  RunRecord Record();
  // A later order than to stop changes nothing.
  void Ask(RunOrder order);
  // The daemon ends, and another one goes on with it. The orders stay.
  void Suspend();

  // For the thread that runs it.
  RunOrder order();
  bool suspended();
  // From now on it is not suspended, but what it was before.
  void Continue();
  bool paused();
  // Waits until the order is another one, it is suspended, or so long.
  void AwaitOrder(RunOrder but, std::chrono::milliseconds patience);
  // The position's step, for others.
  void ShowStep();
  void Note(RunEventKind kind, std::vector<double> values, absl::string_view reason = "",
            absl::string_view text = "");

 private:
  static int64_t BytesOf(const RunEvent& event);
  RunState state() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return suspended_ && state_ == RunState::kRunning ? RunState::kSuspended : state_;
  }
  // Forgets some of the older events. False: there are too few.
  bool Thin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RunSpec spec_;
  const int64_t steps_per_epoch_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  RunPosition position_;
  Mutex mutex_;
  CondVar changed_;
  MemoryMeter meter_ ABSL_GUARDED_BY(mutex_);
  RunState state_ ABSL_GUARDED_BY(mutex_) = RunState::kRunning;
  bool suspended_ ABSL_GUARDED_BY(mutex_) = false;
  RunOrder order_ ABSL_GUARDED_BY(mutex_) = RunOrder::kRun;
  int64_t step_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<RunEvent> events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_RUNS_RUN_H_
