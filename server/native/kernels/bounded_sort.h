// std::sort that can be stopped.
#ifndef CHX_SERVER_NATIVE_KERNELS_BOUNDED_SORT_H_
#define CHX_SERVER_NATIVE_KERNELS_BOUNDED_SORT_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "server/native/runtime/stops.h"

namespace chx::server::native {

// Elements that one call of std::sort gets: at most 10 ms of work.
inline constexpr int64_t kSortPiece = 64 << 10;

// Sorts n elements by a strict weak order. Long arrays are cut by quicksort into pieces for
// std::sort. The pivot is the median of elements at pseudorandom places, so that no order of the
// data takes more than n log n steps in expectation. If the command is to stop, the elements are
// left in an unspecified order.
template <typename T, typename Less>
void BoundedSort(T* data, int64_t n, Less less) {
  uint64_t random = 0x9e3779b97f4a7c15u;
  StopWatch watch;
  while (n > kSortPiece) {
    constexpr int kSamples = 63;
    T samples[kSamples];
    for (T& sample : samples) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      sample = data[static_cast<int64_t>((random >> 16) % static_cast<uint64_t>(n))];
    }
    std::nth_element(samples, samples + kSamples / 2, samples + kSamples, less);
    const T pivot = samples[kSamples / 2];
    // [0, low) is less, [low, i) equal, [high, n) greater.
    int64_t low = 0;
    int64_t high = n;
    for (int64_t i = 0; i < high;) {
      if (watch.After(1)) return;
      if (less(data[i], pivot)) {
        std::swap(data[low++], data[i++]);
      } else if (less(pivot, data[i])) {
        std::swap(data[i], data[--high]);
      } else {
        ++i;
      }
    }
    // Recursion for the shorter side keeps the depth logarithmic.
    if (low < n - high) {
      BoundedSort(data, low, less);
      data += high;
      n -= high;
    } else {
      BoundedSort(data + high, n - high, less);
      n = low;
    }
    if (StopRequested()) return;
  }
  if (n > 1) std::sort(data, data + n, less);
}

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_KERNELS_BOUNDED_SORT_H_
