// Walking over windows row by row: what the elements k of all windows of a channel are.
#ifndef CHX_SERVER_NATIVE_KERNELS_WINDOW_ROWS_H_
#define CHX_SERVER_NATIVE_KERNELS_WINDOW_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "server/kernels/windows.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {

// In dimension d: which windows have their element k inside the image.
inline void ValidCounts(const kernels::Windows& w, int d, int64_t k, int64_t* first,
                        int64_t* last) {
  const int64_t begin = w.pad[d] - k;  // o * stride >= begin
  const int64_t end = w.image[d] + begin;
  *first = begin <= 0 ? 0 : std::min(w.counts[d], (begin + w.stride[d] - 1) / w.stride[d]);
  *last = end <= 0 ? 0 : std::min(w.counts[d], (end - 1) / w.stride[d] + 1);
  *last = std::max(*first, *last);
}

// For element k of the windows of one channel: calls row(o, at, first, last) for each row of
// windows along the last dimension, where o is the row's first window, and windows [first, last) of
// the row have their element in the image, from position `at` on. Rows in the padding have none.
// Ends early when it is to stop.
template <typename Fn>
void ForRows(const kernels::Windows& w, int64_t k, StopWatch* watch, Fn&& row) {
  const int inner = w.ndim - 1;
  int64_t offset[kernels::Windows::kMaxDims];  // of the element in its window
  for (int d = inner; d >= 0; --d) {
    offset[d] = k % w.kernel[d];
    k /= w.kernel[d];
  }
  int64_t first = 0;
  int64_t last = 0;
  ValidCounts(w, inner, offset[inner], &first, &last);
  int64_t o[kernels::Windows::kMaxDims] = {};
  for (int64_t begin = 0; begin < w.count; begin += w.counts[inner]) {
    if (watch->After(w.counts[inner])) return;
    int64_t at = 0;
    bool inside = first < last;
    for (int d = 0; d < inner; ++d) {
      const int64_t position = o[d] * w.stride[d] - w.pad[d] + offset[d];
      inside = inside && position >= 0 && position < w.image[d];
      at = (at + position) * w.image[d + 1];
    }
    at += first * w.stride[inner] - w.pad[inner] + offset[inner];
    row(begin, at, inside ? first : 0, inside ? last : 0);
    for (int d = inner - 1; d >= 0 && ++o[d] == w.counts[d]; --d) o[d] = 0;
  }
}

// The same windows in fewer dimensions: one in which a window is the whole dimension, and dense, is
// part of the one before it. A global pooling has one dimension then.
inline kernels::Windows Merged(const kernels::Windows& w) {
  kernels::Windows merged;
  int64_t inner = 1;  // elements of the dimensions that are merged into the next
  int last = w.ndim - 1;
  while (last > 0 && w.counts[last] == 1 && w.kernel[last] == w.image[last] && w.pad[last] == 0) {
    inner *= w.image[last--];
  }
  for (int d = 0; d <= last; ++d) {
    const int64_t times = d == last ? inner : 1;
    merged.Append(w.image[d] * times, w.counts[d], w.kernel[d] * times, w.stride[d] * times,
                  w.pad[d] * times);
  }
  return merged;
}

// Calls run(at, n) for window o of one channel: for the n neighbouring elements of the image, from
// position `at` on, that a row of the window has inside, in C order; long rows in pieces. Ends
// early when it is to stop.
template <typename Fn>
void ForRuns(const kernels::Windows& w, int64_t o, StopWatch* watch, Fn&& run) {
  const int inner = w.ndim - 1;
  int64_t first[kernels::Windows::kMaxDims];
  int64_t last[kernels::Windows::kMaxDims];
  for (int d = inner; d >= 0; --d) {
    const int64_t begin = o % w.counts[d] * w.stride[d] - w.pad[d];
    o /= w.counts[d];
    first[d] = std::max<int64_t>(0, begin);
    last[d] = std::min(w.image[d], begin + w.kernel[d]);
    if (first[d] >= last[d]) return;
  }
  int64_t at[kernels::Windows::kMaxDims];
  std::copy_n(first, inner + 1, at);
  for (;;) {
    int64_t position = 0;
    for (int d = 0; d <= inner; ++d) position = position * w.image[d] + at[d];
    const int64_t length = last[inner] - first[inner];
    if (watch->After(length)) return;
    InPieces(length, [&](int64_t begin, int64_t end) { run(position + begin, end - begin); });
    int d = inner - 1;
    for (; d >= 0 && ++at[d] == last[d]; --d) at[d] = first[d];
    if (d < 0) return;
  }
}

// Neighbouring windows of a row of windows, and what of an image's rows they see.
struct Neighbours {
  int64_t row;    // of windows
  int64_t first;  // of them
  int64_t count;
  int64_t from;   // the first one's first element along the last dimension, perhaps in the padding
  int64_t begin;  // [begin, end): what they see of the last dimension
  int64_t end;
};

// Elements along the last dimension that the windows of a Neighbours see, at most.
inline constexpr int64_t kMaxSpan = 2048;

// Whether ForNeighbours has enough windows at a time.
inline bool FitInSpan(const kernels::Windows& w) {
  const int inner = w.ndim - 1;
  return w.kernel[inner] + 15 * w.stride[inner] <= kMaxSpan;
}

// Calls fn(neighbours) for all windows of one channel, FitInSpan(w). Ends early when it is to stop.
template <typename Fn>
void ForNeighbours(const kernels::Windows& w, StopWatch* watch, Fn&& fn) {
  const int inner = w.ndim - 1;
  const int64_t columns = w.counts[inner];
  const int64_t most = (kMaxSpan - w.kernel[inner]) / w.stride[inner] + 1;
  Neighbours next;
  for (next.row = 0; next.row < w.count / columns; ++next.row) {
    for (int64_t column = 0; column < columns; column += most) {
      next.first = next.row * columns + column;
      next.count = std::min(most, columns - column);
      next.from = column * w.stride[inner] - w.pad[inner];
      const int64_t end = next.from + (next.count - 1) * w.stride[inner] + w.kernel[inner];
      next.begin = std::max<int64_t>(0, next.from);
      next.end = std::max(next.begin, std::min(w.image[inner], end));
      if (watch->After(next.count * w.kernel[inner])) return;
      fn(next);
    }
  }
}

// The windows without the last dimension: their elements are rows of the image.
inline kernels::Windows WindowsOfRows(const kernels::Windows& w) {
  kernels::Windows rows;
  for (int d = 0; d + 1 < w.ndim; ++d) {
    rows.Append(w.image[d], w.counts[d], w.kernel[d], w.stride[d], w.pad[d]);
  }
  if (rows.ndim == 0) rows.Append(1, 1, 1, 1, 0);
  return rows;
}

// Whether few windows lie side by side: then each is walked by itself, by ForRuns.
inline bool AreFewAcross(const kernels::Windows& w) {
  const int inner = w.ndim - 1;
  return w.counts[inner] < 4 || w.kernel[inner] >= 4 * w.counts[inner];
}

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_KERNELS_WINDOW_ROWS_H_
