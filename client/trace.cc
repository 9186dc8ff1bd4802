#include "client/trace.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "ops/error.h"

namespace chx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxSpans = 256 << 10;

struct ClientSpan {
  const char* category;
  absl::string_view name;
  int64_t thread;
  Clock::time_point begin;
  Clock::time_point end;
  uint64_t session;
  uint64_t batch;
  uint64_t bytes;
};

struct TraceState {
  Mutex mutex;
  bool recording ABSL_GUARDED_BY(mutex) = false;
  Clock::time_point began ABSL_GUARDED_BY(mutex);
  std::chrono::system_clock::time_point began_at ABSL_GUARDED_BY(mutex);
  std::vector<ClientSpan> spans ABSL_GUARDED_BY(mutex);
  uint64_t dropped ABSL_GUARDED_BY(mutex) = 0;
};

TraceState& GetTraceState() {
  static TraceState& state = *new TraceState;  // threads may record when the process ends
  return state;
}

int64_t ThreadId() {
  thread_local const int64_t id = syscall(SYS_gettid);
  return id;
}

double Microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// Names are those of operators and literals: nothing in them needs escaping.
void AppendSpan(const ClientSpan& span, Clock::time_point began, std::string* json) {
  absl::StrAppendFormat(
      json, R"(,{"ph":"X","name":"%s","cat":"%s","pid":%d,"tid":%d,"ts":%.3f,"dur":%.3f,"args":{)",
      span.name, span.category, getpid(), span.thread, Microseconds(span.begin - began),
      Microseconds(span.end - span.begin));
  if (span.batch != 0) {
    absl::StrAppendFormat(json, R"("session":%d,"batch":%d)", span.session, span.batch);
  }
  if (span.bytes != 0) {
    absl::StrAppendFormat(json, R"(%s"bytes":%d)", span.batch != 0 ? "," : "", span.bytes);
  }
  json->append("}}");
}

}  // namespace

absl::Status StartTrace() {
  TraceState& state = GetTraceState();
  MutexLock lock(&state.mutex);
  if (state.recording) {
    return ValueError("[trace] expects that no trace is recorded, and one is in this process");
  }
  state.spans.clear();
  state.dropped = 0;
  state.began = Clock::now();
  state.began_at = std::chrono::system_clock::now();
  state.recording = true;
  internal::tracing.store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::StatusOr<std::string> StopTrace() {
  TraceState& state = GetTraceState();
  std::vector<ClientSpan> spans;
  Clock::time_point began;
  int64_t start_ns = 0;
  uint64_t dropped = 0;
  {
    MutexLock lock(&state.mutex);
    if (!state.recording) return ValueError("[trace] expects a trace that was started, got none");
    internal::tracing.store(false, std::memory_order_relaxed);
    state.recording = false;
    spans = std::exchange(state.spans, {});
    began = state.began;
    dropped = state.dropped;
    start_ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(state.began_at.time_since_epoch())
            .count();
  }
  // Those that hold others come before them.
  std::sort(spans.begin(), spans.end(), [](const ClientSpan& a, const ClientSpan& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::string json = absl::StrFormat(
      R"({"traceEvents":[{"ph":"M","name":"process_name","pid":%d,"tid":0,"args":{"name":"client %d"}})",
      getpid(), getpid());
  for (const ClientSpan& span : spans) AppendSpan(span, began, &json);
  absl::StrAppendFormat(
      &json, R"(],"displayTimeUnit":"ns","otherData":{"start_unix_ns":%d,"dropped_spans":%d}})",
      start_ns, dropped);
  return json;
}

namespace internal {

void TraceSpan::Record() const {
  const auto end = Clock::now();
  const int64_t thread = ThreadId();
  TraceState& state = GetTraceState();
  MutexLock lock(&state.mutex);
  // Of a trace that has ended, or began in the middle of it.
  if (!state.recording || began_ < state.began) return;
  if (state.spans.size() == kMaxSpans) {
    ++state.dropped;
    return;
  }
  state.spans.push_back({category_, name_, thread, began_, end, session_, batch_, bytes_});
}

}  // namespace internal

}  // namespace chx
