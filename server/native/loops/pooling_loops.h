// The inner loop of max pooling: LoopSet::pooling.
#ifndef CHX_SERVER_NATIVE_LOOPS_POOLING_LOOPS_H_
#define CHX_SERVER_NATIVE_LOOPS_POOLING_LOOPS_H_

#include <cstdint>

namespace chx::server::native {

// Compares one element of each of n neighbouring windows, x[0], x[stride], ..., with the best ones
// so far; at[i] is the position of best[i], -1 for none, and `position` that of x[0]. NaN is best.
template <typename T>
using MaxRow = void (*)(const T* x, int64_t stride, int64_t n, int32_t position, T* best,
                        int32_t* at);

struct PoolingLoops {
  MaxRow<float> max_float;
  MaxRow<double> max_double;
};

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_LOOPS_POOLING_LOOPS_H_
