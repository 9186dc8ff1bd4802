// The order that sorting establishes, for host and device.
#ifndef CHX_SERVER_KERNELS_ORDERING_H_
#define CHX_SERVER_KERNELS_ORDERING_H_

#include <cstdint>

#include "server/kernels/host_device.h"

namespace chx::server::kernels {

// NaNs come last.
template <typename C>
CHX_HD bool Precedes(C a, C b) {
  return a < b || (b != b && a == a);
}

// The same, with equal elements in the order of their positions.
template <typename C>
CHX_HD bool PrecedesStably(C a, int64_t a_position, C b, int64_t b_position) {
  if (Precedes(a, b)) return true;
  if (Precedes(b, a)) return false;
  return a_position < b_position;
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_ORDERING_H_
