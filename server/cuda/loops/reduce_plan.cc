#include "server/cuda/reduce_plan.h"

#include <algorithm>
#include <cstdlib>

namespace chx::server::cuda {
namespace {

using Nest = kernels::LoopNest<1>;

// Blocks that keep a large GPU busy; and what makes a split worth its part of a second launch.
constexpr int64_t kBlocks = 1024;
constexpr int64_t kElementsPerThread = 16;

// Where order does not matter, dimensions are sorted by stride: they merge better then.
Nest ReducedNest(const KernelTensor& in, uint32_t axes, bool ordered) {
  int dims[kMaxNdim];
  int count = 0;
  for (int d = 0; d < in.ndim(); ++d) {
    if (((axes >> d) & 1) != 0) dims[count++] = d;
  }
  if (!ordered) {
    std::stable_sort(dims, dims + count, [&](int a, int b) {
      return std::abs(in.strides[a]) > std::abs(in.strides[b]);
    });
  }
  Nest nest;
  for (int i = 0; i < count; ++i) nest.Append(in.shape[dims[i]], {in.strides[dims[i]]});
  return nest;
}

int64_t InnerStride(const Nest& nest) {
  return nest.ndim > 0 ? std::abs(nest.strides[0][nest.ndim - 1]) : 0;
}

// The lanes, then the splits, of a plan with its nests.
void Cut(ReducePlan* plan) {
  const int64_t count = std::max<int64_t>(1, plan->reduced.size);
  // Neighbouring threads read along the dimension that is denser in memory.
  const int64_t across = InnerStride(plan->kept);
  const bool by_columns = plan->kept.ndim > 0 && plan->reduced.ndim > 0 && across != 0 &&
                          across < InnerStride(plan->reduced) &&
                          plan->kept.shape[plan->kept.ndim - 1] >= 8;
  int64_t lanes;
  if (by_columns) {
    lanes = std::min<int64_t>(8, PowerOfTwoAtLeast(count));
  } else {
    lanes = PowerOfTwoAtLeast((count + 3) / 4);
    lanes = std::max(lanes, std::min<int64_t>(32, PowerOfTwoAtLeast(count)));
    lanes = std::min<int64_t>(lanes, kThreads);
  }
  plan->lanes = Lanes(static_cast<int>(lanes), by_columns);
  const int64_t groups = plan->lanes.groups();
  plan->blocks_per_split = (plan->kept.size + groups - 1) / groups;
  plan->splits =
      std::max<int64_t>(1, std::min(kBlocks / std::max<int64_t>(1, plan->blocks_per_split),
                                    count / (lanes * kElementsPerThread)));
  plan->split_size = (count + plan->splits - 1) / plan->splits;
}

}  // namespace

ReducePlan PlanReduce(const KernelTensor& in, uint32_t axes, bool ordered) {
  ReducePlan plan;
  for (int d = 0; d < in.ndim(); ++d) {
    if (((axes >> d) & 1) == 0) plan.kept.Append(in.shape[d], {in.strides[d]});
  }
  plan.reduced = ReducedNest(in, axes, ordered);
  Cut(&plan);
  return plan;
}

int64_t PartOfSplits(const ReducePlan& plan, int64_t most) {
  const int64_t step = 4 * plan.lanes.count();
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
