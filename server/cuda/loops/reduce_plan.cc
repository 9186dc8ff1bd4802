#include "server/cuda/loops/reduce_plan.h"

#include <algorithm>
#include <cstdlib>

namespace chx::server::cuda {
namespace {

// Blocks that keep a large GPU busy, by single elements and by packs, and the work of a thread that
// justifies one more split.
constexpr int64_t kBlocks = 1024;
constexpr int64_t kPackedBlocks = 512;
constexpr int64_t kElementsPerThread = 16;

int64_t InnerStride(const kernels::LoopNest<1>& nest) {
  return nest.ndim > 0 ? std::abs(nest.strides[0][nest.ndim - 1]) : 0;
}

bool Packs(const kernels::ReduceNests& nests, int64_t item_size) {
  const int64_t pack = ReducePack(item_size);
  bool packs = nests.reduced.ndim == 1 && nests.reduced.strides[0][0] == item_size;
  for (int d = 0; d < nests.kept.ndim; ++d) {
    packs &= nests.kept.strides[0][d] % (pack * item_size) == 0;
  }
  return packs;
}

// Chooses the groups of threads and the splits of a plan that has its nests and whether it is
// packed.
void Cut(ReducePlan* plan) {
  const int64_t count = std::max<int64_t>(1, plan->reduced.size);
  // Neighbouring threads read along the dimension that is denser in memory.
  const int64_t across = InnerStride(plan->kept);
  const bool by_columns = plan->kept.ndim > 0 && plan->reduced.ndim > 0 && across != 0 &&
                          across < InnerStride(plan->reduced) &&
                          plan->kept.shape[plan->kept.ndim - 1] >= 8;
  int64_t size;
  if (by_columns) {
    size = std::min<int64_t>(8, PowerOfTwoAtLeast(count));
  } else {
    // At least four loads each, which overlap.
    size = PowerOfTwoAtLeast(plan->packed ? (count + 15) / 16 : (count + 3) / 4);
    size = std::max(size, std::min<int64_t>(32, PowerOfTwoAtLeast(count)));
    size = std::min<int64_t>(size, kThreads);
  }
  plan->packed = plan->packed && !by_columns;
  plan->groups = ThreadGroups(static_cast<int>(size), by_columns);
  const int64_t groups = plan->groups.count();
  plan->blocks_per_split = (plan->kept.size + groups - 1) / groups;
  const int64_t blocks = plan->packed ? kPackedBlocks : kBlocks;
  plan->splits =
      std::max<int64_t>(1, std::min(blocks / std::max<int64_t>(1, plan->blocks_per_split),
                                    count / (size * kElementsPerThread)));
  plan->split_size = (count + plan->splits - 1) / plan->splits;
  if (plan->packed) plan->split_size = (plan->split_size + 3) / 4 * 4;  // whole packs
}

}  // namespace

ReducePlan PlanReduce(const KernelTensor& in, uint32_t axes, bool ordered) {
  ReducePlan plan;
  static_cast<kernels::ReduceNests&>(plan) = kernels::MakeReduceNests(in, axes, ordered);
  plan.packed = Packs(plan, ItemSize(in.dtype));
  Cut(&plan);
  return plan;
}

int64_t PartOfSplits(const ReducePlan& plan, int64_t most) {
  const int64_t step = 4 * plan.groups.size();
  const int64_t at_once = std::max<int64_t>(1, plan.kept.size * plan.splits);
  return std::max<int64_t>(1, most / at_once / step) * step;
}

ReducePlan PlanCombine(int64_t results, int64_t splits, int64_t acc_size) {
  ReducePlan plan;
  plan.kept.Append(results, {acc_size});
  plan.reduced.Append(splits, {results * acc_size});
  Cut(&plan);
  plan.splits = 1;
  plan.split_size = splits;
  return plan;
}

}  // namespace chx::server::cuda
