// Runs an inner loop over all elements of strided operands (a loop nest), on all threads.
#ifndef CHX_SERVER_NATIVE_LOOPS_NEST_H_
#define CHX_SERVER_NATIVE_LOOPS_NEST_H_

#include <cstdint>

#include "server/engine/kernel.h"
#include "server/kernels/indexer.h"
#include "server/native/loops/loops.h"
#include "server/native/runtime/thread_pool.h"

namespace chx::server::native {

// Elements of cheap work that are worth waking a thread for.
inline constexpr int64_t kGrain = 32 << 10;

// `data` and the nest's operands are in the loop's order. N is 1 to 5. `items`: the size of each
// operand's elements.
template <int N>
void RunNest(ThreadPool& pool, const kernels::LoopNest<N>& nest, char* const (&data)[N],
             const int64_t (&items)[N], Loop loop);

// out = loop(inputs ...), with up to 3 inputs of the output's shape or scalars.
absl::Status RunLoop(const KernelArgs& args, Loop loop);

// The same for one input, which is broadcast to the output. Both may have any strides.
void RunUnary(ThreadPool& pool, const KernelTensor& in, const KernelTensor& out, Loop loop);

// Writes the scalar, as an element of `dtype`, to 8 bytes at `buffer`.
void StoreScalar(const Scalar& scalar, Dtype dtype, char* buffer);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_LOOPS_NEST_H_
