#include "server/daemon_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sanitizers.h"
#include "server/engine/process_memory.h"
#include "server/session/session_manager.h"

namespace chx::server {
namespace {

// What libraries' buffers, stacks and connections may take beside what is counted.
constexpr int64_t kUncounted = int64_t{32} << 20;

}  // namespace

AdmissionLimits LimitsFor(const Options& options) {
  AdmissionLimits limits;
  limits.sessions = options.max_sessions;
  limits.sessions_per_peer = options.max_sessions_per_peer;
  rlimit descriptors = {};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  const size_t spare = 64;
  const size_t passing = 16;  // of clients that are refused, or leave
  const size_t half = (std::max<size_t>(descriptors.rlim_cur, 2 * spare) - spare) / 2;
  limits.connections = std::min(2 * limits.sessions + passing, half);
  limits.connections_per_peer = std::min(2 * limits.sessions_per_peer + passing, half - half / 8);
  return limits;
}

absl::StatusOr<std::unique_ptr<MemoryBudget>> NewBudget(int64_t limit, HeapTrimmer* trimmer) {
  HeapWatch heap;
  if (!kSanitized) heap.resident = HeldProcessBytes;
  heap.trim = [trimmer] { return trimmer->Trim(); };
  heap.freed = [trimmer](int64_t bytes) { trimmer->Freed(bytes); };
  auto budget = std::make_unique<MemoryBudget>(limit, std::move(heap));
  // With what the devices have opened.
  const int64_t own = kUncounted + HeldProcessBytes();
  if (own + kSessionBytes > limit) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "--memory=", limit, " leaves no room for a session: the daemon itself takes ", own));
  }
  budget->Charge(own);
  return budget;
}

}  // namespace chx::server
