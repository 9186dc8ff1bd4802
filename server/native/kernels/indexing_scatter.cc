// Kernels of ops/defs/indexing_scatter.cc. Each element of a result is reduced by one thread, in
// the order of the indices.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "ops/inference_rules.h"
#include "server/engine/stop_token.h"
#include "server/kernels/axis.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/native/kernels/index_bounds.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

using kernels::Compute;
using kernels::Load;
using kernels::Store;

// Numbered as the values of scatter_reduce's attribute.
enum Reduction : int64_t { kSum = 0, kProd = 1, kMean = 2, kMax = 3, kMin = 4 };

// Dense int64 indices in [0, size).
absl::StatusOr<const int64_t*> CheckedIndices(const KernelArgs& args, const KernelTensor& indices,
                                              int64_t size) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, indices, Dtype::kInt64));
  const int64_t* const data = reinterpret_cast<const int64_t*>(dense.data);
  absl::Status status;
  InPieces(indices.size(), [&](int64_t begin, int64_t end) {
    if (!status.ok() || InBounds(data + begin, end - begin, size)) return;
    const auto* const bad =
        std::find_if(data + begin, data + end, [size](int64_t i) { return i < 0 || i >= size; });
    status = kernels::BadIndexError(args.op.name, *bad, size);
  });
  CHX_RETURN_IF_ERROR(status);
  CHX_RETURN_IF_ERROR(CheckNotStopped(args.op.name));  // otherwise not all have been looked at
  return data;
}

// The result of no elements.
template <typename T>
Compute<T> Identity(Reduction reduction) {
  using C = Compute<T>;
  using Limits = std::numeric_limits<C>;
  if (reduction == kProd) return C(1);
  const bool low = reduction == kMax;
  if constexpr (std::is_floating_point<C>::value)
    return low ? -Limits::infinity() : Limits::infinity();
  return low ? Limits::lowest() : Limits::max();
}

template <typename T>
void Fill(ThreadPool& pool, T value, int64_t n, T* out) {
  pool.ParallelFor(n, kGrain, [=](int64_t begin, int64_t end) {
    InPieces(end - begin, [=](int64_t first, int64_t last) {
      std::fill(out + begin + first, out + begin + last, value);
    });
  });
}

// y[id] = fn(y[id], row) for rows of `width` elements whose ids are in [first, first + count).
template <typename T, typename Fn>
void ReduceRows(const T* x, const int64_t* ids, int64_t n, int64_t width, int64_t first,
                int64_t count, T* y) {
  const Fn fn;
  // Longer rows by the vectorised loop.
  constexpr int64_t kShort = 8;
  const Loop loop = Loops().arithmetic[kernels::kFnIndex<Fn, kernels::BinaryArithmeticFns>]
                                      [static_cast<int>(kernels::kDtypeOf<T>)];
  constexpr int64_t kItem = sizeof(T);
  const int64_t strides[3] = {kItem, kItem, kItem};
  StopWatch watch;
  for (int64_t i = 0; i < n && !watch.After(1); ++i) {
    if (static_cast<uint64_t>(ids[i] - first) >= static_cast<uint64_t>(count)) continue;
    const T* const row = x + i * width;
    T* const to = y + ids[i] * width;
    if (width < kShort) {
      for (int64_t j = 0; j < width; ++j) to[j] = Store<T>(fn(Load(to[j]), Load(row[j])));
      continue;
    }
    InPieces(width, [&](int64_t begin, int64_t end) {
      char* const target = reinterpret_cast<char*>(to + begin);
      char* const data[3] = {target, target,
                             const_cast<char*>(reinterpret_cast<const char*>(row + begin))};
      loop(data, strides, end - begin);
    });
    watch.After(width);
  }
}

// x (n, ...), ids (n,). Threads share the segments.
template <typename Fn, Reduction reduction>
absl::Status RunSegments(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  const int64_t segments = out.shape[0];
  CHX_ASSIGN_OR_RETURN(const int64_t* const ids, CheckedIndices(args, args.in(1), segments));
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
  ThreadPool& pool = PoolOf(args);
  const int64_t n = x.shape[0];
  const int64_t width = out.size() / segments;
  const int64_t parts = std::min<int64_t>(x.size() < 4 * kGrain ? 1 : pool.threads(), segments);
  kernels::VisitDtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (!std::is_same<T, kernels::Bool>::value) {
      T* const y = reinterpret_cast<T*>(out.data);
      const T* const rows = reinterpret_cast<const T*>(x.data);
      Fill(pool, Store<T>(Identity<T>(reduction)), out.size(), y);
      pool.ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part) {
          const int64_t first = segments * part / parts;
          const int64_t last = segments * (part + 1) / parts;
          ReduceRows<T, Fn>(rows, ids, n, width, first, last - first, y);
        }
      });
    }
  });
  return absl::OkStatus();
}

// The slices of source along the axis, which go to slices of x that have no other source.
// Neighbours in the last dimension are done together.
class Slices {
 public:
  static constexpr int64_t kTogether = 64;

  Slices(const Shape& x, const Shape& source, int axis) : x_(x), source_(source), axis_(axis) {
    inner_ = axis == x.size() - 1 ? -1 : x.size() - 1;
    columns_ = inner_ < 0 ? 1 : source[inner_];
    chunks_ = (columns_ + kTogether - 1) / kTogether;
    for (int d = 0; d < x.size(); ++d) {
      if (d != axis && d != inner_) outer_ *= source[d];
    }
    for (int d = axis + 1; d < x.size(); ++d) {
      x_step_ *= x[d];
      source_step_ *= source[d];
    }
  }

  int64_t tasks() const { return outer_ * chunks_; }
  int64_t length() const { return source_[axis_]; }
  int64_t work() const { return length() * std::min(columns_, kTogether); }

  // Calls fn(element of x, element of source) for all of a task, in the order of the axis.
  template <typename Fn>
  void ForElements(int64_t task, const int64_t* indices, StopWatch* watch, Fn&& fn) const {
    const int64_t first = task % chunks_ * kTogether;
    const int64_t width = std::min(kTogether, columns_ - first);
    int64_t rest = task / chunks_;
    int64_t to = first;
    int64_t from = first;
    int64_t x_scale = 1;
    int64_t source_scale = 1;
    for (int d = x_.size() - 1; d >= 0; --d) {
      if (d != axis_ && d != inner_) {
        to += rest % source_[d] * x_scale;
        from += rest % source_[d] * source_scale;
        rest /= source_[d];
      }
      x_scale *= x_[d];
      source_scale *= source_[d];
    }
    for (int64_t j = 0; j < length(); ++j) {
      if (watch->After(width)) return;
      const int64_t row = from + j * source_step_;
      for (int64_t i = 0; i < width; ++i) fn(to + indices[row + i] * x_step_ + i, row + i);
    }
  }

 private:
  const Shape& x_;
  const Shape& source_;
  const int axis_;
  int inner_;  // the last dimension, unless that is the axis: -1
  int64_t columns_;
  int64_t chunks_;
  int64_t outer_ = 1;
  int64_t x_step_ = 1;
  int64_t source_step_ = 1;
};

// out = x, with the elements of source at indices reduced. counts, unless it is null: how many each
// element of out has got; without `self`, the first of them takes the place of x's.
template <typename T, typename Fn>
void Scatter(ThreadPool& pool, const Slices& slices, const int64_t* indices, const T* source,
             bool self, int64_t* counts, T* out) {
  const Fn fn;
  const int64_t grain = std::max<int64_t>(1, kGrain / 4 / std::max<int64_t>(1, slices.work()));
  pool.ParallelFor(slices.tasks(), grain, [&](int64_t begin, int64_t end) {
    StopWatch watch;
    for (int64_t task = begin; task < end && !watch.After(1); ++task) {
      if (counts == nullptr) {
        slices.ForElements(task, indices, &watch, [&](int64_t to, int64_t from) {
          out[to] = Store<T>(fn(Load(out[to]), Load(source[from])));
        });
      } else {
        slices.ForElements(task, indices, &watch, [&](int64_t to, int64_t from) {
          const bool replaces = !self && counts[to] == 0;
          out[to] = replaces ? source[from] : Store<T>(fn(Load(out[to]), Load(source[from])));
          ++counts[to];
        });
      }
    }
  });
}

// Sums of `counts` elements, and x's own if `self`, become means where there are any.
template <typename T>
void Divide(ThreadPool& pool, const int64_t* counts, bool self, int64_t n, T* out) {
  pool.ParallelFor(n, kGrain, [=](int64_t begin, int64_t end) {
    InPieces(end - begin, [=](int64_t first, int64_t last) {
      for (int64_t i = begin + first; i < begin + last; ++i) {
        if (counts[i] == 0) continue;
        out[i] = Store<T>(Load(out[i]) / static_cast<Compute<T>>(counts[i] + (self ? 1 : 0)));
      }
    });
  });
}

// x, indices, source; axis, reduce, include_self.
absl::Status RunScatterReduce(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  const auto reduction = static_cast<Reduction>(args.attrs[1].AsInt());
  const bool self = args.attrs[2].AsBool();
  // Sums of narrow floats are rounded once.
  const bool rounds = reduction != kMax && reduction != kMin;
  if (IsNarrowFloat(out.dtype) && rounds) return absl::UnimplementedError("");
  CHX_ASSIGN_OR_RETURN(const int axis,
                       rules::NormalizeAxis(args.op.name, args.attrs[0].AsInt(), out.ndim()));
  CHX_ASSIGN_OR_RETURN(const int64_t* const indices,
                       CheckedIndices(args, args.in(1), out.shape[axis]));
  if (out.size() == 0) return absl::OkStatus();
  ThreadPool& pool = PoolOf(args);
  const int dtype = static_cast<int>(out.dtype);
  RunUnary(pool, args.in(0), out, Loops().cast[dtype][dtype]);
  if (args.in(1).size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor source, Contiguous(args, args.in(2), out.dtype));
  int64_t* counts = nullptr;
  if (!self || reduction == kMean) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor made, NewTensor(args, Dtype::kInt64, out.shape));
    counts = reinterpret_cast<int64_t*>(made.data);
    Fill(pool, int64_t{0}, out.size(), counts);
  }
  const Slices slices(out.shape, source.shape, axis);
  kernels::VisitDtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (!std::is_same<T, kernels::Bool>::value) {
      const T* const from = reinterpret_cast<const T*>(source.data);
      T* const to = reinterpret_cast<T*>(out.data);
      switch (reduction) {
        case kSum:
        case kMean:
          Scatter<T, kernels::Add>(pool, slices, indices, from, self, counts, to);
          break;
        case kProd:
          Scatter<T, kernels::Multiply>(pool, slices, indices, from, self, counts, to);
          break;
        case kMax:
          Scatter<T, kernels::Maximum>(pool, slices, indices, from, self, counts, to);
          break;
        case kMin:
          Scatter<T, kernels::Minimum>(pool, slices, indices, from, self, counts, to);
          break;
      }
      if (reduction == kMean) Divide(pool, counts, self, out.size(), to);
    }
  });
  return absl::OkStatus();
}

}  // namespace

void RegisterIndexingScatter(KernelTable& table) {
  table.Set("scatter_reduce", RunScatterReduce);
  table.Set("segment_max", RunSegments<kernels::Maximum, kMax>);
  table.Set("segment_min", RunSegments<kernels::Minimum, kMin>);
  table.Set("segment_prod", RunSegments<kernels::Multiply, kProd>);
}

}  // namespace chx::server::native
