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

using kernels::Lanes;
using kernels::LanesOf;
using kernels::Load;

struct CountBody {
  int64_t* order;
  int64_t width;
  CHX_HD void operator()(int64_t i) const { order[i] = i & (width - 1); }
};

// One step of the network. Lanes are padded to `width`, a power of two; what is beyond `lanes.size`
// comes last.
template <typename T>
struct BitonicBody {
  const T* values;
  int64_t* order;
  Lanes lanes;
  int64_t width;
  int64_t block;
  int64_t distance;

  CHX_HD bool Before(int64_t first, int64_t x, int64_t y) const {
    if (x >= lanes.size || y >= lanes.size) return x < y;
    return kernels::PrecedesStably(Load(values[first + x * lanes.after]), x,
                                   Load(values[first + y * lanes.after]), y);
  }
  CHX_HD void operator()(int64_t i) const {
    const int64_t at = i & (width - 1);
    if ((at & distance) != 0) return;
    const int64_t first = lanes.First(i / width);
    const int64_t x = order[i];
    const int64_t y = order[i + distance];
    const bool ascending = (at & block) == 0;
    if (ascending ? Before(first, y, x) : Before(first, x, y)) {
      order[i] = y;
      order[i + distance] = x;
    }
  }
};

// (lanes, width) positions in sorted order.
absl::StatusOr<const int64_t*> SortedOrder(const KernelArgs& args, const KernelTensor& a,
                                           const Lanes& lanes, int64_t* width) {
  *width = 1;
  while (*width < lanes.size) *width *= 2;
  const int64_t total = lanes.count() * *width;
  CHX_ASSIGN_OR_RETURN(int64_t* const order, NewScratch<int64_t>(args, total));
  CHX_RETURN_IF_ERROR(ForEach(args, total, CountBody{order, *width}));
  CHX_RETURN_IF_ERROR(kernels::VisitDtype(a.dtype, [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::Type;
    const T* const values = reinterpret_cast<const T*>(a.data);
    for (int64_t block = 2; block <= *width; block *= 2) {
      for (int64_t distance = block / 2; distance > 0; distance /= 2) {
        CHX_RETURN_IF_ERROR(
            ForEach(args, total, BitonicBody<T>{values, order, lanes, *width, block, distance}));
      }
    }
    return absl::OkStatus();
  }));
  return order;
}

struct ArgSortBody {
  const int64_t* order;
  int64_t* out;
  Lanes lanes;
  int64_t width;
  CHX_HD void operator()(int64_t i) const {
    out[i] = order[lanes.LaneOf(i) * width + i / lanes.after % lanes.size];
  }
};

template <typename T>
struct SortBody {
  const T* values;
  const int64_t* order;
  T* out;
  Lanes lanes;
  int64_t width;
  CHX_HD void operator()(int64_t i) const {
    const int64_t lane = lanes.LaneOf(i);
    const int64_t from = order[lane * width + i / lanes.after % lanes.size];
    out[i] = values[lanes.First(lane) + from * lanes.after];
  }
};

absl::Status RunArgSort(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0)));
  CHX_ASSIGN_OR_RETURN(const Lanes lanes, LanesOf(args.op.name, a.shape, args.attrs[0]));
  int64_t width = 0;
  CHX_ASSIGN_OR_RETURN(const int64_t* const order, SortedOrder(args, a, lanes, &width));
  return ForEach(args, out.size(),
                 ArgSortBody{order, reinterpret_cast<int64_t*>(out.data), lanes, width});
}

absl::Status RunSort(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0)));
  CHX_ASSIGN_OR_RETURN(const Lanes lanes, LanesOf(args.op.name, a.shape, args.attrs[0]));
  int64_t width = 0;
  CHX_ASSIGN_OR_RETURN(const int64_t* const order, SortedOrder(args, a, lanes, &width));
  return kernels::VisitItemSize(ItemSize(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return ForEach(args, out.size(),
                   SortBody<T>{reinterpret_cast<const T*>(a.data), order,
                               reinterpret_cast<T*>(out.data), lanes, width});
  });
}

}  // namespace

void RegisterSorting(KernelTable& table) {
  table.Set("sort", RunSort);
  table.Set("argsort", RunArgSort);
}

}  // namespace chx::server::cuda
