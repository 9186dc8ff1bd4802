// Reductions of ranks' elements by the kernels of elementwise operators.
#ifndef CHX_SERVER_COLLECTIVES_REDUCTION_H_
#define CHX_SERVER_COLLECTIVES_REDUCTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/collective.h"
#include "server/engine/collectives.h"

namespace chx::server {

// out = inputs[0] op inputs[1] op ..., in this order; of kMean the sum. Each has `count` elements,
// and `out` may be inputs[0].
absl::Status ReduceElements(GroupReduction reduction, Dtype dtype, int64_t count,
                            absl::Span<char* const> inputs, char* out, HostKernels kernels);
// What is left to do to the reduction of all ranks.
absl::Status FinishReduction(GroupReduction reduction, Dtype dtype, int64_t count, int num_ranks,
                             char* out, HostKernels kernels);

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_REDUCTION_H_
