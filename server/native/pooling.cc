// Kernels of ops/defs/pooling.cc: channel by channel, and in each row by row.
#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>

#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/windows.h"
#include "server/native/device.h"
#include "server/native/groups.h"
#include "server/native/nest.h"
#include "server/native/scratch.h"
#include "server/native/window_rows.h"

namespace chx::native {
namespace {

using kernels::Compute;
using kernels::Load;
using kernels::Store;
using kernels::Windows;

// The attributes from `first` on: ksize, stride, pad.
Windows WindowsOf(const KernelArgs& args, const Shape& image, const Shape& counts, int first) {
  const Ints& ksize = args.attrs[first].ints();
  const AttrValue& stride = args.attrs[first + 1];
  return kernels::MakeWindows(image, counts, ksize, stride.has_value() ? stride.ints() : ksize,
                              args.attrs[first + 2].ints());
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
    std::fill(out, out + size, T(0));
    add(out);
  } else {
    const std::unique_ptr<Compute<T>[]> sums(new Compute<T>[size]());
    add(sums.get());
    for (int64_t i = 0; i < size; ++i) out[i] = Store<T>(sums[i]);
  }
}

// The greatest element of each window (NaN if there is one) and its position, -1 where a window
// lies in the padding altogether.
template <typename T>
void Max(const Windows& w, const T* x, T* y, int64_t* index) {
  std::fill(y, y + w.count, Store<T>(-static_cast<Compute<T>>(HUGE_VALF)));
  std::fill(index, index + w.count, int64_t{-1});
  const int64_t stride = w.stride[w.ndim - 1];
  for (int64_t k = 0; k < w.kernel_size; ++k) {
    ForRows(w, k, [&](int64_t o, int64_t at, int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i, at += stride) {
        const Compute<T> value = Load(x[at]);
        const Compute<T> best = Load(y[o + i]);
        const bool chosen = value > best || index[o + i] < 0 || (value != value && best == best);
        y[o + i] = chosen ? x[at] : y[o + i];
        index[o + i] = chosen ? at : index[o + i];
      }
    });
  }
}

absl::Status RunMaxPoolIndex(const KernelArgs& args) {
  const Windows w = WindowsOf(args, args.in(0).shape, args.out(0).shape, 0);
  auto* const index = reinterpret_cast<int64_t*>(args.out(1).data);
  return ForChannels(args, w, w.image_size, w.count,
                     [&](const auto* x, const int64_t*, auto* y, int64_t plane) {
                       Max(w, x, y, index + plane * w.count);
                     });
}

absl::Status RunPoolGather(const KernelArgs& args) {
  const Windows w = WindowsOf(args, args.in(0).shape, args.out(0).shape, 0);
  return ForChannels(args, w, w.image_size, w.count,
                     [&](const auto* x, const int64_t* index, auto* y, int64_t) {
                       using T = std::decay_t<decltype(*y)>;
                       for (int64_t o = 0; o < w.count; ++o) {
                         const bool inside = index[o] >= 0 && index[o] < w.image_size;
                         y[o] = inside ? x[index[o]] : Store<T>(0);
                       }
                     });
}

absl::Status RunPoolScatter(const KernelArgs& args) {
  const Windows w = WindowsOf(args, args.out(0).shape, args.in(0).shape, 1);
  return ForChannels(args, w, w.count, w.image_size,
                     [&](const auto* gy, const int64_t* index, auto* x, int64_t) {
                       Sums(x, w.image_size, [&](auto* sums) {
                         for (int64_t o = 0; o < w.count; ++o) {
                           if (index[o] < 0 || index[o] >= w.image_size) continue;
                           sums[index[o]] += Load(gy[o]);
                         }
                       });
                     });
}

absl::Status RunPoolSum(const KernelArgs& args) {
  const Windows w = WindowsOf(args, args.in(0).shape, args.out(0).shape, 0);
  const int64_t stride = w.stride[w.ndim - 1];
  return ForChannels(args, w, w.image_size, w.count,
                     [&](const auto* x, const int64_t*, auto* y, int64_t) {
                       Sums(y, w.count, [&](auto* sums) {
                         for (int64_t k = 0; k < w.kernel_size; ++k) {
                           ForRows(w, k, [&](int64_t o, int64_t at, int64_t first, int64_t last) {
                             for (int64_t i = first; i < last; ++i, at += stride)
                               sums[o + i] += Load(x[at]);
                           });
                         }
                       });
                     });
}

absl::Status RunPoolSpread(const KernelArgs& args) {
  const Windows w = WindowsOf(args, args.out(0).shape, args.in(0).shape, 1);
  const int64_t stride = w.stride[w.ndim - 1];
  return ForChannels(args, w, w.count, w.image_size,
                     [&](const auto* gy, const int64_t*, auto* x, int64_t) {
                       Sums(x, w.image_size, [&](auto* sums) {
                         for (int64_t k = 0; k < w.kernel_size; ++k) {
                           ForRows(w, k, [&](int64_t o, int64_t at, int64_t first, int64_t last) {
                             for (int64_t i = first; i < last; ++i, at += stride)
                               sums[at] += Load(gy[o + i]);
                           });
                         }
                       });
                     });
}

}  // namespace

void RegisterPooling(KernelTable& table) {
  table.Set("max_pool_index", RunMaxPoolIndex);
  table.Set("pool_gather", RunPoolGather);
  table.Set("pool_scatter", RunPoolScatter);
  table.Set("pool_sum", RunPoolSum);
  table.Set("pool_spread", RunPoolSpread);
}

}  // namespace chx::native
