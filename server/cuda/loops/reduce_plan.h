// How a reduction is divided among blocks and groups of threads. Host code; needs no GPU.
#ifndef CHX_SERVER_CUDA_LOOPS_REDUCE_PLAN_H_
#define CHX_SERVER_CUDA_LOOPS_REDUCE_PLAN_H_

#include <cstdint>

#include "server/cuda/loops/thread_groups.h"
#include "server/engine/kernel.h"
#include "server/kernels/reduce_nests.h"

namespace chx::server::cuda {

struct ReducePlan : kernels::ReduceNests {
  ThreadGroups groups;
  // Whether threads take packs of neighbours (ReducePack), which lie at multiples of a pack from
  // `data`, and not single elements.
  bool packed = false;
  int64_t splits = 1;            // parts of the elements of each result
  int64_t split_size = 0;        // elements
  int64_t blocks_per_split = 0;  // each for groups.count() results
};

// Elements of a pack, by their size.
constexpr int ReducePack(int64_t item_size) { return item_size == 8 ? 2 : 4; }
// `axes` and `ordered` as for kernels::MakeReduceNests.
ReducePlan PlanReduce(const KernelTensor& in, uint32_t axes, bool ordered);
// How many elements of each split one launch reduces, so that it reduces about `most` in all. A
// multiple of the elements that a group takes in one step, at least one step.
int64_t PartOfSplits(const ReducePlan& plan, int64_t most);
// The plan that combines dense accumulators (splits, results) of `acc_size` bytes over the splits.
ReducePlan PlanCombine(int64_t results, int64_t splits, int64_t acc_size);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_LOOPS_REDUCE_PLAN_H_
