// Records what the clients of this process do, for Perfetto or chrome://tracing.
//
//   chx::StartTrace();
//   ...
//   std::ofstream("client.json") << *chx::StopTrace();
//
// `chxctl trace --merge client.json` joins it with the daemon's.
#ifndef CHX_CLIENT_TRACE_H_
#define CHX_CLIENT_TRACE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chx {

// From now on all threads' calls of operators, batches that are sent and waits are recorded: names,
// times and numbers of batches, never values. At most 256 Ki of them; what comes later is counted.
// An error if a trace is recorded already. Thread-safe.
absl::Status StartTrace();
// Ends it and gives it, in Chrome's JSON. An error if none is recorded. Thread-safe.
absl::StatusOr<std::string> StopTrace();

namespace internal {

inline std::atomic<bool> tracing{false};

// A span of the calling thread, from here to the end of its scope. Without a trace it costs a load.
class TraceSpan {
 public:
  // Both live as long as the process.
  TraceSpan(const char* category, absl::string_view name) : category_(category), name_(name) {
    if (tracing.load(std::memory_order_relaxed)) began_ = std::chrono::steady_clock::now();
  }
  ~TraceSpan() {
    if (began_ != std::chrono::steady_clock::time_point()) Record();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  // Which batch it is about.
  void SetBatch(uint64_t session, uint64_t batch) {
    session_ = session;
    batch_ = batch;
  }
  // How many it moves.
  void SetBytes(uint64_t bytes) { bytes_ = bytes; }

 private:
  void Record() const;

  const char* const category_;
  const absl::string_view name_;
  std::chrono::steady_clock::time_point began_;
  uint64_t session_ = 0;
  uint64_t batch_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace internal

}  // namespace chx

#endif  // CHX_CLIENT_TRACE_H_
