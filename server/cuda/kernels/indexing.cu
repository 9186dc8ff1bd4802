// Kernels of ops/defs/indexing.cc.
#include "ops/error.h"
#include "ops/inference_rules.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/kernels/sorting_keys.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/device_nest.h"
#include "server/cuda/loops/late_check.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/axis.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/output_parts.h"

namespace chx::server::cuda {
namespace {

using kernels::AxisSlices;
using kernels::IndexMode;

absl::Status RunGetItemGrad(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_RETURN_IF_ERROR(args.stream.Zero(out.data, out.size() * ItemSize(out.dtype)));
  CHX_ASSIGN_OR_RETURN(const KernelTensor part, kernels::IndexedPart(args, args.attrs[1].ints()));
  return Copy(args, args.in(0), part);
}

// Indices in C order as positions in [0, size). In mode kRaise one that is out of bounds is
// reported.
struct Indices {
  const int64_t* data;
  IndexMode mode;
  int64_t size;
  LateCheck check;

  // -1: out of bounds.
  CHX_HD int64_t At(int64_t i) const {
    int64_t index = data[i];
    if (kernels::ResolveIndex(mode, size, &index)) return index;
    check.Report(data[i]);
    return -1;
  }
};

absl::StatusOr<Indices> IndicesOf(const KernelArgs& args, const KernelTensor& tensor,
                                  IndexMode mode, int64_t size) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, tensor));
  return Indices{reinterpret_cast<const int64_t*>(dense.data), mode, size,
                 LateCheck(args, Finding::Kind::kIndex, size)};
}

struct CheckBody {
  Indices indices;
  CHX_HD void operator()(int64_t i) const { indices.At(i); }
};

struct alignas(16) Wide {
  uint64_t words[2];
};

// a (before, size, after), out (before, count, after), both dense; in units of T. Zeros for what is
// out of bounds.
template <typename T>
struct TakeBody {
  const T* a;
  T* out;
  Indices indices;
  Divider count;
  Divider after;

  CHX_HD void operator()(int64_t i) const {
    const int64_t row = after.Quotient(i);
    const int64_t column = i - row * after.divisor();
    const int64_t before = count.Quotient(row);
    const int64_t index = indices.At(row - before * count.divisor());
    out[i] = index < 0 ? T() : a[(before * indices.size + index) * after.divisor() + column];
  }
};

template <typename T>
absl::Status TakeUnits(const KernelArgs& args, const char* a, char* out, const Indices& indices,
                       int64_t count, const AxisSlices& sides, int64_t row_bytes) {
  const int64_t after = row_bytes / static_cast<int64_t>(sizeof(T));
  const int64_t units = sides.before * count * after;
  return ForEach(args, units,
                 TakeBody<T>{reinterpret_cast<const T*>(a), reinterpret_cast<T*>(out), indices,
                             Divider(count, units), Divider(after, units)});
}

bool Aligned16(const char* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

absl::Status RunTake(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (args.in(1).size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(
      const int axis, rules::NormalizeAxis(args.op.name, args.attrs[0].AsInt(), args.in(0).ndim()));
  const int64_t size = args.in(0).shape[axis];
  const auto mode = static_cast<IndexMode>(args.attrs[1].has_value() ? args.attrs[1].AsInt() : 0);
  CHX_ASSIGN_OR_RETURN(const Indices indices, IndicesOf(args, args.in(1), mode, size));
  // They are checked even if there is nothing to take.
  if (out.size() == 0) return ForEach(args, args.in(1).size(), CheckBody{indices});
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0)));
  const AxisSlices sides = kernels::SlicesAlong(a.shape, axis);
  const int64_t count = args.in(1).size();
  const int64_t row_bytes = sides.after * ItemSize(out.dtype);
  if (row_bytes % 16 == 0 && Aligned16(a.data) && Aligned16(out.data)) {
    return TakeUnits<Wide>(args, a.data, out.data, indices, count, sides, row_bytes);
  }
  return kernels::VisitItemSize(ItemSize(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return TakeUnits<T>(args, a.data, out.data, indices, count, sides, row_bytes);
  });
}

// Keys to sort by: those out of bounds come last, as `size`.
struct KeyBody {
  Indices indices;
  int64_t* keys;
  CHX_HD void operator()(int64_t i) const {
    const int64_t index = indices.At(i);
    keys[i] = index < 0 ? indices.size : index;
  }
};

// Among equal keys, the thread of the first adds up all that goes to their element of out (before,
// size, after), in the order of the indices.
template <typename T>
struct TakeGradBody {
  const T* gy;  // (before, count, after)
  T* out;       // zeros
  SortedKeys sorted;
  int64_t size;
  int64_t count;
  Divider before;
  Divider after;

  CHX_HD void operator()(int64_t i) const {
    const int64_t row = after.Quotient(i);
    const int64_t column = i - row * after.divisor();
    const int64_t first = before.Quotient(row);
    const int64_t outer = row - first * before.divisor();
    const int64_t key = sorted.key(first);
    if (key == size || (first > 0 && sorted.key(first - 1) == key)) return;
    const kernels::Add add;
    kernels::Compute<T> sum = kernels::Compute<T>(0);
    for (int64_t p = first; p < count && sorted.key(p) == key; ++p) {
      const int64_t row_of_gy = outer * count + sorted.position(p);
      sum = add(sum, kernels::Load(gy[row_of_gy * after.divisor() + column]));
    }
    out[(outer * size + key) * after.divisor() + column] = kernels::Store<T>(sum);
  }
};

absl::Status RunTakeGrad(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  CHX_ASSIGN_OR_RETURN(const int axis,
                       rules::NormalizeAxis(args.op.name, args.attrs[1].AsInt(), out.ndim()));
  const int64_t size = out.shape[axis];
  const int64_t count = args.in(1).size();
  CHX_ASSIGN_OR_RETURN(
      const Indices indices,
      IndicesOf(args, args.in(1), static_cast<IndexMode>(args.attrs[2].AsInt()), size));
  CHX_RETURN_IF_ERROR(args.stream.Zero(out.data, out.size() * ItemSize(out.dtype)));
  if (count == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(int64_t* const unsorted, NewScratch<int64_t>(args, count));
  CHX_RETURN_IF_ERROR(ForEach(args, count, KeyBody{indices, unsorted}));
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const SortedKeys sorted, SortWithPositions(args, unsorted, count, size + 1));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(0)));
  const AxisSlices sides = kernels::SlicesAlong(out.shape, axis);
  const int64_t elements = sides.before * count * sides.after;
  return kernels::VisitDtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return ForEach(
        args, elements,
        TakeGradBody<T>{reinterpret_cast<const T*>(gy.data), reinterpret_cast<T*>(out.data), sorted,
                        size, count, Divider(sides.before, elements),
                        Divider(sides.after, elements)});
  });
}

}  // namespace

void RegisterIndexing(KernelTable& table) {
  table.Set("getitem_grad", RunGetItemGrad);
  table.Set("take", RunTake);
  table.Set("take_grad", RunTakeGrad);
}

}  // namespace chx::server::cuda
