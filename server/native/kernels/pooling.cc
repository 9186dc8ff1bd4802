// Kernels of ops/defs/pooling.cc: channel by channel, and in each row by row.
#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>

#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/window_args.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/kernels/window_rows.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/loops/pooling_loops.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

using kernels::Compute;
using kernels::Load;
using kernels::Store;
using kernels::Windows;

// The attributes from `first` on: ksize, stride, pad.
Windows WindowsOf(const KernelArgs& args, const Shape& image, const Shape& counts, int first) {
  return Merged(kernels::PoolWindows(args, image, counts, first));
}

// Calls channel(in, index, out, plane) with the dense memory of each channel; index is that of
// input 1, if there is one. A channel's input and output have `in_size` and `out_size` elements.
template <typename Fn>
absl::Status ForChannels(const KernelArgs& args, const Windows& windows, int64_t in_size,
                         int64_t out_size, Fn&& channel) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor in, Contiguous(args, args.in(0), args.in(0).dtype));
  const int64_t* index = nullptr;
  int64_t index_size = 0;
  if (args.inputs.size() > 1) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, args.in(1), Dtype::kInt64));
    index = reinterpret_cast<const int64_t*>(dense.data);
    index_size = windows.count;
  }
  const double work = 1.0 + static_cast<double>(windows.count) * windows.kernel_size + out_size;
  const auto grain = static_cast<int64_t>(std::max(1.0, kGrain / work));
  kernels::VisitFloat(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const from = reinterpret_cast<const T*>(in.data);
    T* const to = reinterpret_cast<T*>(out.data);
    PoolOf(args).ParallelFor(out.size() / out_size, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        channel(from + i * in_size, index + i * index_size, to + i * out_size, i);
      }
    });
  });
  return absl::OkStatus();
}

// Sums that end in `out`: made there, or aside where T is too narrow for that.
template <typename T, typename Fn>
void Sums(T* out, int64_t size, Fn&& add) {
  if constexpr (std::is_same<T, Compute<T>>::value) {
    FillZero(out, size * static_cast<int64_t>(sizeof(T)));
    add(out);
  } else {
    const std::unique_ptr<Compute<T>[]> sums(new Compute<T>[size]());
    add(sums.get());
    InPieces(size, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = Store<T>(sums[i]);
    });
  }
}

// The greatest element of each window (NaN if there is one) and, if `index` is not null, its
// position, -1 where a window lies in the padding altogether.
template <typename T>
void MaxOfEach(const Windows& w, const T* x, T* y, int64_t* index) {
  StopWatch watch;
  for (int64_t o = 0; o < w.count && !watch.After(1); ++o) {
    Compute<T> best = -static_cast<Compute<T>>(HUGE_VALF);
    int64_t best_at = -1;
    ForRuns(w, o, &watch, [&](int64_t at, int64_t n) {
      for (const int64_t end = at + n; at < end; ++at) {
        const Compute<T> value = Load(x[at]);
        const bool chosen = value > best || best_at < 0 || (value != value && best == best);
        best = chosen ? value : best;
        best_at = chosen ? at : best_at;
      }
    });
    y[o] = best_at < 0 ? Store<T>(best) : x[best_at];
    if (index != nullptr) index[o] = best_at;
  }
}

// The same for rows of windows, some elements of all of them at a time.
template <typename T>
void MaxOfRows(const Windows& w, MaxRow<T> compare, const T* x, T* y, int64_t* index) {
  constexpr int64_t kBlock = 256;
  const int inner = w.ndim - 1;
  const Windows outer = WindowsOfRows(w);
  const int64_t stride = w.stride[inner];
  T best[kBlock];
  int32_t at[kBlock];
  StopWatch watch;
  for (int64_t begin = 0; begin < w.count; begin += w.counts[inner]) {
    for (int64_t column = 0; column < w.counts[inner]; column += kBlock) {
      const int64_t n = std::min(kBlock, w.counts[inner] - column);
      std::fill_n(best, n, -static_cast<T>(HUGE_VALF));
      std::fill_n(at, n, -1);
      outer.ForElements(begin / w.counts[inner], [&](int64_t row) {
        for (int64_t k = 0; k < w.kernel[inner]; ++k) {
          if (watch.After(n)) return;
          int64_t first = 0;
          int64_t last = 0;
          ValidCounts(w, inner, k, &first, &last);
          first = std::max(first, column);
          last = std::min(last, column + n);
          if (first >= last) continue;
          const int64_t from = row * w.image[inner] + first * stride - w.pad[inner] + k;
          compare(x + from, stride, last - first, static_cast<int32_t>(from), best + first - column,
                  at + first - column);
        }
      });
      if (watch.After(n)) return;
      std::copy_n(best, n, y + begin + column);
      if (index != nullptr) std::copy_n(at, n, index + begin + column);
    }
  }
}

template <typename T>
void Max(const Windows& w, const T* x, T* y, int64_t* index) {
  if constexpr (std::is_same<T, float>::value || std::is_same<T, double>::value) {
    if (!AreFewAcross(w) && w.image_size <= INT32_MAX) {
      if constexpr (std::is_same<T, float>::value) {
        return MaxOfRows(w, Loops().pooling->max_float, x, y, index);
      } else {
        return MaxOfRows(w, Loops().pooling->max_double, x, y, index);
      }
    }
  }
  MaxOfEach(w, x, y, index);
}

// Of n > 0 neighbours, in independent chains.
template <typename T>
Compute<T> SumOf(const T* x, int64_t n) {
  constexpr int64_t kLanes = 8;
  Compute<T> lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += Load(x[i + l]);
  }
  for (int64_t l = 0; i < n; ++i, ++l) lanes[l] += Load(x[i]);
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  }
  return lanes[0];
}

absl::Status RunMaxPoolIndex(const KernelArgs& args) {
  const Windows w = WindowsOf(args, args.in(0).shape, args.out(0).shape, 0);
  auto* const index = reinterpret_cast<int64_t*>(args.out(1).data);
  return ForChannels(args, w, w.image_size, w.count,
                     [&](const auto* x, const int64_t*, auto* y, int64_t plane) {
                       Max(w, x, y, index + plane * w.count);
                     });
}

absl::Status RunMaxPool(const KernelArgs& args) {
  const Windows w = WindowsOf(args, args.in(0).shape, args.out(0).shape, 0);
  return ForChannels(
      args, w, w.image_size, w.count,
      [&](const auto* x, const int64_t*, auto* y, int64_t) { Max(w, x, y, nullptr); });
}

absl::Status RunPoolGather(const KernelArgs& args) {
  const Windows w = WindowsOf(args, args.in(0).shape, args.out(0).shape, 0);
  return ForChannels(args, w, w.image_size, w.count,
                     [&](const auto* x, const int64_t* index, auto* y, int64_t) {
                       using T = std::decay_t<decltype(*y)>;
                       InPieces(w.count, [&](int64_t begin, int64_t end) {
                         for (int64_t o = begin; o < end; ++o) {
                           const bool inside = index[o] >= 0 && index[o] < w.image_size;
                           y[o] = inside ? x[index[o]] : Store<T>(0);
                         }
                       });
                     });
}

absl::Status RunPoolScatter(const KernelArgs& args) {
  const Windows w = WindowsOf(args, args.out(0).shape, args.in(0).shape, 1);
  return ForChannels(args, w, w.count, w.image_size,
                     [&](const auto* gy, const int64_t* index, auto* x, int64_t) {
                       Sums(x, w.image_size, [&](auto* sums) {
                         InPieces(w.count, [&](int64_t begin, int64_t end) {
                           for (int64_t o = begin; o < end; ++o) {
                             if (index[o] < 0 || index[o] >= w.image_size) continue;
                             sums[index[o]] += Load(gy[o]);
                           }
                         });
                       });
                     });
}

// Calls fn(stride, kernel) with constants where windows are pairs, which compilers then vectorise.
template <typename Fn>
void VisitSpans(int64_t stride, int64_t kernel, Fn fn) {
  using Two = std::integral_constant<int64_t, 2>;
  if (stride == 2 && kernel == 2) return fn(Two(), Two());
  fn(stride, kernel);
}

// Adds the elements of each window to its sum.
template <typename T, typename C>
void AddToWindows(const Windows& w, const T* x, C* sums) {
  const int inner = w.ndim - 1;
  const int64_t stride = w.stride[inner];
  StopWatch watch;
  if (AreFewAcross(w) || !FitInSpan(w)) {
    for (int64_t o = 0; o < w.count && !watch.After(1); ++o) {
      ForRuns(w, o, &watch, [&](int64_t at, int64_t n) { sums[o] += SumOf(x + at, n); });
    }
    return;
  }
  // First the image's rows, which are dense; then neighbours in their sum.
  const Windows rows = WindowsOfRows(w);
  C line[kMaxSpan];
  ForNeighbours(w, &watch, [&](const Neighbours& some) {
    std::fill_n(line, (some.count - 1) * stride + w.kernel[inner], C(0));
    C* const inside = line + some.begin - some.from;
    const int64_t length = some.end - some.begin;
    rows.ForElements(some.row, [&](int64_t row) {
      if (watch.After(length)) return;
      const T* const from = x + row * w.image[inner] + some.begin;
      for (int64_t i = 0; i < length; ++i) inside[i] += Load(from[i]);
    });
    C* const some_sums = sums + some.first;
    VisitSpans(stride, w.kernel[inner], [&](auto step, auto size) {
      for (int64_t o = 0; o < some.count; ++o) {
        C sum = 0;
        for (int64_t k = 0; k < size; ++k) sum += line[o * step + k];
        some_sums[o] += sum;
      }
    });
  });
}

// Adds what each window has, over `divisor`, to all of its elements.
template <typename T, typename C>
void AddToElements(const Windows& w, const T* gy, C divisor, C* sums) {
  const int inner = w.ndim - 1;
  const int64_t stride = w.stride[inner];
  StopWatch watch;
  if (AreFewAcross(w) || !FitInSpan(w)) {
    for (int64_t o = 0; o < w.count && !watch.After(1); ++o) {
      const C g = Load(gy[o]) / divisor;
      ForRuns(w, o, &watch, [&](int64_t at, int64_t n) {
        for (const int64_t end = at + n; at < end; ++at) sums[at] += g;
      });
    }
    return;
  }
  const Windows rows = WindowsOfRows(w);
  C line[kMaxSpan];
  ForNeighbours(w, &watch, [&](const Neighbours& some) {
    std::fill_n(line, (some.count - 1) * stride + w.kernel[inner], C(0));
    const T* const some_gy = gy + some.first;
    VisitSpans(stride, w.kernel[inner], [&](auto step, auto size) {
      for (int64_t o = 0; o < some.count; ++o) {
        const C g = Load(some_gy[o]) / divisor;
        for (int64_t k = 0; k < size; ++k) line[o * step + k] += g;
      }
    });
    const C* const inside = line + some.begin - some.from;
    const int64_t length = some.end - some.begin;
    rows.ForElements(some.row, [&](int64_t row) {
      if (watch.After(length)) return;
      C* const to = sums + row * w.image[inner] + some.begin;
      for (int64_t i = 0; i < length; ++i) to[i] += inside[i];
    });
  });
}

template <typename C>
void Divide(C* sums, int64_t size, double divisor) {
  InPieces(size, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sums[i] /= static_cast<C>(divisor);
  });
}

// out = what each window has, over how many elements it has inside the image. Both may be one.
template <typename T, typename C>
void DivideByInside(const Windows& w, const T* in, C* out) {
  const int inner = w.ndim - 1;
  const int64_t columns = w.counts[inner];
  StopWatch watch;
  for (int64_t row = 0; row < w.count / columns && !watch.After(columns); ++row) {
    const double rows = w.Inside(row, inner);
    InPieces(columns, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const double inside = rows * static_cast<double>(w.InsideAlong(inner, o));
        out[row * columns + o] = Load(in[row * columns + o]) / static_cast<C>(inside);
      }
    });
  }
}

absl::Status RunAveragePool(const KernelArgs& args) {
  const Windows w = WindowsOf(args, args.in(0).shape, args.out(0).shape, 0);
  const double divisor = kernels::PoolDivisor(args, w, 0);
  return ForChannels(args, w, w.image_size, w.count,
                     [&](const auto* x, const int64_t*, auto* y, int64_t) {
                       Sums(y, w.count, [&](auto* sums) {
                         AddToWindows(w, x, sums);
                         if (divisor != 0) {
                           Divide(sums, w.count, divisor);
                         } else {
                           DivideByInside(w, sums, sums);
                         }
                       });
                     });
}

absl::Status RunAveragePoolGrad(const KernelArgs& args) {
  const KernelTensor& gy = args.in(0);
  const Windows w = WindowsOf(args, args.out(0).shape, gy.shape, 1);
  const double divisor = kernels::PoolDivisor(args, w, 1);
  void* quotients = nullptr;  // of all channels
  if (divisor == 0 && gy.size() > 0) {
    const auto item = std::max<int64_t>(sizeof(float), ItemSize(gy.dtype));
    CHX_ASSIGN_OR_RETURN(quotients, args.scratch.Allocate(item * gy.size()));
  }
  return ForChannels(args, w, w.count, w.image_size,
                     [&](const auto* in, const int64_t*, auto* x, int64_t plane) {
                       Sums(x, w.image_size, [&](auto* sums) {
                         using C = std::decay_t<decltype(*sums)>;
                         if (divisor != 0)
                           return AddToElements(w, in, static_cast<C>(divisor), sums);
                         C* const of = static_cast<C*>(quotients) + plane * w.count;
                         DivideByInside(w, in, of);
                         AddToElements(w, of, C(1), sums);
                       });
                     });
}

}  // namespace

void RegisterPooling(KernelTable& table) {
  table.Set("max_pool", RunMaxPool);
  table.Set("max_pool_index", RunMaxPoolIndex);
  table.Set("pool_gather", RunPoolGather);
  table.Set("pool_scatter", RunPoolScatter);
  table.Set("average_pool", RunAveragePool);
  table.Set("average_pool_grad", RunAveragePoolGrad);
}

}  // namespace chx::server::native
