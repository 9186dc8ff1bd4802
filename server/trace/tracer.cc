#include "server/trace/tracer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ops/error.h"

namespace chx::server {

SpanLog::SpanLog(uint64_t session, TracedName name, std::shared_ptr<std::atomic<int>> room,
                 MemoryBudget* budget)
    : session_(session), name_(std::move(name)), room_(std::move(room)), budget_(budget) {}

SpanLog::~SpanLog() {
  MutexLock lock(&mutex_);
  if (budget_ != nullptr) {
    budget_->Release(static_cast<int64_t>(chunks_.size() * sizeof(Chunk)), /*heap=*/true);
  }
}

bool SpanLog::Grow() {
  if (size_ >= kMaxSpans || room_->fetch_sub(1, std::memory_order_relaxed) <= 0) return false;
  if (budget_ != nullptr && !budget_->TryCharge(sizeof(Chunk))) return false;
  chunks_.push_back(std::make_unique<Chunk>());
  return true;
}

void SpanLog::Add(const Span& span) {
  MutexLock lock(&mutex_);
  if (size_ == chunks_.size() * kChunkSpans && !Grow()) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  (*chunks_.back())[size_ % kChunkSpans] = span;
  ++size_;
}

std::vector<Span> SpanLog::Read(size_t first, size_t max) {
  MutexLock lock(&mutex_);
  std::vector<Span> spans;
  const size_t end = std::min(size_, first + max);
  spans.reserve(end - std::min(end, first));
  for (size_t i = first; i < end; ++i) {
    spans.push_back((*chunks_[i / kChunkSpans])[i % kChunkSpans]);
  }
  return spans;
}

size_t SpanLog::size() {
  MutexLock lock(&mutex_);
  return size_;
}

struct Tracer::Trace {
  TraceRequest request;
  TraceClock::time_point began;
  TraceClock::time_point end;
  std::chrono::system_clock::time_point began_at;
  std::shared_ptr<std::atomic<int>> room;
  std::map<uint64_t, SpanLogPtr> logs;  // by session
  // Where the next Read goes on.
  uint64_t next_session = 0;
  size_t next_span = 0;
};

absl::Status Tracer::Start(const TraceRequest& request) {
  if (request.length <= std::chrono::milliseconds(0) || request.length > kMaxLength) {
    return ValueError("[trace] expects more than 0 and at most ",
                      std::chrono::duration_cast<std::chrono::seconds>(kMaxLength).count(),
                      " seconds, got ", static_cast<double>(request.length.count()) / 1000);
  }
  auto trace = std::make_shared<Trace>();
  trace->request = request;
  trace->room = std::make_shared<std::atomic<int>>(kMaxBytes / sizeof(SpanLog::Chunk));
  MutexLock lock(&mutex_);
  trace->began = TraceClock::now();
  trace->began_at = std::chrono::system_clock::now();
  trace->end = trace->began + request.length;
  EndIfLate(trace->began);
  if (running()) {
    return absl::FailedPreconditionError(
        "[trace] expects that no trace is recorded, and one is: wait for its end");
  }
  trace_ = std::move(trace);
  running_.store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

void Tracer::EndIfLate(TraceClock::time_point now) {
  if (trace_ != nullptr && now >= trace_->end) running_.store(false, std::memory_order_relaxed);
}

SpanLogPtr Tracer::LogFor(uint64_t session, const TracedName& name) {
  const auto now = TraceClock::now();
  MutexLock lock(&mutex_);
  EndIfLate(now);
  if (!running()) return nullptr;
  if (trace_->request.session != 0 && trace_->request.session != session) return nullptr;
  const auto found = trace_->logs.find(session);
  if (found != trace_->logs.end()) return found->second;
  if (trace_->logs.size() >= kMaxSessions) return nullptr;
  auto log = std::make_shared<SpanLog>(session, name, trace_->room, budget_);
  trace_->logs.emplace(session, log);
  return log;
}

absl::StatusOr<TracePart> Tracer::Read(size_t max_spans) {
  MutexLock lock(&mutex_);
  running_.store(false, std::memory_order_relaxed);
  if (trace_ == nullptr) {
    return absl::NotFoundError("[trace] there is no trace; one has to be started first");
  }
  Trace& trace = *trace_;
  TracePart part;
  part.began = trace.began;
  part.began_at = trace.began_at;
  for (auto it = trace.logs.lower_bound(trace.next_session); it != trace.logs.end(); ++it) {
    SpanLog& log = *it->second;
    if (max_spans == 0) break;
    TracePart::Session session{log.session(), log.name(), log.dropped(),
                               log.Read(trace.next_span, max_spans)};
    max_spans -= session.spans.size();
    trace.next_span += session.spans.size();
    const bool done = trace.next_span >= log.size();
    part.sessions.push_back(std::move(session));
    if (!done) break;
    trace.next_session = log.session() + 1;
    trace.next_span = 0;
  }
  part.more = trace.logs.lower_bound(trace.next_session) != trace.logs.end();
  if (!part.more) trace_ = nullptr;
  return part;
}

}  // namespace chx::server
