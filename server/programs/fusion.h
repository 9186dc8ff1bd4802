// Which neighbouring calls of a plan can run together, block by block of their elements.
#ifndef CHX_SERVER_PROGRAMS_FUSION_H_
#define CHX_SERVER_PROGRAMS_FUSION_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "server/engine/devices.h"
#include "server/engine/rowwise.h"
#include "server/programs/trace.h"

namespace chx::server {

// Calls that a plan runs as one: several of them are a FusedRun.
struct CallRange {
  size_t first = 0;
  size_t count = 1;
  // Of several: leading dimensions, which the shapes of all their arrays have in common. What they
  // index is a row; of elementwise calls only, an element.
  int row_dims = 0;
  struct Reduction {
    size_t call = 0;  // in the range
    Folding folding;
  };
  // Those that reduce all rows, in the same parts, to what no other call of the range uses. If
  // there are any, the rows of each array are one distance apart.
  std::vector<Reduction> reductions;
};

// All calls, in their order. Those of a range with several have kernels that are blockwise or
// rowwise, and work on the same rows of whatever one of them writes: so a block of rows may go
// through all of them before the next one begins. Each uses memory that others of the range use,
// too.
std::vector<CallRange> FindRuns(absl::Span<const TraceCall> calls, const Devices& devices);

// Of an array that a call of a range writes: the bytes from one row to the next.
int64_t RowPitch(const KernelTensor& tensor, int row_dims);

}  // namespace chx::server

#endif  // CHX_SERVER_PROGRAMS_FUSION_H_
