#include "server/native/loops/pooling_loops.h"

#include <cstdint>

#include "server/native/loops/elements.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

// With `kStride` known the compiler loads vectors; 0: it is an argument.
template <typename T, int64_t kStride>
CHX_HD void MaxStrided(const T* x, int64_t any_stride, int64_t n, int32_t position, T* best,
                       int32_t* at) {
  const int64_t stride = kStride != 0 ? kStride : any_stride;
  CHX_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T value = x[i * stride];
    const T old = best[i];
    // Not ||: no branches.
    const bool chosen = static_cast<int>(value > old) | static_cast<int>(at[i] < 0) |
                        (static_cast<int>(value != value) & static_cast<int>(old == old));
    best[i] = chosen ? value : old;
    at[i] = chosen ? position + static_cast<int32_t>(i * stride) : at[i];
  }
}

template <typename T>
void Max(const T* x, int64_t stride, int64_t n, int32_t position, T* best, int32_t* at) {
  switch (stride) {
    case 1:
      return MaxStrided<T, 1>(x, stride, n, position, best, at);
    case 2:
      return MaxStrided<T, 2>(x, stride, n, position, best, at);
    default:
      return MaxStrided<T, 0>(x, stride, n, position, best, at);
  }
}

constexpr PoolingLoops kPoolingLoops = {Max<float>, Max<double>};

}  // namespace

void FillPooling(LoopSet* set) { set->pooling = &kPoolingLoops; }

}  // namespace chx::server::native::CHX_ISA
