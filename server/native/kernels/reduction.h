// The reductions, for other groups of operators that reduce.
#ifndef CHX_SERVER_NATIVE_KERNELS_REDUCTION_H_
#define CHX_SERVER_NATIVE_KERNELS_REDUCTION_H_

#include "server/engine/kernel.h"
#include "server/native/loops/loops.h"

namespace chx::server::native {

// The kernel of an operator whose first attribute is the axes (for kArgMax and kArgMin one axis).
// Instantiated in reduction.cc.
template <ReduceOp kOp>
absl::Status Reduce(const KernelArgs& args);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_KERNELS_REDUCTION_H_
