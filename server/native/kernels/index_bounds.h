// Checks the bounds of many indices.
#ifndef CHX_SERVER_NATIVE_KERNELS_INDEX_BOUNDS_H_
#define CHX_SERVER_NATIVE_KERNELS_INDEX_BOUNDS_H_

#include <cstdint>

namespace chx::server::native {

// Whether all n indices are in [0, size). Combines sign bits, which vectorises.
inline bool InBounds(const int64_t* indices, int64_t n, int64_t size) {
  const uint64_t last = static_cast<uint64_t>(size) - 1;
  uint64_t signs = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t index = static_cast<uint64_t>(indices[i]);
    signs |= index | (last - index);
  }
  return signs >> 63 == 0;
}

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_KERNELS_INDEX_BOUNDS_H_
