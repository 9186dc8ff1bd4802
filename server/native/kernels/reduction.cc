// Kernels of ops/defs/reduction.cc.
//
// The array is seen as two nests, the kept dimensions and the reduced ones. Either the innermost
// reduced dimension is walked for one result at a time ("rows"), or many neighbouring results are
// gathered together ("columns"), whichever follows memory; columns that are not dense are packed
// where the reduced dimension is short. Large reductions to few results are cut into splits, whose
// accumulators are combined at the end. All cuts depend on shapes and strides only: results don't
// depend on the number of threads.
#include "server/native/kernels/reduction.h"

#include <algorithm>

#include "server/kernels/indexer.h"
#include "server/kernels/reduce_nests.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

using Nest = kernels::LoopNest<1>;

constexpr int64_t kColumns = 512;     // results gathered together
constexpr int64_t kSplit = 64 << 10;  // elements
constexpr int64_t kMaxSplits = 64;
constexpr int64_t kMaxAccSize = 16;
constexpr int64_t kMaxItemSize = 8;
constexpr int64_t kMaxPacked = 7;       // rows: less than the lanes of loops/fold.h
constexpr int64_t kBlockOfSums = 1024;  // elements that loops sum apart: kBlock of loops/fold.h
constexpr int64_t kPiece = 32;          // rows that the columns' loops take together: 2, 16 or 32
constexpr int64_t kRowsOfSums = 16;     // those that sums take together: kRows of their loops

// A nest without its innermost dimension.
Nest Outer(const Nest& nest) {
  Nest outer = nest;
  if (outer.ndim > 0) {
    --outer.ndim;
    outer.size = 1;
    for (int d = 0; d < outer.ndim; ++d) outer.size *= outer.shape[d];
  }
  return outer;
}

struct Plan {
  const char* data;
  int64_t item_size;
  Nest kept;
  Nest kept_outer;     // columns: without the innermost
  Nest reduced_outer;  // without the innermost
  int64_t inner;       // the innermost reduced dimension and its stride
  int64_t inner_stride;
  bool by_columns;
  int64_t column_stride;
  Loop pack;       // columns: makes them dense; null: they are
  int64_t chunks;  // columns: of kColumns results
  int64_t splits;
  const ReduceLoops* loops;

  int64_t width() const { return by_columns ? kept.shape[kept.ndim - 1] : 1; }
  // What the splits cut: rows if there are several, else the elements of the only one.
  int64_t cut() const { return reduced_outer.size > 1 ? reduced_outer.size : inner; }
  // From a column on of a place in kept_outer. Without elements there is no memory, and Gather
  // reads none.
  const char* DataAt(int64_t outer, int64_t column) const {
    return data == nullptr ? nullptr : data + kept_outer.Offset(0, outer) + column * column_stride;
  }
};

// Whether rows are so short that to call a loop for each takes longer than their elements. Fused
// runs of kernels take rows one by one: of so few elements, loops give the same bits either way.
bool NeedsPacking(const Plan& plan) {
  return !plan.by_columns && plan.inner <= kMaxPacked && plan.kept.ndim > 0 &&
         plan.kept.shape[plan.kept.ndim - 1] > kMaxPacked;
}

// `alike`: of short rows, the operator's loops give the same by columns.
Plan MakePlan(const KernelTensor& in, uint32_t axes, bool ordered, bool alike,
              const ReduceLoops& loops) {
  Plan plan;
  plan.data = in.data;
  plan.item_size = ItemSize(in.dtype);
  plan.loops = &loops;
  const kernels::ReduceNests nests = kernels::MakeReduceNests(in, axes, ordered);
  plan.kept = nests.kept;
  const Nest& reduced = nests.reduced;
  plan.reduced_outer = reduced.size > 0 ? Outer(reduced) : Nest();
  plan.inner = reduced.size == 0 ? 0 : reduced.ndim > 0 ? reduced.shape[reduced.ndim - 1] : 1;
  plan.inner_stride = reduced.ndim > 0 ? reduced.strides[0][reduced.ndim - 1] : plan.item_size;
  const int last = plan.kept.ndim - 1;
  plan.by_columns = last >= 0 && plan.kept.strides[0][last] == plan.item_size &&
                    plan.kept.shape[last] >= 8 && plan.inner_stride != plan.item_size;
  plan.column_stride = last >= 0 ? plan.kept.strides[0][last] : 0;
  plan.pack = nullptr;
  if (alike && NeedsPacking(plan)) {
    plan.by_columns = true;
    plan.pack = Loops().cast[static_cast<int>(in.dtype)][static_cast<int>(in.dtype)];
  }
  plan.kept_outer = plan.by_columns ? Outer(plan.kept) : plan.kept;
  plan.chunks = (plan.width() + kColumns - 1) / kColumns;
  const int64_t tasks = plan.kept_outer.size * plan.chunks;
  const int64_t work = reduced.size * std::min(plan.width(), kColumns);
  plan.splits = 1;
  if (tasks < 8 && work >= 2 * kSplit) {
    plan.splits = std::min({work / kSplit, kMaxSplits, plan.cut()});
  }
  return plan;
}

// Gathers `rows` rows of n columns.
void GatherPacked(const Plan& plan, const char* data, int64_t rows, int64_t n, int64_t first,
                  void* accs) {
  alignas(64) char packed[kMaxPacked * kColumns * kMaxItemSize];
  const int64_t stride = n * plan.item_size;
  for (int64_t row = 0; row < rows; ++row) {
    char* const operands[] = {packed + row * stride,
                              const_cast<char*>(data + row * plan.inner_stride)};
    const int64_t strides[] = {plan.item_size, plan.column_stride};
    plan.pack(operands, strides, n);
  }
  plan.loops->columns(packed, stride, rows, n, first, accs);
}

// Gathers part [begin, end) of what the splits cut into the accumulators of `n` results whose first
// one starts at `data`.
void Gather(const Plan& plan, const char* data, int64_t n, int64_t begin, int64_t end, void* accs) {
  StopWatch watch;
  // Long rows in pieces of whole blocks of the loops, which then sum in the same order.
  const int64_t piece = plan.by_columns
                            ? std::max<int64_t>(kPiece, kStopElements / n / kPiece * kPiece)
                            : kStopElements;
  const auto gather = [&](const char* at, int64_t count, int64_t first) {
    if (plan.pack != nullptr) {
      GatherPacked(plan, at, count, n, first, accs);
      return !watch.After(count * n);
    }
    for (int64_t i = 0; i < count; i += piece) {
      const int64_t part = std::min(piece, count - i);
      if (plan.by_columns) {
        plan.loops->columns(at + i * plan.inner_stride, plan.inner_stride, part, n, first + i,
                            accs);
      } else {
        plan.loops->row(at + i * plan.inner_stride, plan.inner_stride, part, first + i, accs);
      }
      if (watch.After(part * n + 8)) return false;  // a short piece costs as much as some elements
    }
    return true;
  };
  if (plan.reduced_outer.size == 1) {
    gather(data + begin * plan.inner_stride, end - begin, begin);
    return;
  }
  for (int64_t row = begin; row < end; ++row) {
    const char* const at = data + plan.reduced_outer.Offset(0, row);
    if (!gather(at, plan.inner, row * plan.inner)) return;
  }
}

// All reductions of a plan without splits.
void RunWhole(ThreadPool& pool, const Plan& plan, char* out, int64_t out_size) {
  const ReduceLoops& loops = *plan.loops;
  const int64_t tasks = plan.kept_outer.size * plan.chunks;
  const int64_t work = plan.reduced_outer.size * plan.inner * std::min(plan.width(), kColumns);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work));
  pool.ParallelFor(tasks, grain, [&](int64_t begin, int64_t end) {
    alignas(kMaxAccSize) char accs[kColumns * kMaxAccSize];
    if (!plan.by_columns) {
      for (int64_t first = begin; first < end; first += kColumns) {
        const int64_t n = std::min(kColumns, end - first);
        loops.init(accs, n);
        for (int64_t i = 0; i < n; ++i) {
          Gather(plan, plan.DataAt(first + i, 0), 1, 0, plan.cut(), accs + i * loops.acc_size);
        }
        loops.finish(accs, n, out + first * out_size);
      }
      return;
    }
    for (int64_t task = begin; task < end; ++task) {
      const int64_t column = task % plan.chunks * kColumns;
      const int64_t n = std::min(kColumns, plan.width() - column);
      loops.init(accs, n);
      Gather(plan, plan.DataAt(task / plan.chunks, column), n, 0, plan.cut(), accs);
      loops.finish(accs, n, out + (task / plan.chunks * plan.width() + column) * out_size);
    }
  });
}

absl::Status RunSplit(const KernelArgs& args, const Plan& plan, char* out) {
  const ReduceLoops& loops = *plan.loops;
  const int64_t tasks = plan.kept_outer.size * plan.chunks;
  const int64_t results = plan.kept.size;
  CHX_ASSIGN_OR_RETURN(void* const scratch,
                       args.scratch.Allocate(plan.splits * results * loops.acc_size));
  char* const accs = static_cast<char*>(scratch);
  PoolOf(args).ParallelFor(plan.splits * tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t split = i / tasks;
      const int64_t task = i % tasks;
      const int64_t column = task % plan.chunks * kColumns;
      const int64_t n = std::min(kColumns, plan.width() - column);
      const int64_t first = task / plan.chunks * plan.width() + column;
      char* const part = accs + (split * results + first) * loops.acc_size;
      loops.init(part, n);
      Gather(plan, plan.DataAt(task / plan.chunks, column), n, plan.cut() * split / plan.splits,
             plan.cut() * (split + 1) / plan.splits, part);
    }
  });
  for (int64_t split = 1; split < plan.splits; ++split) {
    loops.combine(accs, accs + split * results * loops.acc_size, results);
  }
  loops.finish(accs, results, out);
  return absl::OkStatus();
}

// Reductions of one element that give the element: those of the gradient of a bias for one sample.
template <ReduceOp kOp>
constexpr bool kOfOneIsItself = kOp == ReduceOp::kSum || kOp == ReduceOp::kProd ||
                                kOp == ReduceOp::kMax || kOp == ReduceOp::kMin;

KernelTensor WithoutAxes(const KernelTensor& tensor, uint32_t axes) {
  KernelTensor result = tensor;
  result.shape = Shape();
  result.strides = Strides();
  for (int d = 0; d < tensor.ndim(); ++d) {
    if (((axes >> d) & 1) != 0) continue;
    result.shape.push_back(tensor.shape[d]);
    result.strides.push_back(tensor.strides[d]);
  }
  return result;
}

}  // namespace

template <ReduceOp kOp>
absl::Status Reduce(const KernelArgs& args) {
  constexpr bool kArg = kOp == ReduceOp::kArgMax || kOp == ReduceOp::kArgMin;
  const KernelTensor& in = args.in(0);
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, kernels::ReducedAxes(args, kArg));
  const ReduceLoops& loops = Loops().reduce[static_cast<int>(kOp)][static_cast<int>(in.dtype)];
  if (loops.row == nullptr) {
    return DtypeError("[", args.op.name, "] is not defined for ", DtypeName(in.dtype));
  }
  if (kOfOneIsItself<kOp> && in.size() == out.size()) {
    RunUnary(PoolOf(args), WithoutAxes(in, out.ndim() == in.ndim() ? 0 : axes), out,
             Loops().cast[static_cast<int>(in.dtype)][static_cast<int>(out.dtype)]);
    return absl::OkStatus();
  }
  constexpr bool kAlike = kOp != ReduceOp::kProd && kOp != ReduceOp::kLogSumExp;
  const Plan plan = MakePlan(in, axes, kArg, kAlike, loops);
  if (plan.splits > 1) return RunSplit(args, plan, out.data);
  RunWhole(PoolOf(args), plan, out.data, ItemSize(out.dtype));
  return absl::OkStatus();
}

int RowDimsBefore(uint32_t axes, const KernelTensor& in) {
  int rows = in.ndim();
  int64_t size = 1;
  for (; rows > 0 && ((axes >> (rows - 1)) & 1) != 0; --rows) {
    const int d = rows - 1;
    if (in.shape[d] != 1 && in.strides[d] != size * ItemSize(in.dtype)) return 0;
    size *= in.shape[d];
  }
  const uint32_t before = axes & ((uint32_t{1} << rows) - 1);
  return before == 0 && size < 2 * kSplit ? rows : 0;
}

void SetRowwise(KernelTable& table, absl::string_view op, Kernel kernel, const Rowwise& promise) {
  table.Set(op, kernel);
  PromiseRowwise(kernel, promise);
}

template <bool kSingle>
int ReducedRowDims(const OpDef& op, absl::Span<const KernelTensor> inputs,
                   absl::Span<const KernelTensor> /*outputs*/, absl::Span<const AttrValue> attrs) {
  const auto axes = kernels::ReducedAxes(op, inputs[0].ndim(), attrs[0], kSingle);
  return axes.ok() ? RowDimsBefore(*axes, inputs[0]) : 0;
}
template int ReducedRowDims<false>(const OpDef& op, absl::Span<const KernelTensor> inputs,
                                   absl::Span<const KernelTensor> outputs,
                                   absl::Span<const AttrValue> attrs);

template absl::Status Reduce<ReduceOp::kMax>(const KernelArgs& args);
template absl::Status Reduce<ReduceOp::kMin>(const KernelArgs& args);
template absl::Status Reduce<ReduceOp::kProd>(const KernelArgs& args);

namespace {

// Of sums, whose integer results are int64: cast to what was asked for.
template <ReduceOp kOp>
absl::Status ReduceNarrow(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (IsFloat(out.dtype) || out.dtype == Dtype::kInt64) return Reduce<kOp>(args);
  CHX_ASSIGN_OR_RETURN(const KernelTensor wide, NewTensor(args, Dtype::kInt64, out.shape));
  CHX_RETURN_IF_ERROR(Reduce<kOp>({args.op, args.stream, args.scratch, args.inputs,
                                   absl::MakeConstSpan(&wide, 1), args.attrs}));
  RunUnary(PoolOf(args), wide, out,
           Loops().cast[static_cast<int>(wide.dtype)][static_cast<int>(out.dtype)]);
  return absl::OkStatus();
}

// Narrow results need scratch memory.
bool IsNarrow(Dtype result) { return !IsFloat(result) && result != Dtype::kInt64; }

int SumRowDims(const OpDef& op, absl::Span<const KernelTensor> inputs,
               absl::Span<const KernelTensor> outputs, absl::Span<const AttrValue> attrs) {
  return IsNarrow(outputs[0].dtype) ? 0 : ReducedRowDims<false>(op, inputs, outputs, attrs);
}

// As Reduce does it. Only sums of blocks are the same however the blocks come. Rows of several
// elements that are not cut are left alone: threads share them by columns.
Folding SumFolding(const OpDef& op, absl::Span<const KernelTensor> inputs,
                   absl::Span<const KernelTensor> outputs, absl::Span<const AttrValue> attrs) {
  const KernelTensor& in = inputs[0];
  const ReduceLoops& loops =
      Loops().reduce[static_cast<int>(ReduceOp::kSum)][static_cast<int>(in.dtype)];
  const auto axes = kernels::ReducedAxes(op, in.ndim(), attrs[0], false);
  if (!axes.ok() || IsNarrow(outputs[0].dtype)) return Folding();
  const Plan plan = MakePlan(in, *axes, false, true, loops);
  Folding folding{plan.splits, in.ndim(), 1,       kBlockOfSums,  loops.acc_size,
                  loops.init,  loops.row, nullptr, loops.combine, loops.finish};
  if (plan.kept.size == 1) {
    const bool is_row = plan.reduced_outer.size == 1 && plan.inner == in.size() &&
                        plan.inner_stride == plan.item_size;
    return is_row ? folding : Folding();
  }
  while (folding.row_dims > 0 && ((*axes >> (folding.row_dims - 1)) & 1) == 0) --folding.row_dims;
  folding.width = plan.width();
  folding.piece = kRowsOfSums;
  folding.gather_rows = loops.columns;
  const bool is_first = *axes == (uint32_t{1} << folding.row_dims) - 1;
  const bool fits = is_first && plan.by_columns && plan.pack == nullptr && plan.splits > 1 &&
                    plan.kept.size == folding.width && plan.reduced_outer.size == 1 &&
                    AreApart(in, 0, folding.row_dims, plan.inner_stride) &&
                    AreApart(in, folding.row_dims, in.ndim(), plan.item_size);
  return fits ? folding : Folding();
}

}  // namespace

void RegisterReduction(KernelTable& table) {
  SetRowwise(table, "sum", ReduceNarrow<ReduceOp::kSum>, {SumRowDims, SumFolding});
  SetRowwise(table, "amax", Reduce<ReduceOp::kMax>, {ReducedRowDims<false>});
  SetRowwise(table, "amin", Reduce<ReduceOp::kMin>, {ReducedRowDims<false>});
  SetRowwise(table, "argmax", Reduce<ReduceOp::kArgMax>, {ReducedRowDims<true>});
  SetRowwise(table, "argmin", Reduce<ReduceOp::kArgMin>, {ReducedRowDims<true>});
  SetRowwise(table, "logsumexp", Reduce<ReduceOp::kLogSumExp>, {ReducedRowDims<false>});
}

}  // namespace chx::server::native
