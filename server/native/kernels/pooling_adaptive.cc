// Kernel of ops/defs/pooling_adaptive.cc.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/native/kernels/register_kernels.h"
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
      // A branch that is seldom taken: the next element need not wait for this one.
      if (__builtin_expect(!(next <= value), 0) && value == value) {
        value = next;
        at = i;
      }
    }
  }
};

// Windows of all axes, in C order, and in each the rows of the image that it has.
class Walk {
 public:
  explicit Walk(const Axes& axes) : axes_(axes), window_(axes.size(), 0), at_(axes.size(), 0) {}

  int64_t begin() const { return axes_[inner()].begin[window_[inner()]]; }
  int64_t end() const { return axes_[inner()].end[window_[inner()]]; }
  // Calls row(position of the row's first element) for each.
  template <typename Row>
  void ForRows(Row&& row) {
    for (int d = 0; d < inner(); ++d) at_[d] = axes_[d].begin[window_[d]];
    int d = 0;
    while (d >= 0) {
      int64_t position = 0;
      for (int i = 0; i < inner(); ++i) position = (position + at_[i]) * axes_[i + 1].size;
      row(position);
      d = inner() - 1;
      while (d >= 0 && ++at_[d] == axes_[d].end[window_[d]]) {
        at_[d] = axes_[d].begin[window_[d]];
        --d;
      }
    }
  }
  // To the next window; `whole_row`: to the next row of windows. False at the end.
  bool Next(bool whole_row) {
    int d = inner() - static_cast<int>(whole_row);
    while (d >= 0 && ++window_[d] == axes_[d].windows()) window_[d--] = 0;
    return d >= 0;
  }

 private:
  int inner() const { return static_cast<int>(axes_.size()) - 1; }

  const Axes& axes_;
  absl::InlinedVector<int64_t, 3> window_;
  absl::InlinedVector<int64_t, 3> at_;
};

// The position in one image of what is chosen from each of its windows, plus `offset`.
template <typename T>
void ChooseEach(const Axes& axes, const T* x, int64_t offset, StopWatch* watch, int64_t* index) {
  Walk walk(axes);
  do {
    int64_t first = -1;
    walk.ForRows([&](int64_t row) { first = first < 0 ? row + walk.begin() : first; });
    Chosen<T> chosen(x, first);
    walk.ForRows([&](int64_t row) {
      if (!watch->After(walk.end() - walk.begin())) {
        chosen.Add(row + walk.begin(), row + walk.end());
      }
    });
    *index++ = offset + chosen.at;
  } while (!watch->After(1) && walk.Next(false));
}

// The same for images with rows of at most kMaxWidth elements: first the best of each column.
constexpr int64_t kMaxWidth = 1024;
template <typename T>
void ChooseOfColumns(const Axes& axes, MaxRow<T> compare, const T* x, int64_t offset,
                     StopWatch* watch, int64_t* index) {
  const Axis& columns = axes.back();
  T best[kMaxWidth];
  int32_t at[kMaxWidth];
  Walk walk(axes);
  do {
    std::fill_n(best, columns.size, T(0));
    std::fill_n(at, columns.size, -1);
    walk.ForRows([&](int64_t row) {
      if (watch->After(columns.size)) return;
      compare(x + row, 1, columns.size, static_cast<int32_t>(row), best, at);
    });
    if (watch->After(columns.size)) return;
    for (int64_t w = 0; w < columns.windows(); ++w) {
      int64_t chosen = columns.begin[w];
      for (int64_t i = chosen + 1; i < columns.end[w]; ++i) {
        const bool nan = best[chosen] != best[chosen];
        const bool same = nan ? best[i] != best[i] : best[i] == best[chosen];
        const bool better = !nan && !(best[i] <= best[chosen]);
        if (better || (same && at[i] < at[chosen])) chosen = i;
      }
      *index++ = offset + at[chosen];
    }
  } while (walk.Next(true));
}

template <typename T>
void ChooseAll(const Axes& axes, int64_t image, const T* x, int64_t offset, StopWatch* watch,
               int64_t* index) {
  const bool narrow = axes.back().size <= kMaxWidth && image <= INT32_MAX;
  if constexpr (std::is_same_v<T, float>) {
    if (narrow) return ChooseOfColumns(axes, Loops().pooling->max_float, x, offset, watch, index);
  } else if constexpr (std::is_same_v<T, double>) {
    if (narrow) return ChooseOfColumns(axes, Loops().pooling->max_double, x, offset, watch, index);
  }
  ChooseEach(axes, x, offset, watch, index);
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
        ChooseAll(axes, image, data + plane * image, plane * image, &watch,
                  index + plane * windows);
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
