// Kernels of ops/defs/sorting.cc that scan: cumsum and cumprod.
//
// Slices that are long and few are divided into chunks. One launch sums up each chunk, the
// sums are scanned, and another launch scans the chunks. How, depends on the shape and the dtype
// only. Sums have a fixed order and no atomics are used, so results are the same in every run.
#include "server/cuda/kernels/sorting_scan.h"

#include <type_traits>

#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/elementwise.h"
#include "server/cuda/loops/launch.h"
#include "server/cuda/loops/warp_scan.h"
#include "server/kernels/axis.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"

namespace chx::server::cuda {
namespace {

using kernels::AxisSlices;
using kernels::Load;
using kernels::SlicesOf;
using kernels::Store;

// What changes nothing on the left, not even the sign of a zero.
template <typename Fn, typename C>
CHX_HD C Identity() {
  if constexpr (std::is_same<Fn, kernels::Multiply>::value) return C(1);
  return kernels::kIsFloat<C> ? static_cast<C>(-0.0) : C(0);
}

// Along an axis that is not the last one, or is short: a thread goes through each chunk of a slice,
// and neighbouring threads have neighbouring slices.
constexpr int64_t kColumnChunk = 128;

template <typename Fn, typename T>
struct ColumnBody {
  using C = kernels::Compute<T>;
  static constexpr int kAhead = 8;  // loads under way at a time
  const T* in;
  T* out;     // null: only the chunks' totals
  C* totals;  // (before, chunks, after); null if there is one chunk
  int64_t size;
  int64_t length;  // of a chunk
  Divider chunks;
  Divider after;

  CHX_HD void operator()(int64_t i) const {
    const int64_t row = after.Quotient(i);
    const int64_t before = chunks.Quotient(row);
    const int64_t chunk = row - before * chunks.divisor();
    const int64_t step = after.divisor();
    const int64_t begin = chunk * length;
    const int64_t count = size - begin < length ? size - begin : length;
    const int64_t first = (before * size + begin) * step + i - row * step;
    const T* from = in + first;
    const Fn fn;
    C sum = Identity<Fn, C>();
    if (out != nullptr && chunk > 0) sum = totals[i - step];
    int64_t k = 0;
    for (; k + kAhead <= count; k += kAhead) {
      T elements[kAhead];
      CHX_UNROLL
      for (int j = 0; j < kAhead; ++j) elements[j] = from[(k + j) * step];
      CHX_UNROLL
      for (int j = 0; j < kAhead; ++j) {
        sum = fn(sum, static_cast<C>(Load(elements[j])));
        if (out != nullptr) out[first + (k + j) * step] = Store<T>(sum);
      }
    }
    for (; k < count; ++k) {
      sum = fn(sum, static_cast<C>(Load(from[k * step])));
      if (out != nullptr) out[first + k * step] = Store<T>(sum);
    }
    if (out == nullptr) totals[i] = sum;
  }
};

// Along rows: a warp goes through each chunk of one.
template <typename Fn, typename T>
struct RowBody {
  using C = kernels::Compute<T>;
  using Acc = C;
  static constexpr int kPack = sizeof(T) == 1 ? 8 : static_cast<int>(16 / sizeof(T));
  static constexpr int kParts = kPack == 8 ? 2 : 4;
  static constexpr int64_t kStep = int64_t{kParts} * kWarp * kPack;
  struct Lane {
    C sums[kParts][kPack];  // of the elements up to and including each
    C totals[kParts];
  };
  const T* in;
  T* out;     // null: only the chunks' totals
  C* totals;  // (rows, chunks); null if there is one chunk
  int64_t size;
  int64_t length;  // of a chunk
  Divider chunks;
  bool packed;  // all rows are aligned to packs

  struct Range {
    int64_t begin;
    int64_t end;
  };
  CHX_HD Range RangeOf(int64_t task) const {
    const int64_t row = chunks.Quotient(task);
    const int64_t begin = (task - row * chunks.divisor()) * length;
    return {row * size + begin, row * size + (size - begin < length ? size : begin + length)};
  }
  CHX_HD static int64_t FirstOf(int64_t step, int part, int lane) {
    return step * kStep + (int64_t{part} * kWarp + lane) * kPack;
  }

  CHX_HD static C Combine(C earlier, C later) { return Fn()(earlier, later); }
  CHX_HD int64_t Steps(int64_t task) const {
    const Range range = RangeOf(task);
    return (range.end - range.begin + kStep - 1) / kStep;
  }
  CHX_HD C Before(int64_t task) const {
    const bool first = task == chunks.Quotient(task) * chunks.divisor();
    return out == nullptr || first ? Identity<Fn, C>() : totals[task - 1];
  }
  CHX_HD Lane Load(int64_t task, int64_t step, int lane) const {
    const Range range = RangeOf(task);
    Pack<T, kPack> packs[kParts];
    int counts[kParts];
    CHX_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const int64_t at = range.begin + FirstOf(step, part, lane);
      const int64_t left = range.end - at;
      counts[part] = left >= kPack ? kPack : left > 0 ? static_cast<int>(left) : 0;
      if (packed && counts[part] == kPack) {
        packs[part] = *reinterpret_cast<const Pack<T, kPack>*>(in + at);
      } else {
        CHX_UNROLL
        for (int j = 0; j < kPack; ++j) {
          if (j < counts[part]) packs[part].elements[j] = in[at + j];
        }
      }
    }
    Lane kept;
    CHX_UNROLL
    for (int part = 0; part < kParts; ++part) {
      C sum = Identity<Fn, C>();
      CHX_UNROLL
      for (int j = 0; j < kPack; ++j) {
        if (j < counts[part]) sum = Combine(sum, kernels::Load(packs[part].elements[j]));
        kept.sums[part][j] = sum;
      }
      kept.totals[part] = sum;
    }
    return kept;
  }
  CHX_HD void Finish(int64_t task, int64_t step, int lane, const Lane& kept,
                     const C (&before)[kParts]) const {
    if (out == nullptr) return;
    const Range range = RangeOf(task);
    CHX_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const int64_t at = range.begin + FirstOf(step, part, lane);
      Pack<T, kPack> pack;
      CHX_UNROLL
      for (int j = 0; j < kPack; ++j) {
        pack.elements[j] = Store<T>(Combine(before[part], kept.sums[part][j]));
      }
      if (packed && range.end - at >= kPack) {
        *reinterpret_cast<Pack<T, kPack>*>(out + at) = pack;
      } else {
        CHX_UNROLL
        for (int j = 0; j < kPack; ++j) {
          if (at + j < range.end) out[at + j] = pack.elements[j];
        }
      }
    }
  }
  CHX_HD void End(int64_t task, C total) const {
    if (out == nullptr) totals[task] = total;
  }
};

template <typename T>
bool AlignedTo(const T* data, size_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

// `in` and `out` are dense, and may be the same.
template <typename Fn, typename T>
absl::Status Scan(const KernelArgs& args, const AxisSlices& slices, const T* in, T* out) {
  using C = kernels::Compute<T>;
  using Rows = RowBody<Fn, T>;
  const bool by_rows = slices.after == 1 && slices.size > kWarp;
  const int64_t chunk = by_rows ? 4 * Rows::kStep : kColumnChunk;
  // These, undivided, have enough loads under way for any GPU.
  const bool many = slices.count() >= (by_rows ? 2048 : 65536);
  const bool divided = !many && slices.size > 2 * chunk;
  const int64_t length = divided ? chunk : slices.size;
  const int64_t chunks = (slices.size + length - 1) / length;
  const int64_t tasks = slices.count() * chunks;
  C* totals = nullptr;
  if (divided) {
    CHX_ASSIGN_OR_RETURN(totals, NewScratch<C>(args, tasks));
  }
  const auto scan = [&](T* to) {
    if (!by_rows) {
      return ForEach(args, tasks,
                     ColumnBody<Fn, T>{in, to, totals, slices.size, length, Divider(chunks, tasks),
                                       Divider(slices.after, tasks)},
                     length);
    }
    constexpr size_t kBytes = sizeof(Pack<T, Rows::kPack>);
    const bool packed =
        slices.size % Rows::kPack == 0 && AlignedTo(in, kBytes) && AlignedTo(to, kBytes);
    return ForEachWarp(args, tasks,
                       Rows{in, to, totals, slices.size, length, Divider(chunks, tasks), packed},
                       length);
  };
  if (divided) {
    CHX_RETURN_IF_ERROR(scan(nullptr));
    const AxisSlices upper{slices.before, chunks, slices.after};
    CHX_RETURN_IF_ERROR((Scan<Fn, C>(args, upper, totals, totals)));
  }
  return scan(out);
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

}  // namespace

absl::Status ScanSums(const KernelArgs& args, int64_t size, int64_t* sums) {
  return Scan<kernels::Add, int64_t>(args, AxisSlices{1, size, 1}, sums, sums);
}

void RegisterSortingScan(KernelTable& table) {
  table.Set("cumsum", RunScan<kernels::Add>);
  table.Set("cumprod", RunScan<kernels::Multiply>);
}

}  // namespace chx::server::cuda
