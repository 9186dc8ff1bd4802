// Kernels of ops/defs/statistics.cc.
#include "server/native/kernels/reduction.h"
#include "server/native/kernels/register_kernels.h"

namespace chx::server::native {

// all and any get bools: the smallest and the largest are their results.
void RegisterStatistics(KernelTable& table) {
  SetRowwise(table, "all", Reduce<ReduceOp::kMin>, {ReducedRowDims<false>});
  SetRowwise(table, "any", Reduce<ReduceOp::kMax>, {ReducedRowDims<false>});
  SetRowwise(table, "prod", Reduce<ReduceOp::kProd>, {ReducedRowDims<false>});
}

}  // namespace chx::server::native
