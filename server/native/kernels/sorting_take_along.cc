// Kernels of take_along_axis and its gradient (ops/defs/sorting.cc). One pass over the indices both
// checks and uses them.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "server/kernels/axis.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/native/kernels/index_bounds.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

using kernels::AxisSlices;
using kernels::SlicesOf;

// Takes n adjacent results: along one slice of the array (step 0), or from adjacent slices (step
// 1), whose elements are `after` apart.
template <int kStep, typename T>
bool Take(const T* from, const int64_t* indices, int64_t n, int64_t size, int64_t after, T* to) {
  return VisitPositions(indices, n, size, [=](int64_t i, int64_t at) {
    to[i] = kStep == 0 ? from[at] : from[at * after + i];
  });
}

// The reverse of Take: adds the elements of `from` to the positions that Take would read.
template <int kStep, typename T>
bool Return(const T* from, const int64_t* indices, int64_t n, int64_t size, int64_t after,
            T* sums) {
  return VisitPositions(indices, n, size, [=](int64_t i, int64_t at) {
    T& sum = kStep == 0 ? sums[at] : sums[at * after + i];
    sum = kernels::Store<T>(kernels::Add()(kernels::Load(sum), kernels::Load(from[i])));
  });
}

absl::Status RunTakeAlong(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor given, Contiguous(args, args.in(1), Dtype::kInt64));
  CHX_ASSIGN_OR_RETURN(const AxisSlices from, SlicesOf(args.op.name, a.shape, args.attrs[0]));
  CHX_ASSIGN_OR_RETURN(const AxisSlices to, SlicesOf(args.op.name, out.shape, args.attrs[0]));
  const int64_t* const indices = reinterpret_cast<const int64_t*>(given.data);
  if (from.size == 0) return FirstBadIndex(args.op.name, indices, out.size(), 0);
  std::atomic<bool> beyond{false};
  kernels::VisitItemSize(ItemSize(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const in = reinterpret_cast<const T*>(a.data);
    T* const result = reinterpret_cast<T*>(out.data);
    PoolOf(args).ParallelFor(out.size(), kGrain / 2, [&](int64_t begin, int64_t end) {
      bool outside = false;
      // In runs along a slice, or along a row of all slices.
      const int64_t block = to.size * to.after;
      for (int64_t i = begin; i < end;) {
        const T* const base = in + i / block * from.size * from.after;
        int64_t n = end - i;
        if (to.after == 1) {
          n = std::min(n, to.size - i % block);
          outside |= Take<0>(base, indices + i, n, from.size, 1, result + i);
        } else {
          const int64_t column = i % to.after;
          n = std::min(n, to.after - column);
          outside |= Take<1>(base + column, indices + i, n, from.size, from.after, result + i);
        }
        i += n;
      }
      if (outside) beyond = true;
    });
  });
  return !beyond ? absl::OkStatus() : FirstBadIndex(args.op.name, indices, out.size(), from.size);
}

// One thread adds up each slice, in the order of the indices.
absl::Status RunTakeAlongGrad(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  CHX_ASSIGN_OR_RETURN(const AxisSlices to, SlicesOf(args.op.name, out.shape, args.attrs[1]));
  CHX_ASSIGN_OR_RETURN(const KernelTensor given, Contiguous(args, args.in(1), Dtype::kInt64));
  const int64_t* const indices = reinterpret_cast<const int64_t*>(given.data);
  const int64_t total = args.in(1).size();
  if (out.size() == 0) return FirstBadIndex(args.op.name, indices, total, to.size);
  FillZero(out.data, out.size() * ItemSize(out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const AxisSlices from, SlicesOf(args.op.name, gy.shape, args.attrs[1]));
  constexpr int64_t kColumns = 1024;
  const int64_t width = std::min(kColumns, to.after);
  const int64_t chunks = (to.after + width - 1) / width;
  const int64_t grain = std::max<int64_t>(1, kGrain / 2 / std::max<int64_t>(1, from.size * width));
  std::atomic<bool> beyond{false};
  kernels::VisitDtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const in = reinterpret_cast<const T*>(gy.data);
    T* const result = reinterpret_cast<T*>(out.data);
    PoolOf(args).ParallelFor(to.before * chunks, grain, [&](int64_t begin, int64_t end) {
      bool outside = false;
      StopWatch watch;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t column = task % chunks * width;
        const int64_t first = task / chunks * from.size * from.after + column;
        T* const sums = result + task / chunks * to.size * to.after + column;
        if (to.after == 1) {
          outside |= Return<0>(in + first, indices + first, from.size, to.size, 1, sums);
          continue;
        }
        const int64_t n = std::min(width, to.after - column);
        for (int64_t i = 0; i < from.size && !watch.After(n); ++i) {
          const int64_t row = first + i * from.after;
          outside |= Return<1>(in + row, indices + row, n, to.size, to.after, sums);
        }
      }
      if (outside) beyond = true;
    });
  });
  return !beyond ? absl::OkStatus() : FirstBadIndex(args.op.name, indices, total, to.size);
}

}  // namespace

void RegisterSortingTakeAlong(KernelTable& table) {
  table.Set("take_along_axis", RunTakeAlong);
  table.Set("take_along_axis_grad", RunTakeAlongGrad);
}

}  // namespace chx::server::native
