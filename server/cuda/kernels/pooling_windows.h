// The bodies of kernels/windows.h for a GPU: windows of at most three dimensions over arrays of
// fewer than 2^31 elements, without divisions. They visit elements in the same order.
#ifndef CHX_SERVER_CUDA_KERNELS_POOLING_WINDOWS_H_
#define CHX_SERVER_CUDA_KERNELS_POOLING_WINDOWS_H_

#include <algorithm>
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

template <typename T>
struct NarrowMax {
  NarrowWindows windows;
  const T* x;
  T* y;
  int64_t* index;

  CHX_HD void operator()(int64_t i) const {
    const int window = static_cast<int>(i);
    const int plane = NarrowWindows::Quotient(windows.count, window);
    const T* const image = x + plane * windows.image_size.divisor();
    int best_at = -1;
    kernels::Compute<T> best = 0;
    T chosen = kernels::Store<T>(-static_cast<kernels::Compute<T>>(HUGE_VALF));
    windows.ForElements(
        window - plane * NarrowWindows::Size(windows.count), [&](int at) { return image[at]; },
        [&](int at, const T& stored) {
          const kernels::Compute<T> value = kernels::Load(stored);
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

template <typename T>
struct NarrowGather {
  NarrowWindows windows;
  const T* x;
  const int64_t* index;
  T* y;

  CHX_HD void operator()(int64_t i) const {
    const int64_t at = index[i];
    const int64_t image_size = windows.image_size.divisor();
    const int plane = NarrowWindows::Quotient(windows.count, static_cast<int>(i));
    y[i] = at >= 0 && at < image_size ? x[plane * image_size + at] : kernels::Store<T>(0);
  }
};

template <typename T>
struct NarrowScatter {
  struct Entry {
    int64_t index;
    T gy;
  };
  NarrowWindows windows;
  const T* gy;
  const int64_t* index;
  T* x;

  CHX_HD void operator()(int64_t i) const {
    const int element = static_cast<int>(i);
    const int plane = NarrowWindows::Quotient(windows.image_size, element);
    const int position = element - plane * NarrowWindows::Size(windows.image_size);
    const int64_t first = plane * windows.count.divisor();
    kernels::Compute<T> sum = 0;
    windows.ForWindowsAt(
        position,
        [&](int o) {
          return Entry{index[first + o], gy[first + o]};
        },
        [&](int, const Entry& entry) {
          if (entry.index == position) sum += kernels::Load(entry.gy);
        });
    x[i] = kernels::Store<T>(sum);
  }
};

template <typename T>
struct NarrowSum {
  NarrowWindows windows;
  const T* x;
  T* y;

  CHX_HD void operator()(int64_t i) const {
    const int window = static_cast<int>(i);
    const int plane = NarrowWindows::Quotient(windows.count, window);
    const T* const image = x + plane * windows.image_size.divisor();
    kernels::Compute<T> sum = 0;
    windows.ForElements(
        window - plane * NarrowWindows::Size(windows.count), [&](int at) { return image[at]; },
        [&](int, const T& value) { sum += kernels::Load(value); });
    y[i] = kernels::Store<T>(sum);
  }
};

template <typename T>
struct NarrowSpread {
  NarrowWindows windows;
  const T* gy;
  T* x;

  CHX_HD void operator()(int64_t i) const {
    const int element = static_cast<int>(i);
    const int plane = NarrowWindows::Quotient(windows.image_size, element);
    const T* const sums = gy + plane * windows.count.divisor();
    kernels::Compute<T> sum = 0;
    windows.ForWindowsAt(
        element - plane * NarrowWindows::Size(windows.image_size), [&](int o) { return sums[o]; },
        [&](int, const T& value) { sum += kernels::Load(value); });
    x[i] = kernels::Store<T>(sum);
  }
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNELS_POOLING_WINDOWS_H_
