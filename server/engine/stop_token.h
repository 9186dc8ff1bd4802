// Whether a session's work is to stop, and why.
#ifndef CHX_SERVER_ENGINE_STOP_TOKEN_H_
#define CHX_SERVER_ENGINE_STOP_TOKEN_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/engine/stop_requested.h"

namespace chx::server {

enum class StopReason : uint8_t {
  kNone = 0,
  kDeadline = 1,   // the command has taken too long
  kCancelled = 2,  // by the client; commands after those that it has cancelled run
  kEnded = 3,      // the session is closed, killed or past its lease: nothing runs any more
};

// Owned by a session. Commands begin and end on the thread that holds the session's lock; other
// threads ask it to stop without that lock; kernels look at it by StopRequested(), on each thread
// that works for the command. A request is for the command that runs when it is made, so that one
// that comes too late stops nothing else.
class StopToken {
 public:
  // 0: commands may take as long as they need.
  explicit StopToken(std::chrono::milliseconds max_command_time = {})
      : max_command_time_(max_command_time) {}
  StopToken(const StopToken&) = delete;
  StopToken& operator=(const StopToken&) = delete;

  // The session's thread. A command of this batch begins (0: of none). kNone if it is to run.
  StopReason Begin(uint64_t batch);
  // Nothing runs from now on.
  void End();
  // Whether a kernel of the command has been told to stop, so that its results are not finished.
  bool noticed() const { return noticed_.load(std::memory_order_relaxed); }
  // The error of a command that has stopped, or that does not begin for this reason.
  absl::Status Error(absl::string_view op) const { return Error(op, reason()); }
  absl::Status Error(absl::string_view op, StopReason reason) const;

  // Any thread. Stops the command that runs if its batch is not after this one, and all commands of
  // such batches that have not begun.
  void Cancel(uint64_t through_batch);
  // Any thread. Nothing runs any more.
  void EndSession();
  // Whether what runs, or is about to, is to stop.
  bool stopping() const { return reason() != StopReason::kNone; }
  bool session_ended() const { return reason() == StopReason::kEnded; }
  bool running() const { return (state_.load(std::memory_order_relaxed) & kRunning) != 0; }

  // One thread, again and again: stops a command that it has seen for longer than the limit.
  void Watch(std::chrono::steady_clock::time_point now);

  // For StopRequested().
  bool Notice() const {
    if ((state_.load(std::memory_order_relaxed) & kReason) == 0) return false;
    noticed_.store(true, std::memory_order_relaxed);
    return true;
  }

 private:
  // state_: the command's number, whether it runs, and why it is to stop.
  static constexpr uint64_t kReason = 3;
  static constexpr uint64_t kRunning = 4;
  static constexpr uint64_t kNumber = 8;

  StopReason reason() const {
    return static_cast<StopReason>(state_.load(std::memory_order_relaxed) & kReason);
  }
  // Whether it was done: the state was still `seen`.
  bool Stop(uint64_t seen, StopReason reason);

  const std::chrono::milliseconds max_command_time_;
  std::atomic<uint64_t> state_{0};
  mutable std::atomic<bool> noticed_{false};
  std::atomic<uint64_t> batch_{0};
  std::atomic<uint64_t> cancelled_through_{0};
  // Of the thread that watches.
  uint64_t watched_ = 0;
  std::chrono::steady_clock::time_point watched_since_;
};

// The token for which this thread works; null: for none.
const StopToken* CurrentStopToken();

// Makes this thread work for a token as long as it exists.
class StopScope {
 public:
  explicit StopScope(const StopToken* token);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const StopToken* const outer_;
};

// What makes room for others where a thread asks whether to stop.
class Yielder {
 public:
  virtual void Yield() = 0;
  // The thread waits for other sessions from now on, and does not any more.
  virtual void Leave() = 0;
  virtual void Return() = 0;

 protected:
  ~Yielder() = default;
};

// The calling thread's from now on; null: it makes room for nobody.
void SetYielder(Yielder* yielder);

// As long as it exists, the calling thread waits for what other sessions do: they have its turn to
// compute, and the scope's end waits for the next one. What it computes meanwhile has no turn, and
// makes room for nobody.
class WaitScope {
 public:
  WaitScope();
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  Yielder* const yielder_;
};
// Whether a thread that waits so is to stop. As StopRequested, but it makes room for nobody: a lock
// may be held.
bool WaitIsStopped();

// The error if what this thread works for has been told to stop. Kernels whose later steps trust in
// what earlier loops have left ask after these.
absl::Status CheckNotStopped(absl::string_view op);

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_STOP_TOKEN_H_
