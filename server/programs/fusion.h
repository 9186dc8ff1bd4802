// Which neighbouring calls of a plan can run together, block by block of their elements.
#ifndef CHX_SERVER_PROGRAMS_FUSION_H_
#define CHX_SERVER_PROGRAMS_FUSION_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "server/engine/devices.h"
#include "server/programs/trace.h"

namespace chx::server {

// Calls that a plan runs as one: several of them are a FusedRun.
struct CallRange {
  size_t first = 0;
  size_t count = 1;
};

// All calls, in their order. Those of a range with several are elementwise over the same shape,
// have kernels that are blockwise, and work on the same elements of whatever one of them writes: so
// one block may go through all of them before the next one begins. Each uses memory that others of
// the range use, too.
std::vector<CallRange> FindRuns(absl::Span<const TraceCall> calls, const Devices& devices);

}  // namespace chx::server

#endif  // CHX_SERVER_PROGRAMS_FUSION_H_
