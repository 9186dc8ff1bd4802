// When a session works, and on what: for listings and traces.
#ifndef CHX_SERVER_SESSION_ACTIVITY_H_
#define CHX_SERVER_SESSION_ACTIVITY_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/trace/tracer.h"

namespace chx::server {

// Written under the session's lock, read by anybody.
class Activity {
 public:
  using Clock = std::chrono::steady_clock;

  struct View {
    Clock::duration computed{};     // in all, with what runs
    Clock::time_point last_active;  // the epoch: never
    bool busy = false;
    absl::string_view last_command;  // empty: none has begun
  };

  // While it exists the session works.
  class Scope {
   public:
    explicit Scope(Activity* activity) : activity_(*activity), began_(Clock::now()) {
      activity_.busy_since_.store(Ticks(began_), std::memory_order_relaxed);
    }
    ~Scope() { activity_.End(began_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    Clock::time_point began() const { return began_; }

   private:
    Activity& activity_;
    const Clock::time_point began_;
  };

  // A command begins, of that name (NameOf).
  void Note(const char* name) { last_.store(name, std::memory_order_relaxed); }
  View Look(Clock::time_point now) const;

 private:
  static int64_t Ticks(Clock::time_point time) { return time.time_since_epoch().count(); }
  void End(Clock::time_point began);

  std::atomic<int64_t> computed_{0};
  std::atomic<int64_t> busy_since_{0};  // 0: not busy
  std::atomic<int64_t> last_active_{0};
  std::atomic<const char*> last_{nullptr};  // lives as long as the daemon
};

// Spans of one window of commands, if somebody records them. Used under the session's lock.
class WindowTrace {
 public:
  WindowTrace(const TraceRow& row, uint64_t batch);
  ~WindowTrace();
  WindowTrace(const WindowTrace&) = delete;
  WindowTrace& operator=(const WindowTrace&) = delete;

  bool on() const { return log_ != nullptr; }
  // It has its turn now, for which it has waited so long.
  void HasTurn(std::chrono::nanoseconds waited);
  // A command has run since the last one. `name` lives as long as the daemon. `device`: where its
  // result is; -1: unknown.
  void Ran(absl::string_view name, int device);
  void Transferred(absl::string_view what, int64_t bytes);

 private:
  Span Make(SpanKind kind, absl::string_view name, TraceClock::time_point begin,
            TraceClock::time_point end) const;

  const SpanLogPtr log_;
  const uint64_t batch_;
  TraceClock::time_point began_;
  TraceClock::time_point last_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_ACTIVITY_H_
