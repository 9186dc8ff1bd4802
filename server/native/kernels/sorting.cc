// Kernels of ops/defs/sorting.cc.
#include <algorithm>
#include <cstring>

#include "server/engine/stop_token.h"
#include "server/kernels/axis.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/ordering.h"
#include "server/native/kernels/bounded_sort.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

using kernels::AxisSlices;
using kernels::Load;
using kernels::SlicesOf;
using kernels::Store;

int64_t SliceGrain(const AxisSlices& slices, int64_t cost) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, slices.size * cost));
}

// Calls fn(slice, data of `size` dense elements of T) for every slice of `out`, and copies the
// results from there into `out`.
template <typename T, typename Fn>
absl::Status ForDenseSlices(const KernelArgs& args, const AxisSlices& slices, T* out, Fn fn) {
  T* dense = out;
  if (slices.after > 1) {
    CHX_ASSIGN_OR_RETURN(void* const scratch,
                         args.scratch.Allocate(slices.count() * slices.size * sizeof(T)));
    dense = static_cast<T*>(scratch);
  }
  PoolOf(args).ParallelFor(slices.count(), SliceGrain(slices, 8), [&](int64_t begin, int64_t end) {
    for (int64_t slice = begin; slice < end; ++slice) {
      T* const data = dense + slice * slices.size;
      fn(slice, data);
      if (slices.after == 1) continue;
      T* const to = out + slices.First(slice);
      InPieces(slices.size, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) to[i * slices.after] = data[i];
      });
    }
  });
  return absl::OkStatus();
}

absl::Status RunSort(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const AxisSlices slices, SlicesOf(args.op.name, a.shape, args.attrs[0]));
  return kernels::VisitDtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const in = reinterpret_cast<const T*>(a.data);
    return ForDenseSlices(
        args, slices, reinterpret_cast<T*>(out.data), [&](int64_t slice, T* data) {
          const T* const from = in + slices.First(slice);
          InPieces(slices.size, [&](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; ++i) data[i] = from[i * slices.after];
          });
          BoundedSort(data, slices.size,
                      [](const T& x, const T& y) { return kernels::Precedes(Load(x), Load(y)); });
        });
  });
}

absl::Status RunArgSort(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), args.in(0).dtype));
  CHX_ASSIGN_OR_RETURN(const AxisSlices slices, SlicesOf(args.op.name, a.shape, args.attrs[0]));
  return kernels::VisitDtype(a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const in = reinterpret_cast<const T*>(a.data);
    int64_t* const result = reinterpret_cast<int64_t*>(out.data);
    return ForDenseSlices(args, slices, result, [&](int64_t slice, int64_t* order) {
      const T* const values = in + slices.First(slice);
      // If the fill stops early, `order` has arbitrary values, which must not be used as indices.
      const bool filled = InPieces(slices.size, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) order[i] = i;
      });
      if (!filled) return;
      BoundedSort(order, slices.size, [&](int64_t x, int64_t y) {
        return kernels::PrecedesStably(Load(values[x * slices.after]), x,
                                       Load(values[y * slices.after]), y);
      });
    });
  });
}

// A scan along an axis other than the last, by whole rows. `a` and the output are dense.
template <typename Fn>
void ScanRows(const KernelArgs& args, const KernelTensor& a, const AxisSlices& slices) {
  const KernelTensor& out = args.out(0);
  const int64_t item = ItemSize(out.dtype);
  const Loop loop = Loops().arithmetic[kernels::kFnIndex<Fn, kernels::BinaryArithmeticFns>]
                                      [static_cast<int>(out.dtype)];
  constexpr int64_t kColumns = 1024;
  const int64_t chunks = (slices.after + kColumns - 1) / kColumns;
  PoolOf(args).ParallelFor(
      slices.before * chunks, SliceGrain(slices, kColumns), [&](int64_t begin, int64_t end) {
        StopWatch watch;
        for (int64_t task = begin; task < end; ++task) {
          const int64_t column = task % chunks * kColumns;
          const int64_t n = std::min(kColumns, slices.after - column);
          const int64_t row = slices.after * item;
          const int64_t first = (task / chunks * slices.size * slices.after + column) * item;
          std::memcpy(out.data + first, a.data + first, n * item);
          for (int64_t i = 1; i < slices.size && !watch.After(n); ++i) {
            char* const to = out.data + first + i * row;
            char* const data[3] = {to, to - row, a.data + first + i * row};
            const int64_t strides[3] = {item, item, item};
            loop(data, strides, n);
          }
        }
      });
}

template <typename Fn>
absl::Status RunScan(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const AxisSlices slices, SlicesOf(args.op.name, a.shape, args.attrs[0]));
  // Sums of narrow floats are kept in float32, which ScanRows cannot do.
  if (slices.after >= 8 && !IsNarrowFloat(out.dtype)) {
    ScanRows<Fn>(args, a, slices);
    return absl::OkStatus();
  }
  kernels::VisitDtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = kernels::Compute<T>;
    const T* const in = reinterpret_cast<const T*>(a.data);
    T* const to = reinterpret_cast<T*>(out.data);
    PoolOf(args).ParallelFor(slices.count(), SliceGrain(slices, 1),
                             [&](int64_t begin, int64_t end) {
                               const Fn fn;
                               for (int64_t slice = begin; slice < end; ++slice) {
                                 const int64_t first = slices.First(slice);
                                 C sum = Load(in[first]);
                                 to[first] = in[first];
                                 InPieces(slices.size, [&](int64_t from, int64_t until) {
                                   for (int64_t i = std::max<int64_t>(1, from); i < until; ++i) {
                                     const int64_t at = first + i * slices.after;
                                     sum = static_cast<C>(fn(sum, static_cast<C>(Load(in[at]))));
                                     to[at] = Store<T>(sum);
                                   }
                                 });
                               }
                             });
  });
  return absl::OkStatus();
}

// Dense indices, all in [-size, size).
absl::StatusOr<const int64_t*> Positions(const KernelArgs& args, const KernelTensor& indices,
                                         int64_t size) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor given, Contiguous(args, indices, Dtype::kInt64));
  const int64_t* const in = reinterpret_cast<const int64_t*>(given.data);
  StopWatch watch;
  for (int64_t i = 0; i < indices.size() && !watch.After(1); ++i) {
    if (in[i] >= -size && in[i] < size) continue;
    return kernels::BadIndexError(args.op.name, in[i], size);
  }
  CHX_RETURN_IF_ERROR(CheckNotStopped(args.op.name));  // otherwise not all have been checked
  return in;
}

absl::Status RunIndexPut(const KernelArgs& args) {
  const KernelTensor& a = args.in(0);
  CHX_ASSIGN_OR_RETURN(const int64_t* const indices, Positions(args, args.in(1), a.shape[0]));
  if (args.in(2).size() == 0) return absl::OkStatus();
  const Loop copy = Loops().cast[static_cast<int>(a.dtype)][static_cast<int>(a.dtype)];
  CHX_ASSIGN_OR_RETURN(const KernelTensor values, Contiguous(args, args.in(2), a.dtype));
  const auto row = [](const KernelTensor& tensor, int64_t i) {
    KernelTensor part = tensor;
    part.data = tensor.data + i * tensor.strides[0];
    part.shape = Shape(tensor.shape.span().subspan(1));
    part.strides = Strides(tensor.strides.span().subspan(1));
    return part;
  };
  StopWatch watch;
  for (int64_t i = 0; i < args.in(1).size() && !watch.After(64); ++i) {
    const int64_t at = indices[i] < 0 ? indices[i] + a.shape[0] : indices[i];
    RunUnary(PoolOf(args), row(values, i), row(a, at), copy);
  }
  return absl::OkStatus();
}

absl::Status RunNonzeroPositions(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), Dtype::kBool));
  int64_t* const positions = reinterpret_cast<int64_t*>(out.data);
  int64_t count = 0;
  InPieces(a.size(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (a.data[i] == 0) continue;
      if (count < out.size()) positions[count] = i;
      ++count;
    }
  });
  if (count == out.size()) return absl::OkStatus();
  return ValueError("[nonzero_positions] expects the number of non-zero elements, ", count,
                    ", got ", out.size());
}

}  // namespace

void RegisterSorting(KernelTable& table) {
  table.Set("sort", RunSort);
  table.Set("argsort", RunArgSort);
  table.Set("cumsum", RunScan<kernels::Add>);
  table.Set("cumprod", RunScan<kernels::Multiply>);
  table.Set("index_put", RunIndexPut);
  table.Set("nonzero_positions", RunNonzeroPositions);
}

}  // namespace chx::server::native
