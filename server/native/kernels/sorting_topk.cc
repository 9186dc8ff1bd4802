// The kernel of topk (ops/defs/sorting_topk.cc): one pass over each row, which keeps what is better
// than the k-th best so far.
#include <algorithm>
#include <cstdint>

#include "server/kernels/axis.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/ordering.h"
#include "server/native/kernels/bounded_sort.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

using kernels::AxisSlices;
using kernels::Load;

// Elements that are compared with the k-th best at once.
constexpr int64_t kBlock = 32;

template <typename C>
struct Candidate {
  C value;
  int64_t index;
};

// Whether x comes before y. Without branches, so that a block of comparisons is vectorised.
template <bool kLargest, typename C>
bool IsBetter(C x, C y) {
  const C& a = kLargest ? y : x;
  const C& b = kLargest ? x : y;
  return static_cast<bool>(static_cast<int>(a < b) |
                           (static_cast<int>(b != b) & static_cast<int>(a == a)));
}

template <bool kLargest>
struct BetterCandidate {
  template <typename C>
  bool operator()(const Candidate<C>& x, const Candidate<C>& y) const {
    if (IsBetter<kLargest>(x.value, y.value)) return true;
    return !IsBetter<kLargest>(y.value, x.value) && x.index < y.index;
  }
};

// Up to so many are kept in order, which takes a few steps for each new one.
constexpr int64_t kFew = 32;

// Candidates of one row. Of 2k, the better half is selected, which takes a few steps for each.
int64_t Capacity(int64_t size, int64_t k) { return k <= kFew ? k : std::min(size, 2 * k) + kBlock; }

template <bool kLargest, typename T>
bool AnyIsBetter(const T* block, kernels::Compute<T> worst) {
  int hits = 0;
  for (int64_t i = 0; i < kBlock; ++i) {
    hits += static_cast<int>(IsBetter<kLargest>(Load(block[i]), worst));
  }
  return hits > 0;
}

// Puts x, which comes after all, into its place among `count` ones in order; the last one goes if
// there are k already.
template <bool kLargest, typename C>
void Insert(Candidate<C> x, int64_t k, Candidate<C>* best, int64_t* count) {
  int64_t place = *count < k ? (*count)++ : k - 1;
  for (; place > 0 && IsBetter<kLargest>(x.value, best[place - 1].value); --place) {
    best[place] = best[place - 1];
  }
  best[place] = x;
}

// The k best of a row, in order, at the front of `best`; 0 < k <= size. False if the command is to
// stop. Of equal elements, later ones are no better than the worst.
template <bool kLargest, typename T>
bool SelectFew(const T* row, int64_t size, int64_t k, Candidate<kernels::Compute<T>>* best) {
  int64_t count = 0;
  StopWatch watch;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    if (watch.After(kBlock)) return false;
    const int64_t end = std::min(size, begin + kBlock);
    const bool full = count == k && end - begin == kBlock;
    if (full && !AnyIsBetter<kLargest>(row + begin, best[k - 1].value)) continue;
    for (int64_t i = begin; i < end; ++i) {
      const auto value = Load(row[i]);
      if (count == k && !IsBetter<kLargest>(value, best[k - 1].value)) continue;
      Insert<kLargest>({value, i}, k, best, &count);
    }
  }
  return true;
}

// The same, for any k.
template <bool kLargest, typename T>
bool SelectMany(const T* row, int64_t size, int64_t k, Candidate<kernels::Compute<T>>* best) {
  const BetterCandidate<kLargest> better;
  const int64_t capacity = Capacity(size, k);
  int64_t count = 0;
  bool full = false;
  kernels::Compute<T> worst{};
  StopWatch watch;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    if (watch.After(kBlock)) return false;
    const int64_t end = std::min(size, begin + kBlock);
    if (full && end - begin == kBlock && !AnyIsBetter<kLargest>(row + begin, worst)) continue;
    if (count + end - begin > capacity) {
      BoundedSelect(best, count, k, better);
      if (StopRequested()) return false;
      count = k;
      worst = best[k - 1].value;
      full = true;
    }
    for (int64_t i = begin; i < end; ++i) {
      best[count] = {Load(row[i]), i};
      count += static_cast<int64_t>(!full || IsBetter<kLargest>(best[count].value, worst));
    }
  }
  if (count > k) BoundedSelect(best, count, k, better);
  BoundedSort(best, k, better);
  return !StopRequested();
}

// The axis as the last one.
KernelTensor AxisLast(const KernelTensor& a, int axis) {
  KernelTensor moved = a;
  moved.shape = Shape();
  moved.strides = Strides();
  for (int i = 0; i < a.ndim(); ++i) {
    const int d = i == a.ndim() - 1 ? axis : i + static_cast<int>(i >= axis);
    moved.shape.push_back(a.shape[d]);
    moved.strides.push_back(a.strides[d]);
  }
  return moved;
}

template <bool kLargest>
absl::Status Run(const KernelArgs& args, int axis) {
  const KernelTensor& values = args.out(0);
  const KernelTensor& indices = args.out(1);
  const int64_t size = args.in(0).shape[axis];
  const AxisSlices out = kernels::SlicesAlong(values.shape, axis);
  CHX_ASSIGN_OR_RETURN(const KernelTensor a,
                       Contiguous(args, AxisLast(args.in(0), axis), values.dtype));
  // As many parts as need not wait for each other: each has memory of its own.
  const int64_t rows = out.count();
  const int64_t parts = std::clamp<int64_t>(rows * size / kGrain, 1,
                                            std::min<int64_t>(rows, 4 * PoolOf(args).threads()));
  return kernels::VisitDtype(values.dtype, [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::Type;
    using Entry = Candidate<kernels::Compute<T>>;
    const int64_t capacity = Capacity(size, out.size);
    CHX_ASSIGN_OR_RETURN(
        void* const scratch,
        args.scratch.Allocate(static_cast<size_t>(parts * capacity) * sizeof(Entry)));
    const T* const in = reinterpret_cast<const T*>(a.data);
    T* const to = reinterpret_cast<T*>(values.data);
    int64_t* const places = reinterpret_cast<int64_t*>(indices.data);
    PoolOf(args).ParallelFor(parts, 1, [&](int64_t first, int64_t last) {
      Entry* const best = static_cast<Entry*>(scratch) + first * capacity;
      for (int64_t row = rows * first / parts; row < rows * last / parts; ++row) {
        const auto select = out.size <= kFew ? SelectFew<kLargest, T> : SelectMany<kLargest, T>;
        if (!select(in + row * size, size, out.size, best)) return;
        const int64_t start = out.First(row);
        for (int64_t i = 0; i < out.size; ++i) {
          to[start + i * out.after] = in[row * size + best[i].index];
          places[start + i * out.after] = best[i].index;
        }
      }
    });
    return absl::OkStatus();
  });
}

// a; k, axis, largest.
absl::Status RunTopk(const KernelArgs& args) {
  if (args.out(0).size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(
      const int axis, rules::NormalizeAxis(args.op.name, args.attrs[1].AsInt(), args.in(0).ndim()));
  return args.attrs[2].AsBool() ? Run<true>(args, axis) : Run<false>(args, axis);
}

}  // namespace

void RegisterSortingTopk(KernelTable& table) { table.Set("topk", RunTopk); }

}  // namespace chx::server::native
