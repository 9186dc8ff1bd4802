// Kernels of ops/defs/sorting.cc: sort and argsort, by a bitonic network over positions, for all
// slices along the axis at once.
#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/axis.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/ordering.h"

namespace chx::server::cuda {
namespace {

using kernels::AxisSlices;
using kernels::Load;
using kernels::SlicesOf;

struct CountBody {
  int64_t* order;
  int64_t width;
  CHX_HD void operator()(int64_t i) const { order[i] = i & (width - 1); }
};

// One step of the network. Slices are padded to `width`, a power of two. Positions from slices.size
// on are padding, which comes last.
template <typename T>
struct BitonicBody {
  const T* values;
  int64_t* order;
  AxisSlices slices;
  int64_t width;
  int64_t block;
  int64_t distance;

  CHX_HD bool Before(int64_t first, int64_t x, int64_t y) const {
    if (x >= slices.size || y >= slices.size) return x < y;
    return kernels::PrecedesStably(Load(values[first + x * slices.after]), x,
                                   Load(values[first + y * slices.after]), y);
  }
  CHX_HD void operator()(int64_t i) const {
    const int64_t at = i & (width - 1);
    if ((at & distance) != 0) return;
    const int64_t first = slices.First(i / width);
    const int64_t x = order[i];
    const int64_t y = order[i + distance];
    const bool ascending = (at & block) == 0;
    if (ascending ? Before(first, y, x) : Before(first, x, y)) {
      order[i] = y;
      order[i + distance] = x;
    }
  }
};

// The input in C order, and the positions (slices, width) of its elements in sorted order.
struct Sorted {
  KernelTensor a;
  AxisSlices slices;
  int64_t width = 1;
  int64_t* order = nullptr;
};

absl::StatusOr<Sorted> Sort(const KernelArgs& args) {
  Sorted sorted;
  CHX_ASSIGN_OR_RETURN(sorted.a, Contiguous(args, args.in(0)));
  CHX_ASSIGN_OR_RETURN(sorted.slices, SlicesOf(args.op.name, sorted.a.shape, args.attrs[0]));
  int64_t& width = sorted.width;
  while (width < sorted.slices.size) width *= 2;
  const int64_t total = sorted.slices.count() * width;
  CHX_ASSIGN_OR_RETURN(int64_t* const order, NewScratch<int64_t>(args, total));
  sorted.order = order;
  CHX_RETURN_IF_ERROR(ForEach(args, total, CountBody{order, width}));
  CHX_RETURN_IF_ERROR(kernels::VisitDtype(sorted.a.dtype, [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::Type;
    const T* const values = reinterpret_cast<const T*>(sorted.a.data);
    for (int64_t block = 2; block <= width; block *= 2) {
      for (int64_t distance = block / 2; distance > 0; distance /= 2) {
        CHX_RETURN_IF_ERROR(ForEach(
            args, total, BitonicBody<T>{values, order, sorted.slices, width, block, distance}));
      }
    }
    return absl::OkStatus();
  }));
  return sorted;
}

struct ArgSortBody {
  const int64_t* order;
  int64_t* out;
  AxisSlices slices;
  int64_t width;
  CHX_HD void operator()(int64_t i) const {
    out[i] = order[slices.SliceOf(i) * width + i / slices.after % slices.size];
  }
};

template <typename T>
struct SortBody {
  const T* values;
  const int64_t* order;
  T* out;
  AxisSlices slices;
  int64_t width;
  CHX_HD void operator()(int64_t i) const {
    const int64_t slice = slices.SliceOf(i);
    const int64_t from = order[slice * width + i / slices.after % slices.size];
    out[i] = values[slices.First(slice) + from * slices.after];
  }
};

absl::Status RunArgSort(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const Sorted sorted, Sort(args));
  return ForEach(
      args, out.size(),
      ArgSortBody{sorted.order, reinterpret_cast<int64_t*>(out.data), sorted.slices, sorted.width});
}

absl::Status RunSort(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const Sorted sorted, Sort(args));
  return kernels::VisitItemSize(ItemSize(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return ForEach(args, out.size(),
                   SortBody<T>{reinterpret_cast<const T*>(sorted.a.data), sorted.order,
                               reinterpret_cast<T*>(out.data), sorted.slices, sorted.width});
  });
}

}  // namespace

void RegisterSorting(KernelTable& table) {
  table.Set("sort", RunSort);
  table.Set("argsort", RunArgSort);
}

}  // namespace chx::server::cuda
