// Kernels of ops/defs/sorting.cc. All results are the same in every run: no atomics, and what is
// added up is added in a fixed order.
#include "ops/error.h"
#include "server/cuda/bad_position.h"
#include "server/cuda/copy.h"
#include "server/cuda/device_nest.h"
#include "server/cuda/groups.h"
#include "server/cuda/launch.h"
#include "server/cuda/sort.h"
#include "server/kernels/axis.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/ordering.h"

namespace chx::server::cuda {
namespace {

using kernels::Lanes;  // not those of a block
using kernels::LanesOf;
using kernels::Load;
using kernels::Store;

absl::StatusOr<int64_t*> NewInts(const KernelArgs& args, int64_t size) {
  CHX_ASSIGN_OR_RETURN(void* const memory, args.scratch.Allocate(size * sizeof(int64_t)));
  return static_cast<int64_t*>(memory);
}

// --- sort and argsort: a bitonic network over positions, for all lanes at once ---

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
  CHX_ASSIGN_OR_RETURN(int64_t* const order, NewInts(args, total));
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

// --- cumsum and cumprod: chunks are summed up, their sums scanned, and the chunks then scanned ---

constexpr int64_t kChunk = 256;

template <typename Fn, typename T>
struct ScanBody {
  using C = kernels::Compute<T>;
  const T* in;
  T* out;     // null: only the chunks' totals
  C* totals;  // (lanes, chunks); null if there is one chunk
  Lanes lanes;
  int64_t chunks;

  CHX_HD void operator()(int64_t i) const {
    const Fn fn;
    const int64_t chunk = i % chunks;
    const int64_t first = lanes.First(i / chunks);
    const int64_t begin = chunk * kChunk;
    const int64_t end = chunks == 1 || begin + kChunk > lanes.size ? lanes.size : begin + kChunk;
    C sum = Load(in[first + begin * lanes.after]);
    if (out != nullptr && chunk > 0) sum = fn(totals[i - 1], sum);
    for (int64_t k = begin;;) {
      if (out != nullptr) out[first + k * lanes.after] = Store<T>(sum);
      if (++k == end) break;
      sum = fn(sum, static_cast<C>(Load(in[first + k * lanes.after])));
    }
    if (out == nullptr) totals[i] = sum;
  }
};

// `in` and `out` are dense, and may be the same.
template <typename Fn, typename T>
absl::Status Scan(const KernelArgs& args, const Lanes& lanes, const T* in, T* out) {
  using C = kernels::Compute<T>;
  const int64_t chunks = lanes.size <= 2 * kChunk ? 1 : (lanes.size + kChunk - 1) / kChunk;
  const int64_t tasks = lanes.count() * chunks;
  if (chunks == 1) {
    return ForEach(args, tasks, ScanBody<Fn, T>{in, out, nullptr, lanes, chunks});
  }
  CHX_ASSIGN_OR_RETURN(void* const memory, args.scratch.Allocate(tasks * sizeof(C)));
  C* const totals = static_cast<C*>(memory);
  CHX_RETURN_IF_ERROR(ForEach(args, tasks, ScanBody<Fn, T>{in, nullptr, totals, lanes, chunks}));
  Lanes upper;
  upper.before = lanes.count();
  upper.size = chunks;
  CHX_RETURN_IF_ERROR((Scan<Fn, C>(args, upper, totals, totals)));
  return ForEach(args, tasks, ScanBody<Fn, T>{in, out, totals, lanes, chunks});
}

// Inference has cast to the result's dtype.
template <typename Fn>
absl::Status RunScan(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0)));
  CHX_ASSIGN_OR_RETURN(const Lanes lanes, LanesOf(args.op.name, a.shape, args.attrs[0]));
  return kernels::VisitDtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return Scan<Fn, T>(args, lanes, reinterpret_cast<const T*>(a.data),
                       reinterpret_cast<T*>(out.data));
  });
}

// --- Along an axis by positions ---

// positions[i] = the element of (before, size, after) that index i of a lane names.
struct ResolveBody {
  const int64_t* indices;
  int64_t* positions;
  Lanes to;    // what is read or written
  Lanes from;  // the indices
  BadPosition bad;
  CHX_HD void operator()(int64_t i) const {
    int64_t index = indices[i];
    if (!kernels::ResolveIndex(kernels::IndexMode::kRaise, to.size, &index)) bad.Report(i);
    positions[i] = to.First(from.LaneOf(i)) + index * to.after;
  }
};

// Waits for the stream (bad_position.h).
absl::StatusOr<int64_t*> Resolve(const KernelArgs& args, const KernelTensor& indices,
                                 const Lanes& to, const Lanes& from) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor given, Contiguous(args, indices));
  const int64_t* const in = reinterpret_cast<const int64_t*>(given.data);
  CHX_ASSIGN_OR_RETURN(int64_t* const positions, NewInts(args, indices.size()));
  if (indices.size() == 0) return positions;
  CHX_ASSIGN_OR_RETURN(const BadPosition bad, NewBadPosition(args, indices.size()));
  CHX_RETURN_IF_ERROR(ForEach(args, indices.size(), ResolveBody{in, positions, to, from, bad}));
  CHX_ASSIGN_OR_RETURN(const int64_t position, FirstBad(args, bad));
  if (position < 0) return positions;
  int64_t index = 0;
  CHX_RETURN_IF_ERROR(args.stream.CopyOut(&index, in + position, sizeof(index)));
  return kernels::BadIndexError(args.op.name, index, to.size);
}

template <typename T>
struct GatherBody {
  const T* in;
  const int64_t* positions;
  T* out;
  CHX_HD void operator()(int64_t i) const { out[i] = in[positions[i]]; }
};

absl::Status RunTakeAlong(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0)));
  CHX_ASSIGN_OR_RETURN(const Lanes to, LanesOf(args.op.name, a.shape, args.attrs[0]));
  CHX_ASSIGN_OR_RETURN(const Lanes from, LanesOf(args.op.name, out.shape, args.attrs[0]));
  CHX_ASSIGN_OR_RETURN(const int64_t* const positions, Resolve(args, args.in(1), to, from));
  return kernels::VisitItemSize(ItemSize(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return ForEach(args, out.size(),
                   GatherBody<T>{reinterpret_cast<const T*>(a.data), positions,
                                 reinterpret_cast<T*>(out.data)});
  });
}

// The thread of the first among equal keys adds up all that goes there.
template <typename T>
struct AddBody {
  const T* gy;
  const int64_t* keys;
  const int64_t* places;
  int64_t count;
  T* out;
  CHX_HD void operator()(int64_t i) const {
    const int64_t key = keys[i];
    if (i > 0 && keys[i - 1] == key) return;
    const kernels::Add add;
    kernels::Compute<T> sum = Load(gy[places[i]]);
    for (int64_t k = i + 1; k < count && keys[k] == key; ++k) sum = add(sum, Load(gy[places[k]]));
    out[key] = Store<T>(sum);
  }
};

absl::Status RunTakeAlongGrad(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  const int64_t count = args.in(1).size();
  CHX_ASSIGN_OR_RETURN(const Lanes to, LanesOf(args.op.name, out.shape, args.attrs[1]));
  CHX_ASSIGN_OR_RETURN(const Lanes from, LanesOf(args.op.name, args.in(1).shape, args.attrs[1]));
  CHX_ASSIGN_OR_RETURN(const int64_t* const positions, Resolve(args, args.in(1), to, from));
  if (out.size() == 0) return absl::OkStatus();
  CHX_RETURN_IF_ERROR(args.stream.Zero(out.data, out.size() * ItemSize(out.dtype)));
  if (count == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(int64_t* const keys, NewInts(args, count));
  CHX_ASSIGN_OR_RETURN(int64_t* const places, NewInts(args, count));
  CHX_RETURN_IF_ERROR(SortWithPositions(args, positions, count, out.size(), keys, places));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(0)));
  return kernels::VisitDtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return ForEach(args, count,
                   AddBody<T>{reinterpret_cast<const T*>(gy.data), keys, places, count,
                              reinterpret_cast<T*>(out.data)});
  });
}

// The thread of the last among equal keys writes.
template <typename T>
struct PutBody {
  const int64_t* keys;
  const int64_t* places;
  int64_t count;
  const T* values;
  char* a;
  int64_t stride;  // of a's rows
  DeviceNest<1> row;
  CHX_HD void operator()(int64_t i) const {
    const int64_t at = i / row.size();
    const int64_t column = i % row.size();
    const int64_t key = keys[at];
    if (at + 1 < count && keys[at + 1] == key) return;
    *reinterpret_cast<T*>(a + key * stride + row.Offset(column)) =
        values[places[at] * row.size() + column];
  }
};

absl::Status RunIndexPut(const KernelArgs& args) {
  const KernelTensor& a = args.in(0);
  const int64_t count = args.in(1).size();
  Lanes to;
  to.size = a.shape[0];
  Lanes from;
  from.size = count;
  CHX_ASSIGN_OR_RETURN(const int64_t* const positions, Resolve(args, args.in(1), to, from));
  if (args.in(2).size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(int64_t* const keys, NewInts(args, count));
  CHX_ASSIGN_OR_RETURN(int64_t* const places, NewInts(args, count));
  CHX_RETURN_IF_ERROR(SortWithPositions(args, positions, count, to.size, keys, places));
  CHX_ASSIGN_OR_RETURN(const KernelTensor values, Contiguous(args, args.in(2)));
  const Shape shape(a.shape.span().subspan(1));
  const Strides strides(a.strides.span().subspan(1));
  const Strides* operands[1] = {&strides};
  const DeviceNest<1> row(kernels::MakeLoopNest<1>(shape, operands));
  return kernels::VisitItemSize(ItemSize(a.dtype), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return ForEach(args, values.size(),
                   PutBody<T>{keys, places, count, reinterpret_cast<const T*>(values.data), a.data,
                              a.strides[0], row});
  });
}

struct MarkBody {
  const kernels::Bool* mask;
  int64_t* counts;
  CHX_HD void operator()(int64_t i) const { counts[i] = static_cast<bool>(mask[i]) ? 1 : 0; }
};

struct CompressBody {
  const kernels::Bool* mask;
  const int64_t* counts;  // up to and with each element
  int64_t* out;
  int64_t limit;
  CHX_HD void operator()(int64_t i) const {
    if (static_cast<bool>(mask[i]) && counts[i] <= limit) out[counts[i] - 1] = i;
  }
};

absl::Status RunNonzeroPositions(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  const int64_t size = args.in(0).size();
  int64_t count = 0;
  if (size > 0) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0)));
    const kernels::Bool* const mask = reinterpret_cast<const kernels::Bool*>(a.data);
    CHX_ASSIGN_OR_RETURN(int64_t* const counts, NewInts(args, size));
    CHX_RETURN_IF_ERROR(ForEach(args, size, MarkBody{mask, counts}));
    Lanes lanes;
    lanes.size = size;
    CHX_RETURN_IF_ERROR((Scan<kernels::Add, int64_t>(args, lanes, counts, counts)));
    CHX_RETURN_IF_ERROR(ForEach(
        args, size, CompressBody{mask, counts, reinterpret_cast<int64_t*>(out.data), out.size()}));
    CHX_RETURN_IF_ERROR(args.stream.CopyOut(&count, counts + size - 1, sizeof(count)));
  }
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
  table.Set("take_along_axis", RunTakeAlong);
  table.Set("take_along_axis_grad", RunTakeAlongGrad);
  table.Set("index_put", RunIndexPut);
  table.Set("nonzero_positions", RunNonzeroPositions);
}

}  // namespace chx::server::cuda
