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
  int64_t splits = 1;            // of the elements of each result
  int64_t split_size = 0;        // elements
  int64_t blocks_per_split = 0;  // each for groups.count() results
};

// `axes` and `ordered` as for kernels::MakeReduceNests.
ReducePlan PlanReduce(const KernelTensor& in, uint32_t axes, bool ordered);
// How many elements of each split one launch may take, so that it has about `most` in all: whole
// steps of all threads of a group, at least one.
int64_t PartOfSplits(const ReducePlan& plan, int64_t most);
// For dense accumulators (splits, results) of `acc_size` bytes, to be combined over the splits.
ReducePlan PlanCombine(int64_t results, int64_t splits, int64_t acc_size);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_LOOPS_REDUCE_PLAN_H_
