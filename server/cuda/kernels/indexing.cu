// Kernels of ops/defs/indexing.cc.
#include "ops/error.h"
#include "ops/inference_rules.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/kernels/sorting_keys.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/device_nest.h"
#include "server/cuda/loops/first_invalid.h"
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

// Writes the positions in [0, size) of indices. In mode kRaise it reports those out of bounds.
struct ResolveBody {
  DeviceNest<1> nest;
  const char* in;
  int64_t* out;
  IndexMode mode;
  int64_t size;
  FirstInvalid invalid;

  CHX_HD void operator()(int64_t i) const {
    int64_t index = *reinterpret_cast<const int64_t*>(in + nest.Offset(i));
    if (!kernels::ResolveIndex(mode, size, &index)) invalid.Report(i);
    out[i] = index;
  }
};

// Dense positions in [0, size) for indices in any layout, in C order. Mode kRaise waits for the
// stream (see first_invalid.h).
absl::StatusOr<const int64_t*> ResolveIndices(const KernelArgs& args, const KernelTensor& indices,
                                              IndexMode mode, int64_t size) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor result, NewTensor(args, Dtype::kInt64, indices.shape));
  int64_t* const out = reinterpret_cast<int64_t*>(result.data);
  if (indices.size() == 0) return out;
  ResolveBody body;
  const Strides* strides[1] = {&indices.strides};
  body.nest = DeviceNest<1>(kernels::MakeLoopNest<1>(indices.shape, strides));
  body.in = indices.data;
  body.out = out;
  body.mode = mode;
  body.size = size;
  if (mode == IndexMode::kRaise) {
    CHX_ASSIGN_OR_RETURN(body.invalid, FirstInvalid::New(args, indices.size()));
  }
  CHX_RETURN_IF_ERROR(ForEach(args, indices.size(), body));
  if (mode != IndexMode::kRaise) return out;
  CHX_ASSIGN_OR_RETURN(const int64_t position, body.invalid.Read(args));
  if (position < 0) return out;
  int64_t index = 0;
  CHX_RETURN_IF_ERROR(
      args.stream.CopyOut(&index, body.in + body.nest.Offset(position), sizeof(index)));
  return kernels::BadIndexError(args.op.name, index, size);
}

struct alignas(16) Wide {
  uint64_t words[2];
};

// a (before, size, after), out (before, count, after), both dense; in units of T.
template <typename T>
struct TakeBody {
  const T* a;
  T* out;
  const int64_t* indices;
  int64_t size;
  Divider count;
  Divider after;

  CHX_HD void operator()(int64_t i) const {
    const int64_t row = after.Quotient(i);
    const int64_t column = i - row * after.divisor();
    const int64_t before = count.Quotient(row);
    const int64_t index = indices[row - before * count.divisor()];
    out[i] = a[(before * size + index) * after.divisor() + column];
  }
};

template <typename T>
absl::Status TakeUnits(const KernelArgs& args, const char* a, char* out, const int64_t* indices,
                       int64_t size, int64_t count, const AxisSlices& sides, int64_t row_bytes) {
  const int64_t after = row_bytes / static_cast<int64_t>(sizeof(T));
  const int64_t units = sides.before * count * after;
  return ForEach(args, units,
                 TakeBody<T>{reinterpret_cast<const T*>(a), reinterpret_cast<T*>(out), indices,
                             size, Divider(count, units), Divider(after, units)});
}

bool Aligned16(const char* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

absl::Status RunTake(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  // Indices are checked even if there is nothing to take.
  if (args.in(1).size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(
      const int axis, rules::NormalizeAxis(args.op.name, args.attrs[0].AsInt(), args.in(0).ndim()));
  const int64_t size = args.in(0).shape[axis];
  const auto mode = static_cast<IndexMode>(args.attrs[1].has_value() ? args.attrs[1].AsInt() : 0);
  CHX_ASSIGN_OR_RETURN(const int64_t* const indices, ResolveIndices(args, args.in(1), mode, size));
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0)));
  const AxisSlices sides = kernels::SlicesAlong(a.shape, axis);
  const int64_t count = args.in(1).size();
  const int64_t row_bytes = sides.after * ItemSize(out.dtype);
  if (row_bytes % 16 == 0 && Aligned16(a.data) && Aligned16(out.data)) {
    return TakeUnits<Wide>(args, a.data, out.data, indices, size, count, sides, row_bytes);
  }
  return kernels::VisitItemSize(ItemSize(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return TakeUnits<T>(args, a.data, out.data, indices, size, count, sides, row_bytes);
  });
}

// Among equal keys, the thread of the first adds up all that goes to their element of out (before,
// size, after), in the order of the indices.
template <typename T>
struct TakeGradBody {
  const T* gy;  // (before, count, after)
  T* out;       // zeros
  const int64_t* keys;
  const int64_t* positions;
  int64_t size;
  int64_t count;
  Divider before;
  Divider after;

  CHX_HD void operator()(int64_t i) const {
    const int64_t row = after.Quotient(i);
    const int64_t column = i - row * after.divisor();
    const int64_t first = before.Quotient(row);
    const int64_t outer = row - first * before.divisor();
    const int64_t key = keys[first];
    if (first > 0 && keys[first - 1] == key) return;
    const kernels::Add add;
    kernels::Compute<T> sum = kernels::Compute<T>(0);
    for (int64_t p = first; p < count && keys[p] == key; ++p) {
      sum = add(sum, kernels::Load(gy[(outer * count + positions[p]) * after.divisor() + column]));
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
      const int64_t* const indices,
      ResolveIndices(args, args.in(1), static_cast<IndexMode>(args.attrs[2].AsInt()), size));
  if (out.size() == 0) return absl::OkStatus();
  CHX_RETURN_IF_ERROR(args.stream.Zero(out.data, out.size() * ItemSize(out.dtype)));
  if (count == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor sorted, NewTensor(args, Dtype::kInt64, {2, count}));
  int64_t* const keys = reinterpret_cast<int64_t*>(sorted.data);
  int64_t* const positions = keys + count;
  CHX_RETURN_IF_ERROR(SortWithPositions(args, indices, count, size, keys, positions));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(0)));
  const AxisSlices sides = kernels::SlicesAlong(out.shape, axis);
  const int64_t elements = sides.before * count * sides.after;
  return kernels::VisitDtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return ForEach(
        args, elements,
        TakeGradBody<T>{reinterpret_cast<const T*>(gy.data), reinterpret_cast<T*>(out.data), keys,
                        positions, size, count, Divider(sides.before, elements),
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
