// Walking over windows row by row: what the elements k of all windows of a channel are.
#ifndef CHX_SERVER_NATIVE_WINDOW_ROWS_H_
#define CHX_SERVER_NATIVE_WINDOW_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "server/kernels/windows.h"

namespace chx::native {

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
template <typename Fn>
void ForRows(const kernels::Windows& w, int64_t k, Fn&& row) {
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

}  // namespace chx::native

#endif  // CHX_SERVER_NATIVE_WINDOW_ROWS_H_
