// PoolingLoops for the instruction set that this file is compiled for.
#include "server/kernels/hd.h"
#include "server/native/pooling_loops.h"

namespace chx::server::native {
namespace CHX_LOOPS_NAMESPACE {

// With `kStride` known the compiler loads vectors; 0: it is an argument.
template <typename T, int64_t kStride>
CHX_HD void MaxStrided(const T* x, int64_t any_stride, int64_t n, int32_t position, T* best,
                       int32_t* at) {
  const int64_t stride = kStride != 0 ? kStride : any_stride;
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
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

}  // namespace CHX_LOOPS_NAMESPACE

const PoolingLoops& CHX_LOOPS_FUNCTION() {
  static const PoolingLoops loops = {CHX_LOOPS_NAMESPACE::Max<float>,
                                     CHX_LOOPS_NAMESPACE::Max<double>};
  return loops;
}

}  // namespace chx::server::native
