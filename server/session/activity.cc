#include "server/session/activity.h"

namespace chx::server {

void Activity::End(Clock::time_point began) {
  const auto now = Clock::now();
  const auto relaxed = std::memory_order_relaxed;
  computed_.store(computed_.load(relaxed) + (now - began).count(), relaxed);
  last_active_.store(Ticks(now), relaxed);
  busy_since_.store(0, relaxed);
}

Activity::View Activity::Look(Clock::time_point now) const {
  const auto relaxed = std::memory_order_relaxed;
  View view;
  const int64_t since = busy_since_.load(relaxed);
  int64_t computed = computed_.load(relaxed);
  view.busy = since != 0;
  if (view.busy && Ticks(now) > since) computed += Ticks(now) - since;
  view.computed = Clock::duration(computed);
  view.last_active = Clock::time_point(Clock::duration(last_active_.load(relaxed)));
  const char* const last = last_.load(relaxed);
  if (last != nullptr) view.last_command = last;
  return view;
}

WindowTrace::WindowTrace(const TraceRow& row, uint64_t batch) : log_(row.Log()), batch_(batch) {
  if (on()) began_ = last_ = TraceClock::now();
}

WindowTrace::~WindowTrace() {
  if (on() && batch_ != 0) log_->Add(Make(SpanKind::kBatch, "batch", began_, TraceClock::now()));
}

void WindowTrace::HasTurn(std::chrono::nanoseconds waited) {
  if (!on()) return;
  last_ = TraceClock::now();
  if (waited.count() > 0)
    log_->Add(Make(SpanKind::kWait, "wait for a turn", last_ - waited, last_));
}

void WindowTrace::Ran(absl::string_view name, int device) {
  const auto now = TraceClock::now();
  Span span = Make(SpanKind::kCommand, name, last_, now);
  span.device = static_cast<int16_t>(device);
  log_->Add(span);
  last_ = now;
}

void WindowTrace::Transferred(absl::string_view what, int64_t bytes) {
  if (!on()) return;
  Span span = Make(SpanKind::kTransfer, what, last_, TraceClock::now());
  span.bytes = static_cast<uint64_t>(bytes);
  log_->Add(span);
}

Span WindowTrace::Make(SpanKind kind, absl::string_view name, TraceClock::time_point begin,
                       TraceClock::time_point end) const {
  Span span;
  span.begin = begin;
  span.end = end;
  span.batch = batch_;
  span.name = name;
  span.kind = kind;
  return span;
}

}  // namespace chx::server
