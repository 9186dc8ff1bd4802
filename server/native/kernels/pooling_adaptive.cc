// Kernel of ops/defs/pooling_adaptive.cc: window by window.
#include <algorithm>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

using kernels::Compute;
using kernels::Load;

// The windows along one dimension.
struct Axis {
  int64_t size;
  std::vector<int64_t> begin;
  std::vector<int64_t> end;

  Axis(int64_t size_along, int64_t windows) : size(size_along), begin(windows), end(windows) {
    for (int64_t i = 0; i < windows; ++i) {
      begin[i] = i * size / windows;
      end[i] = ((i + 1) * size + windows - 1) / windows;
    }
  }
  int64_t windows() const { return static_cast<int64_t>(begin.size()); }
};
using Axes = absl::InlinedVector<Axis, 3>;

// The first greatest element of a window, or the first NaN.
template <typename T>
struct Chosen {
  const T* x;
  int64_t at;
  Compute<T> value;

  Chosen(const T* image, int64_t first) : x(image), at(first), value(Load(image[first])) {}
  void Add(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Compute<T> next = Load(x[i]);
      if (next > value || (next != next && value == value)) {
        value = next;
        at = i;
      }
    }
  }
};

// The position in one image of what is chosen from each of its windows, plus `offset`.
template <typename T>
void ChooseAll(const Axes& axes, const T* x, int64_t offset, StopWatch* watch, int64_t* index) {
  const int inner = static_cast<int>(axes.size()) - 1;
  absl::InlinedVector<int64_t, 3> window(axes.size(), 0);
  absl::InlinedVector<int64_t, 3> at(axes.size(), 0);
  while (true) {
    for (int d = 0; d <= inner; ++d) at[d] = axes[d].begin[window[d]];
    const auto row = [&] {
      int64_t position = 0;
      for (int d = 0; d < inner; ++d) position = (position + at[d]) * axes[d + 1].size;
      return position;
    };
    const int64_t first = axes[inner].begin[window[inner]];
    const int64_t last = axes[inner].end[window[inner]];
    Chosen<T> chosen(x, row() + first);
    while (true) {
      if (watch->After(last - first)) return;
      chosen.Add(row() + first, row() + last);
      int d = inner - 1;
      while (d >= 0 && ++at[d] == axes[d].end[window[d]]) {
        at[d] = axes[d].begin[window[d]];
        --d;
      }
      if (d < 0) break;
    }
    *index++ = offset + chosen.at;
    int d = inner;
    while (d >= 0 && ++window[d] == axes[d].windows()) window[d--] = 0;
    if (d < 0) return;
  }
}

// x (N, C, ...); output_size.
absl::Status RunAdaptiveMaxIndex(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), args.in(0).dtype));
  Axes axes;
  int64_t image = 1;
  int64_t windows = 1;
  for (int d = 2; d < x.ndim(); ++d) {
    axes.emplace_back(x.shape[d], out.shape[d]);
    image *= x.shape[d];
    windows *= out.shape[d];
  }
  const int64_t grain = std::max<int64_t>(1, kGrain / (image + windows));
  kernels::VisitFloat(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const data = reinterpret_cast<const T*>(x.data);
    int64_t* const index = reinterpret_cast<int64_t*>(out.data);
    PoolOf(args).ParallelFor(x.shape[0] * x.shape[1], grain, [&](int64_t begin, int64_t end) {
      StopWatch watch;
      for (int64_t plane = begin; plane < end && !watch.After(1); ++plane) {
        ChooseAll(axes, data + plane * image, plane * image, &watch, index + plane * windows);
      }
    });
  });
  return absl::OkStatus();
}

}  // namespace

void RegisterPoolingAdaptive(KernelTable& table) {
  table.Set("adaptive_max_index", RunAdaptiveMaxIndex);
}

}  // namespace chx::server::native
