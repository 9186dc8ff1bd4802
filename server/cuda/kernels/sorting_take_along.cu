// Kernels of ops/defs/sorting.cc that use indices along an axis: take_along_axis, its gradient and
// index_put. Indices are sorted first, so that one thread handles all equal ones. Results are then
// the same in every run, without atomics.
#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/kernels/sorting_keys.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/device_nest.h"
#include "server/cuda/loops/late_check.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/axis.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"

namespace chx::server::cuda {
namespace {

using kernels::AxisSlices;
using kernels::Load;
using kernels::SlicesOf;
using kernels::Store;

// positions[i] = the element of (before, size, after) that index i of a slice selects; `none` for
// an index that is out of bounds, which is reported.
struct ResolveBody {
  const int64_t* indices;
  int64_t* positions;
  AxisSlices to;    // what is read or written
  AxisSlices from;  // the indices
  int64_t none;
  LateCheck check;
  CHX_HD void operator()(int64_t i) const {
    int64_t index = indices[i];
    if (kernels::ResolveIndex(kernels::IndexMode::kRaise, to.size, &index)) {
      positions[i] = to.First(from.SliceOf(i)) + index * to.after;
    } else {
      check.Report(indices[i]);
      positions[i] = none;
    }
  }
};

absl::StatusOr<int64_t*> Resolve(const KernelArgs& args, const KernelTensor& indices,
                                 const AxisSlices& to, const AxisSlices& from, int64_t none) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor given, Contiguous(args, indices));
  CHX_ASSIGN_OR_RETURN(int64_t* const positions, NewScratch<int64_t>(args, indices.size()));
  CHX_RETURN_IF_ERROR(
      ForEach(args, indices.size(),
              ResolveBody{reinterpret_cast<const int64_t*>(given.data), positions, to, from, none,
                          LateCheck(args, Finding::Kind::kIndex, to.size)}));
  return positions;
}

template <typename T>
struct GatherBody {
  const T* in;
  const int64_t* positions;
  T* out;
  CHX_HD void operator()(int64_t i) const { out[i] = positions[i] < 0 ? T() : in[positions[i]]; }
};

absl::Status RunTakeAlong(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0)));
  CHX_ASSIGN_OR_RETURN(const AxisSlices to, SlicesOf(args.op.name, a.shape, args.attrs[0]));
  CHX_ASSIGN_OR_RETURN(const AxisSlices from, SlicesOf(args.op.name, out.shape, args.attrs[0]));
  CHX_ASSIGN_OR_RETURN(const int64_t* const positions, Resolve(args, args.in(1), to, from, -1));
  return kernels::VisitItemSize(ItemSize(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return ForEach(args, out.size(),
                   GatherBody<T>{reinterpret_cast<const T*>(a.data), positions,
                                 reinterpret_cast<T*>(out.data)});
  });
}

// Among equal keys, the thread of the first adds up all that goes to their element. Keys from
// `limit` on have none.
template <typename T>
struct AddBody {
  const T* gy;
  SortedKeys sorted;
  int64_t count;
  int64_t limit;
  T* out;
  CHX_HD void operator()(int64_t i) const {
    const int64_t key = sorted.key(i);
    if (key >= limit || (i > 0 && sorted.key(i - 1) == key)) return;
    const kernels::Add add;
    kernels::Compute<T> sum = Load(gy[sorted.position(i)]);
    for (int64_t k = i + 1; k < count && sorted.key(k) == key; ++k) {
      sum = add(sum, Load(gy[sorted.position(k)]));
    }
    out[key] = Store<T>(sum);
  }
};

absl::Status RunTakeAlongGrad(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  const int64_t count = args.in(1).size();
  CHX_ASSIGN_OR_RETURN(const AxisSlices to, SlicesOf(args.op.name, out.shape, args.attrs[1]));
  CHX_ASSIGN_OR_RETURN(const AxisSlices from,
                       SlicesOf(args.op.name, args.in(1).shape, args.attrs[1]));
  CHX_ASSIGN_OR_RETURN(const int64_t* const positions,
                       Resolve(args, args.in(1), to, from, out.size()));
  if (out.size() == 0) return absl::OkStatus();
  CHX_RETURN_IF_ERROR(args.stream.Zero(out.data, out.size() * ItemSize(out.dtype)));
  if (count == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const SortedKeys sorted,
                       SortWithPositions(args, positions, count, out.size() + 1));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(0)));
  return kernels::VisitDtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return ForEach(args, count,
                   AddBody<T>{reinterpret_cast<const T*>(gy.data), sorted, count, out.size(),
                              reinterpret_cast<T*>(out.data)});
  });
}

// Among equal keys, the thread of the last writes. Keys from `limit` on have no row.
template <typename T>
struct PutBody {
  SortedKeys sorted;
  int64_t count;
  int64_t limit;
  const T* values;
  char* a;
  int64_t stride;  // of a's rows
  DeviceNest<1> row;
  CHX_HD void operator()(int64_t i) const {
    const int64_t at = i / row.size();
    const int64_t column = i % row.size();
    const int64_t key = sorted.key(at);
    if (key >= limit || (at + 1 < count && sorted.key(at + 1) == key)) return;
    *reinterpret_cast<T*>(a + key * stride + row.Offset(column)) =
        values[sorted.position(at) * row.size() + column];
  }
};

absl::Status RunIndexPut(const KernelArgs& args) {
  const KernelTensor& a = args.in(0);
  const int64_t count = args.in(1).size();
  AxisSlices to;
  to.size = a.shape[0];
  AxisSlices from;
  from.size = count;
  CHX_ASSIGN_OR_RETURN(const int64_t* const positions,
                       Resolve(args, args.in(1), to, from, to.size));
  if (args.in(2).size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const SortedKeys sorted,
                       SortWithPositions(args, positions, count, to.size + 1));
  CHX_ASSIGN_OR_RETURN(const KernelTensor values, Contiguous(args, args.in(2)));
  const Shape shape(a.shape.span().subspan(1));
  const Strides strides(a.strides.span().subspan(1));
  const Strides* operands[1] = {&strides};
  const DeviceNest<1> row(kernels::MakeLoopNest<1>(shape, operands));
  return kernels::VisitItemSize(ItemSize(a.dtype), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return ForEach(args, values.size(),
                   PutBody<T>{sorted, count, to.size, reinterpret_cast<const T*>(values.data),
                              a.data, a.strides[0], row});
  });
}

}  // namespace

void RegisterSortingTakeAlong(KernelTable& table) {
  table.Set("take_along_axis", RunTakeAlong);
  table.Set("take_along_axis_grad", RunTakeAlongGrad);
  table.Set("index_put", RunIndexPut);
}

}  // namespace chx::server::cuda
