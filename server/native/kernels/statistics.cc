// Kernels of ops/defs/statistics.cc.
#include "server/native/kernels/reduction.h"
#include "server/native/kernels/register_kernels.h"

namespace chx::server::native {

// all and any get bools: the smallest and the largest are their results.
void RegisterStatistics(KernelTable& table) {
  table.Set("all", Reduce<ReduceOp::kMin>);
  table.Set("any", Reduce<ReduceOp::kMax>);
  table.Set("prod", Reduce<ReduceOp::kProd>);
}

}  // namespace chx::server::native
