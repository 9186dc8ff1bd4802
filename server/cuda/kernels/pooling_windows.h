// Windows of poolings, and bodies that compute with them. Those of at most three dimensions over
// arrays of fewer than 2^31 elements go without divisions; both kinds visit elements in the same
// order.
#ifndef CHX_SERVER_CUDA_KERNELS_POOLING_WINDOWS_H_
#define CHX_SERVER_CUDA_KERNELS_POOLING_WINDOWS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "server/cuda/loops/device_nest.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/types.h"
#include "server/kernels/windows.h"

namespace chx::server::cuda {

// Positions of three dimensions, or windows; none if last <= first in one of them.
struct Box {
  int first[3];
  int last[3];
};

// fn(linear position, load(linear position)) for each position of the box, in C order. A block of
// rows and columns is loaded at a time, so that loads overlap. Rows must not be longer than a block
// of several.
template <int kRows, int kColumns, typename Load, typename Fn>
CHX_HD void ForBlocks(const Box& box, int rows, int columns, const Load& load, const Fn& fn) {
  for (int z = box.first[0]; z < box.last[0]; ++z) {
    for (int y = box.first[1]; y < box.last[1]; y += kRows) {
      for (int x = box.first[2]; x < box.last[2]; x += kColumns) {
        const int corner = (z * rows + y) * columns + x;
        decltype(load(0)) values[kRows][kColumns] = {};
        CHX_UNROLL
        for (int r = 0; r < kRows; ++r) {
          CHX_UNROLL
          for (int c = 0; c < kColumns; ++c) {
            if (y + r < box.last[1] && x + c < box.last[2]) {
              values[r][c] = load(corner + r * columns + c);
            }
          }
        }
        CHX_UNROLL
        for (int r = 0; r < kRows; ++r) {
          CHX_UNROLL
          for (int c = 0; c < kColumns; ++c) {
            if (y + r < box.last[1] && x + c < box.last[2]) {
              fn(corner + r * columns + c, values[r][c]);
            }
          }
        }
      }
    }
  }
}

// Plain data. Dimensions that the windows lack come first, as of one element each.
struct NarrowWindows {
  using Index = int;

  Divider image[3];
  Divider counts[3];
  Divider stride[3];
  int kernel[3];
  int pad[3];
  Divider image_size;
  Divider count;
  bool short_windows;  // rows of at most 3 elements
  bool short_covers;   // of the windows at a position, rows of at most 2

  // Whether windows over `planes` images can be that.
  static bool Fits(const kernels::Windows& windows, int64_t planes) {
    constexpr int64_t kLimit = int64_t{1} << 31;
    if (windows.ndim > 3) return false;
    if (planes > kLimit || windows.image_size > kLimit || windows.count > kLimit) return false;
    if (planes * std::max(windows.image_size, windows.count) >= kLimit) return false;
    for (int d = 0; d < windows.ndim; ++d) {
      const int64_t kernel = windows.kernel[d];
      const int64_t stride = windows.stride[d];
      const int64_t pad = windows.pad[d];
      if (std::max({kernel, stride, pad}) >= kLimit / 4 || pad < 0) return false;
      if (windows.counts[d] > kLimit / 4 / stride || windows.image[d] > kLimit / 4) return false;
    }
    return true;
  }

  NarrowWindows() = default;
  explicit NarrowWindows(const kernels::Windows& windows) {
    constexpr int64_t kLimit = int64_t{1} << 31;
    const int missing = 3 - windows.ndim;
    for (int d = 0; d < 3; ++d) {
      const int from = d - missing;
      image[d] = Divider(from < 0 ? 1 : windows.image[from], kLimit);
      counts[d] = Divider(from < 0 ? 1 : windows.counts[from], kLimit);
      stride[d] = Divider(from < 0 ? 1 : windows.stride[from], kLimit);
      kernel[d] = from < 0 ? 1 : static_cast<int>(windows.kernel[from]);
      pad[d] = from < 0 ? 0 : static_cast<int>(windows.pad[from]);
    }
    image_size = Divider(windows.image_size, kLimit);
    count = Divider(windows.count, kLimit);
    short_windows = kernel[2] <= 3;
    short_covers = kernel[2] <= 2 * stride[2].divisor();
  }

  CHX_HD int64_t image_elements() const { return image_size.divisor(); }
  CHX_HD int64_t window_count() const { return count.divisor(); }
  // Of an element of all images, or of a window.
  CHX_HD int PlaneOfElement(int i) const { return Quotient(image_size, i); }
  CHX_HD int PlaneOfWindow(int i) const { return Quotient(count, i); }

  // As Windows::Inside, of all dimensions.
  CHX_HD double Inside(int o) const {
    double product = 1;
    CHX_UNROLL
    for (int d = 2; d >= 0; --d) {
      const int rest = Quotient(counts[d], o);
      const int begin = (o - rest * Size(counts[d])) * Size(stride[d]) - pad[d];
      const int end = begin + kernel[d];
      product *= (end < Size(image[d]) ? end : Size(image[d])) - (begin < 0 ? 0 : begin);
      o = rest;
    }
    return product;
  }

  // As Windows::ForElements and ForWindowsAt, with the value that load(position) gave.
  template <typename Load, typename Fn>
  CHX_HD void ForElements(int o, const Load& load, const Fn& fn) const {
    Box box;
    CHX_UNROLL
    for (int d = 2; d >= 0; --d) {
      const int rest = Quotient(counts[d], o);
      const int begin = (o - rest * Size(counts[d])) * Size(stride[d]) - pad[d];
      const int end = begin + kernel[d];
      box.first[d] = begin < 0 ? 0 : begin;
      box.last[d] = end < Size(image[d]) ? end : Size(image[d]);
      o = rest;
    }
    if (short_windows) {
      ForBlocks<3, 3>(box, Size(image[1]), Size(image[2]), load, fn);
    } else {
      ForBlocks<1, 4>(box, Size(image[1]), Size(image[2]), load, fn);
    }
  }
  template <typename Load, typename Fn>
  CHX_HD void ForWindowsAt(int position, const Load& load, const Fn& fn) const {
    Box box;
    CHX_UNROLL
    for (int d = 2; d >= 0; --d) {
      const int rest = Quotient(image[d], position);
      const int where = position - rest * Size(image[d]) + pad[d];
      const int before = where - kernel[d] + 1;
      const int end = Quotient(stride[d], where) + 1;
      box.first[d] = before <= 0 ? 0 : Quotient(stride[d], before + Size(stride[d]) - 1);
      box.last[d] = end < Size(counts[d]) ? end : Size(counts[d]);
      position = rest;
    }
    if (short_covers) {
      ForBlocks<2, 2>(box, Size(counts[1]), Size(counts[2]), load, fn);
    } else {
      ForBlocks<1, 4>(box, Size(counts[1]), Size(counts[2]), load, fn);
    }
  }

  CHX_HD static int Size(const Divider& divider) { return static_cast<int>(divider.divisor()); }
  CHX_HD static int Quotient(const Divider& divider, int n) {
    return static_cast<int>(divider.NarrowQuotient(static_cast<uint32_t>(n)));
  }
};

// kernels::Windows in the same form, for all others.
struct WideWindows {
  using Index = int64_t;

  kernels::Windows windows;

  CHX_HD int64_t image_elements() const { return windows.image_size; }
  CHX_HD int64_t window_count() const { return windows.count; }
  CHX_HD int64_t PlaneOfElement(int64_t i) const { return i / windows.image_size; }
  CHX_HD int64_t PlaneOfWindow(int64_t i) const { return i / windows.count; }
  CHX_HD double Inside(int64_t o) const { return windows.Inside(o, windows.ndim); }
  template <typename Load, typename Fn>
  CHX_HD void ForElements(int64_t o, const Load& load, const Fn& fn) const {
    windows.ForElements(o, [&](int64_t at) { fn(at, load(at)); });
  }
  template <typename Load, typename Fn>
  CHX_HD void ForWindowsAt(int64_t position, const Load& load, const Fn& fn) const {
    windows.ForWindowsAt(position, [&](int64_t o, int64_t) { fn(o, load(o)); });
  }
};

// The bodies that follow compute one element each; W is one of the two kinds of windows.

// The greatest element of each window, NaN if there is one, and if `index` is not null its position
// in the image: -1 where a window lies in the padding altogether.
template <typename T, typename W>
struct MaxBody {
  using Index = typename W::Index;
  using C = kernels::Compute<T>;

  W windows;
  const T* x;
  T* y;
  int64_t* index;

  CHX_HD void operator()(int64_t i) const {
    const Index window = static_cast<Index>(i);
    const Index plane = windows.PlaneOfWindow(window);
    const T* const image = x + plane * windows.image_elements();
    Index best_at = -1;
    C best = 0;
    T chosen = kernels::Store<T>(-static_cast<C>(HUGE_VALF));
    windows.ForElements(
        static_cast<Index>(window - plane * windows.window_count()),
        [&](Index at) { return image[at]; },
        [&](Index at, const T& stored) {
          const C value = kernels::Load(stored);
          if (best_at < 0 || value > best || (value != value && best == best)) {
            best = value;
            best_at = at;
            chosen = stored;
          }
        });
    y[i] = chosen;
    if (index != nullptr) index[i] = best_at;
  }
};

// y = the elements of x at `index`; zero where it is no position.
template <typename T, typename W>
struct GatherBody {
  W windows;
  const T* x;
  const int64_t* index;
  T* y;

  CHX_HD void operator()(int64_t i) const {
    const int64_t at = index[i];
    const int64_t size = windows.image_elements();
    const int64_t plane = windows.PlaneOfWindow(static_cast<typename W::Index>(i));
    y[i] = at >= 0 && at < size ? x[plane * size + at] : kernels::Store<T>(0);
  }
};

// x = zeros with gy added at `index`.
template <typename T, typename W>
struct ScatterBody {
  using Index = typename W::Index;
  struct Entry {
    int64_t index;
    T gy;
  };

  W windows;
  const T* gy;
  const int64_t* index;
  T* x;

  CHX_HD void operator()(int64_t i) const {
    const Index element = static_cast<Index>(i);
    const Index plane = windows.PlaneOfElement(element);
    const auto position = static_cast<Index>(element - plane * windows.image_elements());
    const int64_t first = plane * windows.window_count();
    kernels::Compute<T> sum = 0;
    windows.ForWindowsAt(
        position,
        [&](Index o) {
          return Entry{index[first + o], gy[first + o]};
        },
        [&](Index, const Entry& entry) {
          if (entry.index == position) sum += kernels::Load(entry.gy);
        });
    x[i] = kernels::Store<T>(sum);
  }
};

// The average of each window: its sum over `divisor` (PoolDivisor).
template <typename T, typename W>
struct AverageBody {
  using Index = typename W::Index;
  using C = kernels::Compute<T>;

  W windows;
  double divisor;
  const T* x;
  T* y;

  CHX_HD void operator()(int64_t i) const {
    const Index window = static_cast<Index>(i);
    const Index plane = windows.PlaneOfWindow(window);
    const auto o = static_cast<Index>(window - plane * windows.window_count());
    const T* const image = x + plane * windows.image_elements();
    C sum = 0;
    windows.ForElements(
        o, [&](Index at) { return image[at]; },
        [&](Index, const T& value) { sum += kernels::Load(value); });
    y[i] = kernels::Store<T>(sum / static_cast<C>(divisor != 0 ? divisor : windows.Inside(o)));
  }
};

// Its gradient: at each position the sum over the windows that it is in.
template <typename T, typename W>
struct AverageGradBody {
  using Index = typename W::Index;
  using C = kernels::Compute<T>;

  W windows;
  double divisor;
  const T* gy;
  T* x;

  CHX_HD void operator()(int64_t i) const {
    const Index element = static_cast<Index>(i);
    const Index plane = windows.PlaneOfElement(element);
    const T* const averages = gy + plane * windows.window_count();
    C sum = 0;
    windows.ForWindowsAt(
        static_cast<Index>(element - plane * windows.image_elements()),
        [&](Index o) { return averages[o]; },
        [&](Index o, const T& value) {
          const C g = kernels::Load(value);
          sum += divisor != 0 ? g : g / static_cast<C>(windows.Inside(o));
        });
    x[i] = kernels::Store<T>(divisor != 0 ? sum / static_cast<C>(divisor) : sum);
  }
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNELS_POOLING_WINDOWS_H_
