// Bounds of many indices.
#ifndef CHX_SERVER_NATIVE_KERNELS_INDEX_BOUNDS_H_
#define CHX_SERVER_NATIVE_KERNELS_INDEX_BOUNDS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/engine/kernel.h"
#include "server/kernels/axis.h"
#include "server/native/runtime/stops.h"

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

// The position of a possibly negative index. If it is out of bounds, returns 0 and sets *beyond.
// The branch is seldom taken, and costs nothing then; to do without takes half as long again.
inline int64_t PositionOf(int64_t index, int64_t size, bool* beyond) {
  if (static_cast<uint64_t>(index) < static_cast<uint64_t>(size)) return index;
  if (index < 0 && index >= -size) return index + size;
  *beyond = true;
  return 0;
}

// Calls visit(i, position) for n indices. Returns whether some are out of bounds; these have
// position 0.
template <typename Visit>
bool VisitPositions(const int64_t* indices, int64_t n, int64_t size, const Visit& visit) {
  bool beyond = false;
  InPieces(n, [&](int64_t begin, int64_t end) {
    bool outside = false;
    for (int64_t i = begin; i < end; ++i) visit(i, PositionOf(indices[i], size, &outside));
    beyond = beyond || outside;
  });
  return beyond;
}

// The error for the first of n indices that is out of bounds.
inline absl::Status FirstBadIndex(absl::string_view op, const int64_t* indices, int64_t n,
                                  int64_t size) {
  StopWatch watch;
  for (int64_t i = 0; i < n && !watch.After(1); ++i) {
    if (indices[i] < -size || indices[i] >= size) {
      return kernels::BadIndexError(op, indices[i], size);
    }
  }
  return absl::OkStatus();
}

// Dense positions in [0, size) from indices in any layout, in C order.
absl::StatusOr<const int64_t*> ResolveIndices(const KernelArgs& args, const KernelTensor& indices,
                                              kernels::IndexMode mode, int64_t size);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_KERNELS_INDEX_BOUNDS_H_
