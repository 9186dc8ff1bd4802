// Kernels of ops/defs/indexing.cc.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "ops/inference_rules.h"
#include "server/engine/stop_token.h"
#include "server/kernels/axis.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/output_parts.h"
#include "server/native/kernels/index_bounds.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

using kernels::AxisSlices;
using kernels::IndexMode;

absl::Status RunGetItemGrad(const KernelArgs& args) {
  const KernelTensor& gy = args.in(0);
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  FillZero(out.data, out.size() * ItemSize(out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor part, kernels::IndexedPart(args, args.attrs[1].ints()));
  RunUnary(PoolOf(args), gy, part, CastLoop(gy.dtype, out.dtype));
  return absl::OkStatus();
}

// Copies n rows of a dense array, chosen by position. Rows of one item are moved as such.
void CopyRows(const char* from, const int64_t* positions, int64_t n, int64_t row_bytes, bool items,
              char* to) {
  if (!items) {
    for (int64_t i = 0; i < n; ++i) {
      CopyBytes(to + i * row_bytes, from + positions[i] * row_bytes, row_bytes);
    }
    return;
  }
  kernels::VisitItemSize(row_bytes, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const in = reinterpret_cast<const T*>(from);
    T* const out = reinterpret_cast<T*>(to);
    const int64_t* const at = positions;
    const int64_t count = n;
    for (int64_t i = 0; i < count; ++i) out[i] = in[at[i]];
  });
}

// Elements along the last axis: one pass over the indices both checks and uses them.
absl::Status TakeItems(const KernelArgs& args, const KernelTensor& a, const AxisSlices& sides) {
  const KernelTensor& out = args.out(0);
  CHX_ASSIGN_OR_RETURN(const KernelTensor given, Contiguous(args, args.in(1), Dtype::kInt64));
  const int64_t* const indices = reinterpret_cast<const int64_t*>(given.data);
  const int64_t count = given.size();
  if (sides.size == 0) return FirstBadIndex(args.op.name, indices, count, 0);
  std::atomic<bool> beyond{false};
  kernels::VisitItemSize(ItemSize(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    PoolOf(args).ParallelFor(out.size(), kGrain / 2, [&](int64_t begin, int64_t end) {
      bool outside = false;
      for (int64_t i = begin; i < end;) {
        const int64_t position = i % count;
        const int64_t n = std::min(count - position, end - i);
        const T* const from = reinterpret_cast<const T*>(a.data) + i / count * sides.size;
        T* const to = reinterpret_cast<T*>(out.data) + i;
        outside |= VisitPositions(indices + position, n, sides.size,
                                  [=](int64_t k, int64_t at) { to[k] = from[at]; });
        i += n;
      }
      if (outside) beyond = true;
    });
  });
  return !beyond ? absl::OkStatus() : FirstBadIndex(args.op.name, indices, count, sides.size);
}

absl::Status RunTake(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) {
    // Indices are checked even where there is nothing to take.
    if (args.in(1).size() == 0) return absl::OkStatus();
  }
  CHX_ASSIGN_OR_RETURN(
      const int axis, rules::NormalizeAxis(args.op.name, args.attrs[0].AsInt(), args.in(0).ndim()));
  const int64_t size = args.in(0).shape[axis];
  const auto mode = static_cast<IndexMode>(args.attrs[1].has_value() ? args.attrs[1].AsInt() : 0);
  const AxisSlices sides = kernels::SlicesAlong(args.in(0).shape, axis);
  if (mode == IndexMode::kRaise && sides.after == 1 && out.size() > 0) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), out.dtype));
    return TakeItems(args, a, sides);
  }
  CHX_ASSIGN_OR_RETURN(const int64_t* const indices, ResolveIndices(args, args.in(1), mode, size));
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), out.dtype));
  const int64_t count = args.in(1).size();
  const int64_t row_bytes = sides.after * ItemSize(a.dtype);
  const int64_t grain = std::max<int64_t>(1, kGrain * 4 / row_bytes);
  PoolOf(args).ParallelFor(sides.before * count, grain, [&](int64_t begin, int64_t end) {
    int64_t before = begin / count;
    int64_t position = begin % count;
    for (int64_t i = begin; i < end; ++before, position = 0) {
      const int64_t n = std::min(count - position, end - i);
      CopyRows(a.data + before * size * row_bytes, indices + position, n, row_bytes,
               sides.after == 1, out.data + i * row_bytes);
      i += n;
    }
  });
  return absl::OkStatus();
}

// Adds the elements of gy whose index is in [first, first + width). A block's positions are picked
// out without branches, which would be mispredicted half of the time.
template <typename T>
void AddItemsOf(const T* gy, const int64_t* indices, int64_t count, int64_t first, uint64_t width,
                T* sums) {
  constexpr int64_t kBlock = 512;
  int32_t chosen[kBlock];
  const kernels::Add add;
  StopWatch watch;
  for (int64_t begin = 0; begin < count && !watch.After(kBlock); begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    int64_t found = 0;
    for (int64_t i = 0; i < n; ++i) {
      chosen[found] = static_cast<int32_t>(i);
      found += static_cast<uint64_t>(indices[begin + i] - first) < width ? 1 : 0;
    }
    for (int64_t k = 0; k < found; ++k) {
      const int64_t i = begin + chosen[k];
      T& at = sums[indices[i]];
      at = kernels::Store<T>(add(kernels::Load(at), kernels::Load(gy[i])));
    }
  }
}

template <typename T>
void AddAllItems(const T* gy, const int64_t* indices, int64_t count, T* sums) {
  const kernels::Add add;
  InPieces(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T& at = sums[indices[i]];
      at = kernels::Store<T>(add(kernels::Load(at), kernels::Load(gy[i])));
    }
  });
}

// Adds the elements of dense gy (before, count) at their positions in dense sum (before, size).
// Threads share the positions, so that each sum is added up in the order of the indices; each has
// to look at all indices, which pays where there are many.
void AddItems(ThreadPool& pool, const KernelTensor& gy, const int64_t* indices, int64_t count,
              int64_t before, int64_t size, const KernelTensor& sum) {
  const int64_t parts = count < 8 * kGrain || before >= pool.threads() ? 1 : pool.threads();
  kernels::VisitDtype(sum.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, count));
    pool.ParallelFor(before * parts, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const T* const from = reinterpret_cast<const T*>(gy.data) + task / parts * count;
        T* const to = reinterpret_cast<T*>(sum.data) + task / parts * size;
        const int64_t first = size * (task % parts) / parts;
        const int64_t last = size * (task % parts + 1) / parts;
        if (parts == 1) {
          AddAllItems(from, indices, count, to);
        } else {
          AddItemsOf(from, indices, count, first, last - first, to);
        }
      }
    });
  });
}

// Rows are added one after the other, in the order of the indices; threads share the columns.
absl::Status RunTakeGrad(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  CHX_ASSIGN_OR_RETURN(const int axis,
                       rules::NormalizeAxis(args.op.name, args.attrs[1].AsInt(), out.ndim()));
  const int64_t size = out.shape[axis];
  CHX_ASSIGN_OR_RETURN(
      const int64_t* const indices,
      ResolveIndices(args, args.in(1), static_cast<IndexMode>(args.attrs[2].AsInt()), size));
  if (out.size() == 0) return absl::OkStatus();
  const Dtype dtype = WorkDtype(out.dtype);
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(0), dtype));
  KernelTensor sum = out;
  if (dtype != out.dtype) {
    CHX_ASSIGN_OR_RETURN(sum, NewTensor(args, dtype, out.shape));
  }
  const int64_t item_size = ItemSize(dtype);
  FillZero(sum.data, sum.size() * item_size);
  const AxisSlices sides = kernels::SlicesAlong(out.shape, axis);
  const int64_t count = args.in(1).size();
  if (sides.after == 1) {
    AddItems(PoolOf(args), gy, indices, count, sides.before, size, sum);
    if (dtype != out.dtype) RunUnary(PoolOf(args), sum, out, CastLoop(dtype, out.dtype));
    return absl::OkStatus();
  }
  using kernels::BinaryArithmeticFns;
  const Loop add = Loops().arithmetic[kernels::kFnIndex<kernels::Add, BinaryArithmeticFns>]
                                     [static_cast<int>(dtype)];
  constexpr int64_t kColumns = 512;
  const int64_t chunks = (sides.after + kColumns - 1) / kColumns;
  const int64_t grain =
      std::max<int64_t>(1, kGrain / std::max<int64_t>(1, count * std::min(sides.after, kColumns)));
  PoolOf(args).ParallelFor(sides.before * chunks, grain, [&](int64_t begin, int64_t end) {
    StopWatch watch;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t before = task / chunks;
      const int64_t column = task % chunks * kColumns;
      const int64_t width = std::min(kColumns, sides.after - column);
      for (int64_t i = 0; i < count && !watch.After(width); ++i) {
        char* const to =
            sum.data + ((before * size + indices[i]) * sides.after + column) * item_size;
        char* const from = gy.data + ((before * count + i) * sides.after + column) * item_size;
        char* const data[3] = {to, to, from};
        const int64_t strides[3] = {item_size, item_size, item_size};
        add(data, strides, width);
      }
    }
  });
  if (dtype != out.dtype) RunUnary(PoolOf(args), sum, out, CastLoop(dtype, out.dtype));
  return absl::OkStatus();
}

}  // namespace

void RegisterIndexing(KernelTable& table) {
  table.Set("getitem_grad", RunGetItemGrad);
  table.Set("take", RunTake);
  table.Set("take_grad", RunTakeGrad);
}

}  // namespace chx::server::native
