// Records what sessions do, while an administrator asks for it: names, times and numbers of
// batches, never values.
#ifndef CHX_SERVER_TRACE_TRACER_H_
#define CHX_SERVER_TRACE_TRACER_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "server/engine/memory_budget.h"

namespace chx::server {

using TraceClock = std::chrono::steady_clock;

// As TracedKind of proto/chxd.proto.
enum class SpanKind : uint8_t { kBatch, kWait, kCommand, kTransfer };

struct Span {
  TraceClock::time_point begin;
  TraceClock::time_point end;
  uint64_t batch = 0;      // 0: none
  uint64_t bytes = 0;      // of a transfer
  absl::string_view name;  // lives as long as the daemon
  SpanKind kind = SpanKind::kCommand;
  int16_t device = -1;  // -1: none
};

// A session as a trace names it.
struct TracedName {
  std::string client;
  std::string tenant;
};

// The spans of one session in one trace. Takes memory as it fills; what there is no room for is
// counted. Thread-safe.
class SpanLog {
 public:
  static constexpr size_t kMaxSpans = 64 << 10;

  // `room` is shared by all logs of a trace: how many chunks they may still take.
  SpanLog(uint64_t session, TracedName name, std::shared_ptr<std::atomic<int>> room,
          MemoryBudget* budget);
  ~SpanLog();
  SpanLog(const SpanLog&) = delete;
  SpanLog& operator=(const SpanLog&) = delete;

  void Add(const Span& span) ABSL_LOCKS_EXCLUDED(mutex_);
  // At most `max` spans, from number `first` on.
  std::vector<Span> Read(size_t first, size_t max) ABSL_LOCKS_EXCLUDED(mutex_);
  size_t size() ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  uint64_t session() const { return session_; }
  const TracedName& name() const { return name_; }

 private:
  static constexpr size_t kChunkSpans = 1024;
  using Chunk = std::array<Span, kChunkSpans>;
  bool Grow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  friend class Tracer;
  const uint64_t session_;
  const TracedName name_;
  const std::shared_ptr<std::atomic<int>> room_;
  MemoryBudget* const budget_;  // may be null
  std::atomic<uint64_t> dropped_{0};
  Mutex mutex_;
  std::vector<std::unique_ptr<Chunk>> chunks_ ABSL_GUARDED_BY(mutex_);
  size_t size_ ABSL_GUARDED_BY(mutex_) = 0;
};
using SpanLogPtr = std::shared_ptr<SpanLog>;

struct TraceRequest {
  uint64_t session = 0;  // its number; 0: all
  std::chrono::milliseconds length{0};
};

// A part of a trace.
struct TracePart {
  struct Session {
    uint64_t number;
    TracedName name;
    uint64_t dropped;  // of the whole trace
    std::vector<Span> spans;
  };
  TraceClock::time_point began;
  std::chrono::system_clock::time_point began_at;
  std::vector<Session> sessions;
  bool more = false;
};

// The daemon's one. A trace is recorded until it is read or its time is over, and kept until the
// last of it has been read or another one is begun. Thread-safe.
class Tracer {
 public:
  static constexpr std::chrono::milliseconds kMaxLength = std::chrono::seconds(60);
  static constexpr size_t kMaxBytes = size_t{64} << 20;  // of all spans
  static constexpr size_t kMaxSessions = 4096;           // in one trace

  // `budget` may be null.
  explicit Tracer(MemoryBudget* budget) : budget_(budget) {}

  // FAILED_PRECONDITION: one is recorded already.
  absl::Status Start(const TraceRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the recording and takes its next part, of at most `max_spans`. NOT_FOUND: there is none.
  absl::StatusOr<TracePart> Read(size_t max_spans) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether to ask for a log: one relaxed load, which is all that sessions pay without a trace.
  bool running() const { return running_.load(std::memory_order_relaxed); }
  // Where the session's spans go; null: nowhere.
  SpanLogPtr LogFor(uint64_t session, const TracedName& name) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Trace;
  // Ends a recording whose time is over.
  void EndIfLate(TraceClock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MemoryBudget* const budget_;
  std::atomic<bool> running_{false};
  Mutex mutex_;
  std::shared_ptr<Trace> trace_ ABSL_GUARDED_BY(mutex_);
};

// A session as the tracer knows it.
struct TraceRow {
  Tracer* tracer = nullptr;  // null: nobody traces
  uint64_t session = 0;
  TracedName name;

  SpanLogPtr Log() const {
    if (tracer == nullptr || !tracer->running()) return nullptr;
    return tracer->LogFor(session, name);
  }
};

}  // namespace chx::server

#endif  // CHX_SERVER_TRACE_TRACER_H_
