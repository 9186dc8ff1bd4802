// Kernels of ops/defs/reduction.cc and ops/defs/statistics.cc.
//
// A group of threads (thread_groups.h) gathers each result. If there are few results, the reduced
// elements are divided into splits, and a second launch combines the splits' accumulators. The plan
// depends on shapes and strides only and no atomics are used, so results are the same in every run
// and on every GPU.
#include <algorithm>

#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/device_nest.h"
#include "server/cuda/loops/elementwise.h"
#include "server/cuda/loops/launch.h"
#include "server/cuda/loops/reduce_plan.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/reduce_ops.h"

namespace chx::server::cuda {
namespace {

// The source of a launch: stored elements, or the accumulators of an earlier launch.
template <typename Reducer, typename T>
struct Elements {
  using Item = T;
  static constexpr int kPack = ReducePack(sizeof(T));
  CHX_HD static typename Reducer::Acc Append(typename Reducer::Acc acc, const T& x, int64_t index) {
    return Reducer::Append(acc, kernels::Load(x), index);
  }
};
template <typename Reducer>
struct Accumulators {
  using Item = typename Reducer::Acc;
  static constexpr int kPack = 1;
  CHX_HD static Item Append(Item acc, Item x, int64_t) { return Reducer::Combine(acc, x); }
};

template <typename Reducer, typename Source>
struct ReduceBody {
  using Acc = typename Reducer::Acc;
  using Item = typename Source::Item;
  using Items = Pack<Item, Source::kPack>;

  ThreadGroups groups;
  DeviceNest<1> kept;
  DeviceNest<1> reduced;
  const char* data;
  char* out;          // results, or accumulators (splits, results)
  bool accumulators;  // whether `out` has those
  bool packed;        // as in ReducePlan
  bool aligned;       // whether packs can be loaded; of no influence on results
  Divider blocks_per_split;
  int64_t split_size;
  int64_t from;  // of each split, elements [from, until)
  int64_t until;

  CHX_HD static Acc Combine(Acc a, Acc b) { return Reducer::Combine(a, b); }
  CHX_HD int64_t ResultOf(int64_t block, int64_t split, int thread) const {
    return (block - split * blocks_per_split.divisor()) * groups.count() + groups.GroupOf(thread);
  }
  CHX_HD Acc Gather(int64_t block, int thread) const {
    const int64_t split = blocks_per_split.Quotient(block);
    const int64_t result = ResultOf(block, split, thread);
    if (result >= kept.size()) return Reducer::Identity();
    const char* const base = data + kept.Offset(result);
    const int64_t begin = split * split_size + from;
    const int64_t limit = split * split_size + until;
    const int64_t end = limit < reduced.size() ? limit : reduced.size();
    if constexpr (Source::kPack > 1) {
      if (packed) return GatherPacks(base, begin, end, groups.RankOf(thread));
    }
    return GatherItems(base, begin, end, groups.RankOf(thread));
  }
  CHX_HD void Finish(int64_t block, int thread, const Acc& acc) const {
    const int64_t split = blocks_per_split.Quotient(block);
    const int64_t result = ResultOf(block, split, thread);
    if (groups.RankOf(thread) != 0 || result >= kept.size()) return;
    if (accumulators) {
      Acc& total = reinterpret_cast<Acc*>(out)[split * kept.size() + result];
      total = from == 0 ? acc : Reducer::Combine(total, acc);
    } else {
      reinterpret_cast<typename Reducer::Out*>(out)[result] = Reducer::Finish(acc);
    }
  }

 private:
  CHX_HD static const Item& At(const char* at) { return *reinterpret_cast<const Item*>(at); }
  CHX_HD Acc GatherItems(const char* base, int64_t begin, int64_t end, int rank) const {
    Acc acc = Reducer::Identity();
    const int64_t step = groups.size();
    int64_t i = begin + rank;
    if (!reduced.flat()) {
      for (; i < end; i += step) acc = Source::Append(acc, At(base + reduced.Offset(i)), i);
      return acc;
    }
    const int64_t stride = reduced.flat_stride(0);
    // Several loads at a time, which overlap. They are combined in the same order.
    constexpr int kLoads = sizeof(Item) <= 4 ? 8 : 4;
    for (; i + (kLoads - 1) * step < end; i += kLoads * step) {
      Item next[kLoads];
      CHX_UNROLL
      for (int j = 0; j < kLoads; ++j) next[j] = At(base + (i + j * step) * stride);
      CHX_UNROLL
      for (int j = 0; j < kLoads; ++j) acc = Source::Append(acc, next[j], i + j * step);
    }
    for (; i < end; i += step) acc = Source::Append(acc, At(base + i * stride), i);
    return acc;
  }

  CHX_HD Items LoadItems(const char* at) const {
    if (aligned) return *reinterpret_cast<const Items*>(at);
    Items items;
    CHX_UNROLL
    for (int j = 0; j < Source::kPack; ++j) items.elements[j] = At(at + j * sizeof(Item));
    return items;
  }
  CHX_HD static Acc AppendItems(Acc acc, const Items& items, int64_t index) {
    CHX_UNROLL
    for (int j = 0; j < Source::kPack; ++j) acc = Source::Append(acc, items.elements[j], index + j);
    return acc;
  }
  // From `begin` on, which is a multiple of a pack.
  CHX_HD Acc GatherPacks(const char* base, int64_t begin, int64_t end, int rank) const {
    constexpr int64_t kPack = Source::kPack;
    constexpr int64_t kItem = sizeof(Item);
    Acc acc = Reducer::Identity();
    const int64_t step = groups.size() * kPack;
    int64_t i = begin + rank * kPack;
    for (; i + 3 * step + kPack <= end; i += 4 * step) {
      Items next[4];
      CHX_UNROLL
      for (int j = 0; j < 4; ++j) next[j] = LoadItems(base + (i + j * step) * kItem);
      CHX_UNROLL
      for (int j = 0; j < 4; ++j) acc = AppendItems(acc, next[j], i + j * step);
    }
    for (; i + kPack <= end; i += step) acc = AppendItems(acc, LoadItems(base + i * kItem), i);
    for (; i < end; ++i) acc = Source::Append(acc, At(base + i * kItem), i);
    return acc;
  }
};

// In several launches if there are too many elements for one; then `out` must be accumulators.
template <typename Reducer, typename Source>
absl::Status Launch(const KernelArgs& args, const ReducePlan& plan, const char* data, char* out,
                    bool accumulators) {
  constexpr uintptr_t kPackBytes = sizeof(typename ReduceBody<Reducer, Source>::Items);
  const int64_t part = PartOfSplits(plan, StreamOf(args).max_launch_elements());
  const int64_t blocks = plan.splits * plan.blocks_per_split;
  for (int64_t from = 0; from == 0 || from < plan.split_size; from += part) {
    if (from > 0) CHX_RETURN_IF_ERROR(StreamOf(args).Pause());
    const ReduceBody<Reducer, Source> body{plan.groups,
                                           DeviceNest<1>(plan.kept),
                                           DeviceNest<1>(plan.reduced),
                                           data,
                                           out,
                                           accumulators,
                                           plan.packed,
                                           reinterpret_cast<uintptr_t>(data) % kPackBytes == 0,
                                           Divider(plan.blocks_per_split, blocks),
                                           plan.split_size,
                                           from,
                                           std::min(plan.split_size, from + part)};
    CHX_RETURN_IF_ERROR(ForEachGroup(args, blocks, body));
  }
  return absl::OkStatus();
}

template <typename Reducer, typename T>
absl::Status Run(const KernelArgs& args, uint32_t axes, bool ordered) {
  using Acc = typename Reducer::Acc;
  const KernelTensor& in = args.in(0);
  const KernelTensor& out = args.out(0);
  const ReducePlan plan = PlanReduce(in, axes, ordered);
  using First = Elements<Reducer, T>;
  const bool one_launch =
      PartOfSplits(plan, StreamOf(args).max_launch_elements()) >= plan.split_size;
  if (plan.splits == 1 && one_launch) {
    return Launch<Reducer, First>(args, plan, in.data, out.data, false);
  }
  const int64_t acc_size = sizeof(Acc);
  CHX_ASSIGN_OR_RETURN(void* const scratch,
                       args.scratch.Allocate(plan.splits * out.size() * acc_size));
  char* const accs = static_cast<char*>(scratch);
  CHX_RETURN_IF_ERROR((Launch<Reducer, First>(args, plan, in.data, accs, true)));
  const ReducePlan second = PlanCombine(out.size(), plan.splits, acc_size);
  return Launch<Reducer, Accumulators<Reducer>>(args, second, accs, out.data, false);
}

template <template <typename> class Reducer>
absl::Status Reduce(const KernelArgs& args) {
  if (args.out(0).size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, kernels::ReducedAxes(args, false));
  return kernels::VisitDtype(args.in(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return Run<Reducer<T>, T>(args, axes, false);
  });
}

// Sums of integers are int64; here they are cast to the requested dtype.
template <template <typename> class Reducer>
absl::Status ReduceNarrow(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (IsFloat(out.dtype) || out.dtype == Dtype::kInt64) return Reduce<Reducer>(args);
  CHX_ASSIGN_OR_RETURN(const KernelTensor wide, NewTensor(args, Dtype::kInt64, out.shape));
  CHX_RETURN_IF_ERROR(Reduce<Reducer>({args.op, args.stream, args.scratch, args.inputs,
                                       absl::MakeConstSpan(&wide, 1), args.attrs}));
  return Copy(args, wide, out);
}

template <template <typename> class Reducer>
absl::Status ArgReduce(const KernelArgs& args) {
  if (args.out(0).size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, kernels::ReducedAxes(args, true));
  return kernels::VisitDtype(args.in(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return Run<Reducer<T>, T>(args, axes, true);
  });
}

absl::Status LogSumExp(const KernelArgs& args) {
  if (args.out(0).size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, kernels::ReducedAxes(args, false));
  return kernels::VisitFloat(args.in(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return Run<kernels::LogSumExpReducer<T>, T>(args, axes, false);
  });
}

}  // namespace

void RegisterReduction(KernelTable& table) {
  table.Set("sum", ReduceNarrow<kernels::SumReducer>);
  table.Set("amax", Reduce<kernels::MaxReducer>);
  table.Set("amin", Reduce<kernels::MinReducer>);
  table.Set("argmax", ArgReduce<kernels::ArgMaxReducer>);
  table.Set("argmin", ArgReduce<kernels::ArgMinReducer>);
  table.Set("logsumexp", LogSumExp);
}

// The inputs of all and any are cast to bool, so these are the minimum and the maximum.
void RegisterStatistics(KernelTable& table) {
  table.Set("all", Reduce<kernels::MinReducer>);
  table.Set("any", Reduce<kernels::MaxReducer>);
  table.Set("prod", Reduce<kernels::ProdReducer>);
}

}  // namespace chx::server::cuda
