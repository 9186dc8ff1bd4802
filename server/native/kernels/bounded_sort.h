// std::sort and std::nth_element that can be stopped.
#ifndef CHX_SERVER_NATIVE_KERNELS_BOUNDED_SORT_H_
#define CHX_SERVER_NATIVE_KERNELS_BOUNDED_SORT_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "server/native/runtime/stops.h"

namespace chx::server::native {

// Elements that one call of std::sort gets: at most 10 ms of work.
inline constexpr int64_t kSortPiece = 64 << 10;

// Quicksort's step, by a strict weak order. The pivot is the median of elements at pseudorandom
// places, so that no order of the data takes more than n log n steps in expectation.
class Partitioner {
 public:
  // Moves what is less than a pivot to [0, *low), what is greater to [*high, n). False if the
  // command is to stop.
  template <typename T, typename Less>
  bool Split(T* data, int64_t n, Less less, int64_t* low, int64_t* high) {
    constexpr int kSamples = 63;
    T samples[kSamples];
    for (T& sample : samples) {
      random_ = random_ * 6364136223846793005u + 1442695040888963407u;
      sample = data[static_cast<int64_t>((random_ >> 16) % static_cast<uint64_t>(n))];
    }
    std::nth_element(samples, samples + kSamples / 2, samples + kSamples, less);
    const T pivot = samples[kSamples / 2];
    // [low, i) is equal.
    *low = 0;
    *high = n;
    for (int64_t i = 0; i < *high;) {
      if (watch_.After(1)) return false;
      if (less(data[i], pivot)) {
        std::swap(data[(*low)++], data[i++]);
      } else if (less(pivot, data[i])) {
        std::swap(data[i], data[--*high]);
      } else {
        ++i;
      }
    }
    return true;
  }

 private:
  uint64_t random_ = 0x9e3779b97f4a7c15u;
  StopWatch watch_;
};

// Sorts n elements by a strict weak order. Long arrays are cut into pieces for std::sort. If the
// command is to stop, the elements are left in an unspecified order.
template <typename T, typename Less>
void BoundedSort(T* data, int64_t n, Less less) {
  Partitioner partitioner;
  while (n > kSortPiece) {
    int64_t low = 0;
    int64_t high = 0;
    if (!partitioner.Split(data, n, less, &low, &high)) return;
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

// Moves the k least of n elements to the front, the greatest of them to place k - 1; 0 < k <= n. If
// the command is to stop, the order is unspecified.
template <typename T, typename Less>
void BoundedSelect(T* data, int64_t n, int64_t k, Less less) {
  Partitioner partitioner;
  while (n > kSortPiece) {
    int64_t low = 0;
    int64_t high = 0;
    if (!partitioner.Split(data, n, less, &low, &high)) return;
    if (k > low && k <= high) return;
    if (k <= low) {
      n = low;
    } else {
      data += high;
      n -= high;
      k -= high;
    }
  }
  std::nth_element(data, data + k - 1, data + n, less);
}

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_KERNELS_BOUNDED_SORT_H_
