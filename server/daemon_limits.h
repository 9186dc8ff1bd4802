// What all clients together may have of a daemon.
#ifndef CHX_SERVER_DAEMON_LIMITS_H_
#define CHX_SERVER_DAEMON_LIMITS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "server/engine/heap_trimmer.h"
#include "server/engine/memory_budget.h"
#include "server/options.h"
#include "server/rpc/admission.h"

namespace chx::server {

// Connections take half of the descriptors at most: sessions have others, for their memory.
AdmissionLimits LimitsFor(const Options& options);

// Of `limit` bytes, of which the daemon itself has some already; an error if it leaves no room.
absl::StatusOr<std::unique_ptr<MemoryBudget>> NewBudget(int64_t limit, HeapTrimmer* trimmer);

}  // namespace chx::server

#endif  // CHX_SERVER_DAEMON_LIMITS_H_
