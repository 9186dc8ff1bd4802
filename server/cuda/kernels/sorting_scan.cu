// Kernels of ops/defs/sorting.cc that scan: cumsum, cumprod and nonzero_positions.
//
// A long slice is divided into chunks. One launch sums up each chunk, the sums are scanned, and
// another launch scans the chunks. Sums have a fixed order and no atomics are used, so results are
// the same in every run.
#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
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

constexpr int64_t kChunk = 256;

template <typename Fn, typename T>
struct ScanBody {
  using C = kernels::Compute<T>;
  const T* in;
  T* out;     // null: only the chunks' totals
  C* totals;  // (slices, chunks); null if there is one chunk
  AxisSlices slices;
  int64_t chunks;

  CHX_HD void operator()(int64_t i) const {
    const Fn fn;
    const int64_t chunk = i % chunks;
    const int64_t first = slices.First(i / chunks);
    const int64_t begin = chunk * kChunk;
    const int64_t end = chunks == 1 || begin + kChunk > slices.size ? slices.size : begin + kChunk;
    C sum = Load(in[first + begin * slices.after]);
    if (out != nullptr && chunk > 0) sum = fn(totals[i - 1], sum);
    for (int64_t k = begin;;) {
      if (out != nullptr) out[first + k * slices.after] = Store<T>(sum);
      if (++k == end) break;
      sum = fn(sum, static_cast<C>(Load(in[first + k * slices.after])));
    }
    if (out == nullptr) totals[i] = sum;
  }
};

// `in` and `out` are dense, and may be the same.
template <typename Fn, typename T>
absl::Status Scan(const KernelArgs& args, const AxisSlices& slices, const T* in, T* out) {
  using C = kernels::Compute<T>;
  const int64_t chunks = slices.size <= 2 * kChunk ? 1 : (slices.size + kChunk - 1) / kChunk;
  const int64_t tasks = slices.count() * chunks;
  if (chunks == 1) {
    return ForEach(args, tasks, ScanBody<Fn, T>{in, out, nullptr, slices, chunks});
  }
  CHX_ASSIGN_OR_RETURN(void* const memory, args.scratch.Allocate(tasks * sizeof(C)));
  C* const totals = static_cast<C*>(memory);
  CHX_RETURN_IF_ERROR(ForEach(args, tasks, ScanBody<Fn, T>{in, nullptr, totals, slices, chunks}));
  AxisSlices upper;
  upper.before = slices.count();
  upper.size = chunks;
  CHX_RETURN_IF_ERROR((Scan<Fn, C>(args, upper, totals, totals)));
  return ForEach(args, tasks, ScanBody<Fn, T>{in, out, totals, slices, chunks});
}

// Inference has cast the input to the result's dtype.
template <typename Fn>
absl::Status RunScan(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0)));
  CHX_ASSIGN_OR_RETURN(const AxisSlices slices, SlicesOf(args.op.name, a.shape, args.attrs[0]));
  return kernels::VisitDtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return Scan<Fn, T>(args, slices, reinterpret_cast<const T*>(a.data),
                       reinterpret_cast<T*>(out.data));
  });
}

struct MarkBody {
  const kernels::Bool* mask;
  int64_t* counts;
  CHX_HD void operator()(int64_t i) const { counts[i] = static_cast<bool>(mask[i]) ? 1 : 0; }
};

struct CompressBody {
  const kernels::Bool* mask;
  const int64_t* counts;  // of the elements up to and including each
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
    CHX_ASSIGN_OR_RETURN(int64_t* const counts, NewScratch<int64_t>(args, size));
    CHX_RETURN_IF_ERROR(ForEach(args, size, MarkBody{mask, counts}));
    AxisSlices slices;
    slices.size = size;
    CHX_RETURN_IF_ERROR((Scan<kernels::Add, int64_t>(args, slices, counts, counts)));
    CHX_RETURN_IF_ERROR(ForEach(
        args, size, CompressBody{mask, counts, reinterpret_cast<int64_t*>(out.data), out.size()}));
    CHX_RETURN_IF_ERROR(args.stream.CopyOut(&count, counts + size - 1, sizeof(count)));
  }
  if (count == out.size()) return absl::OkStatus();
  return ValueError("[nonzero_positions] expects the number of non-zero elements, ", count,
                    ", got ", out.size());
}

}  // namespace

void RegisterSortingScan(KernelTable& table) {
  table.Set("cumsum", RunScan<kernels::Add>);
  table.Set("cumprod", RunScan<kernels::Multiply>);
  table.Set("nonzero_positions", RunNonzeroPositions);
}

}  // namespace chx::server::cuda
